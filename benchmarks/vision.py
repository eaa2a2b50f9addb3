"""Speed of the Vision Transformer compared with its peers: exported SavedModel and training step.

    python benchmarks/vision.py [--rounds 5] [--batches 1 8 32] [--train ti16 cifar]

Inference: ViT-S/16 at 224 pixels with random weights; ours is the SavedModel's signature for float
images, without and with XLA. Training: forward, backward and AdamW with `fit`, Ti/16 with 32 images
and a ViT for 32 pixels (patch 4, dim 192, 9 blocks, 3 heads) with 128. The peers: keras-hub's ViT
and, where installed (`pip install torch timm onnx onnxruntime`), timm eager and compiled, and ONNX
Runtime. A ratio is the median over the rounds of (peer's time / our time): above 1 ours is faster;
timing.py explains the measurement. `peak` is the speed of the matrix products as a fraction of the
fastest float32 matrix product in the same rounds.
"""

import argparse
import io
import statistics
import tempfile
from pathlib import Path

from timing import (
    block_flops,
    fit_case,
    loop_case,
    matmul_case,
    median_ratio,
    peak_flops,
    time_interleaved,
)

from tfx_transformer.runtime import start_tensorflow

start_tensorflow()

import keras  # noqa: E402
import keras_hub  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from tfx_transformer.export import export  # noqa: E402
from tfx_transformer.models import create_model  # noqa: E402
from tfx_transformer.pipelines.classifier import Classifier  # noqa: E402
from tfx_transformer.training.optimizer import FusedAdam  # noqa: E402

try:
    import timm
    import torch
except ImportError:
    torch = None
try:
    import onnxruntime
except ImportError:
    onnxruntime = None

OURS = ("ours", "ours + XLA")
CLASSES = 1000
S16 = (224, 16, 384, 12, 6)  # image, patch, dim, depth, heads
TRAIN = {  # the same, and the batch
    "ti16": (224, 16, 192, 12, 3, 32),
    "cifar": (32, 4, 192, 9, 3, 128),
}


def hub_vit(size, patch, dim, depth, heads):
    """keras-hub's backbone with a head on its class token."""
    backbone = keras_hub.models.ViTBackbone(
        image_shape=(size, size, 3),
        patch_size=patch,
        num_layers=depth,
        num_heads=heads,
        hidden_dim=dim,
        mlp_dim=4 * dim,
    )
    return keras.Sequential(
        [backbone, keras.layers.Lambda(lambda x: x[:, 0]), keras.layers.Dense(CLASSES)]
    )


def timm_vit(size, patch, dim, depth, heads):
    return timm.models.VisionTransformer(
        img_size=size,
        patch_size=patch,
        embed_dim=dim,
        depth=depth,
        num_heads=heads,
        num_classes=CLASSES,
    )


def serve(model, folder, jit_compile):
    """The exported signature for pixels, loaded again."""
    names = [str(i) for i in range(CLASSES)]
    path = export(Classifier(model, names, jit_compile=jit_compile), folder)
    loaded = tf.saved_model.load(str(path))
    return lambda images: loaded.signatures["images"](images)["score"].numpy()


def inference_cases(folder):
    """Functions of images (B, 224, 224, 3), by name."""
    model = create_model("vit", "s16", num_classes=CLASSES)
    cases = {}
    for name in OURS:
        function = serve(model, folder / name, name == "ours + XLA")
        cases[name] = lambda x, f=function: f(tf.constant(x))
    hub = hub_vit(*S16)
    hub_graph = tf.function(lambda x: hub(x, training=False), jit_compile=False)
    cases["keras-hub"] = lambda x: hub_graph(tf.constant(x)).numpy()
    if torch is None:
        return cases
    eager = timm_vit(*S16).eval()
    compiled = torch.compile(eager)

    def call(function):
        def run(x):
            with torch.inference_mode():
                return function(torch.from_numpy(x.transpose(0, 3, 1, 2).copy())).numpy()

        return run

    cases |= {"timm": call(eager), "timm, compiled": call(compiled)}
    if onnxruntime is not None:
        file = io.BytesIO()
        example = torch.zeros(1, 3, 224, 224)
        axes = {"image": {0: "batch"}}
        torch.onnx.export(
            eager, example, file, input_names=["image"], dynamic_axes=axes, dynamo=False
        )
        session = onnxruntime.InferenceSession(file.getvalue())
        cases["ONNX Runtime"] = lambda x: session.run(
            None, {"image": np.ascontiguousarray(x.transpose(0, 3, 1, 2))}
        )
    return cases


def timm_case(model, images, labels):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    images = torch.from_numpy(images.transpose(0, 3, 1, 2).copy())
    labels = torch.from_numpy(labels)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return loop_case(step)


def training_cases(name, rng):
    size, patch, dim, depth, heads, batch = TRAIN[name]
    shape = (size, patch, dim, depth, heads)
    images = rng.normal(size=(batch, size, size, 3)).astype("float32")
    labels = np.eye(CLASSES, dtype="float32")[rng.integers(0, CLASSES, batch)]
    data = tf.data.Dataset.from_tensors((images, labels))
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    cases = {}
    for contender in OURS:
        model = create_model(
            "vit",
            "ti16",
            num_classes=CLASSES,
            image_size=size,
            patch_size=patch,
            dim=dim,
            depth=depth,
            num_heads=heads,
            mlp_dim=4 * dim,
        )
        optimizer = FusedAdam(1e-4, weight_decay=0.05)
        cases[contender] = fit_case(model, data, optimizer, loss, contender == "ours + XLA")
    cases["keras-hub"] = fit_case(hub_vit(*shape), data, keras.optimizers.AdamW(1e-4), loss)
    if torch is not None:
        cases["timm"] = timm_case(timm_vit(*shape).train(), images, labels)
        cases["timm, compiled"] = timm_case(torch.compile(timm_vit(*shape).train()), images, labels)
    return cases, batch


def vit_flops(size, patch, dim, depth, heads):
    """Operations in the matrix products for one image, forward pass."""
    patches = (size // patch) ** 2
    embedding = 2 * patches * 3 * patch * patch * dim
    return embedding + depth * block_flops(1, patches + 1, dim, 4 * dim)


def measure(job, cases, batch, flops, rounds, warmup):
    """Prints a row for each case, given the operations per image."""
    seconds = time_interleaved(cases | {"matmul": matmul_case()}, rounds, warmup)
    peak = peak_flops(seconds.pop("matmul"))
    for name, times in seconds.items():
        ratios = [median_ratio(times, seconds[ours]) for ours in OURS]
        speed = batch / statistics.median(times)
        print(
            f"| {job} | {batch} | {name} | {speed:,.1f} | {ratios[0]:.2f} | {ratios[1]:.2f} "
            f"| {speed * flops / peak:.0%} |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--train", nargs="*", choices=list(TRAIN), default=list(TRAIN))
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print("| job | batch | contender | images/s | ours is faster by | ours + XLA | peak |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        functions = inference_cases(Path(folder)) if options.batches else {}
        for batch in options.batches:
            images = rng.random((batch, 224, 224, 3), dtype="float32")
            cases = {name: lambda f=f, x=images: f(x) for name, f in functions.items()}
            measure("ViT-S/16, inference", cases, batch, vit_flops(*S16), options.rounds, warmup=2)
    for name in options.train:
        cases, batch = training_cases(name, rng)
        flops = 3 * vit_flops(*TRAIN[name][:-1])
        measure(f"{name}, training", cases, batch, flops, options.rounds, warmup=1)


if __name__ == "__main__":
    main()
