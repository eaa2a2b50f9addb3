"""Image classifiers side by side: what ViT replaced, ViT, and what came after it.

    python benchmarks/vision_zoo.py [--steps 600] [--source embedded:digits] [--models vit swin …]

Every model is trained by the same recipe, with the same images, for the same number of updates, in
a process of its own; they differ in `ZOO` alone. The table tells parameters, accuracy on the test
set, images a second in training, and the process's greatest memory. A second table is of attention
alone: the memory that one layer over N positions takes, forward and backward.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

SIDE = 16  # pixels; digits are scans of 8 × 8, and enlarged
ZOO = {  # model, variant, options
    "convolutions alone": ("attention_cnn", "cnn", {"dims": (32, 64, 128)}),
    "attention between convolutions": ("attention_cnn", "hybrid", {"dims": (32, 64, 128)}),
    "attention instead of convolutions": ("attention_cnn", "local", {"dims": (32, 64, 128)}),
    "attention over pixels": ("pixel_transformer", "small", {"side": 16, "dim": 96}),
    "ViT": ("vit", "tiny", {"patch_size": 4, "dim": 96, "depth": 4, "mlp_dim": 192}),
    "compact ViT": ("vit", "cct_7_3x1", {"dim": 96, "depth": 4, "mlp_dim": 192}),
    "Swin": ("swin", "cifar", {"dim": 48, "mlp_dim": 96}),
    "MLP-Mixer": ("mlp_mixer", "cifar", {"dim": 96, "mlp_dim": 192}),
}
POSITIONS = (64, 256, 1024, 4096)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--source", default="embedded:digits")
    parser.add_argument("--size", type=int, default=SIDE, help="height and width of the images")
    parser.add_argument("--models", nargs="*", choices=[*ZOO], default=[*ZOO])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(json.loads(options.child))))
        return

    print("| model | parameters | accuracy, % | images/s | memory, MB |\n|---|---:|---:|---:|---:|")
    for name in options.models:
        task = {"model": name, "steps": options.steps, "source": options.source}
        found = run(task | {"size": options.size})
        cells = f"{found['parameters']:,} | {found['accuracy']:.1f} | {found['speed']:,.0f}"
        print(f"| {name} | {cells} | {found['memory']:,.0f} |", flush=True)

    print("\n| positions | weights of one head | memory, MB |\n|---:|---:|---:|")
    for positions in POSITIONS:
        found = run({"positions": positions})
        print(f"| {positions:,} | {positions**2:,} | {found['memory']:,.0f} |", flush=True)


def run(task: dict) -> dict:
    """A task in a process of its own, so that its memory is its own."""
    command = [sys.executable, __file__, "--child", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def child(task: dict) -> dict:
    return measure_attention(task["positions"]) if "positions" in task else measure_model(task)


def measure_model(task: dict) -> dict:
    from tfx_transformer.callbacks import Record
    from tfx_transformer.train.classify_digits import RECIPE
    from tfx_transformer.train.folder import load_run
    from tfx_transformer.train.recipe import ClassifyModel
    from tfx_transformer.train.run import train

    name, variant, options = ZOO[task["model"]]

    class Model(ClassifyModel):  # with options that the command line has not
        def overrides(self):
            return {"image_size": task["size"], **options}

    recipe = replace(
        RECIPE,
        data=replace(RECIPE.data, source=task["source"]),
        model=Model(name, variant),
        steps=task["steps"],
        eval_steps=(task["steps"] + 1) // 2,  # the second half is timed: all is traced by then
    )
    with tempfile.TemporaryDirectory() as folder:
        accuracy = train(recipe, folder)["accuracy"]
        speed = Record(Path(folder, "metrics.jsonl")).read()[-1]["images_per_second"]
        parameters = load_run(folder).model.count_params()
    return {"parameters": parameters, "accuracy": accuracy, "speed": speed, "memory": memory()}


def measure_attention(positions: int) -> dict:
    """What one layer of four heads adds to the memory, with one row of so many positions."""
    import tensorflow as tf

    from tfx_transformer.layers import MultiHeadAttention

    layer, x = MultiHeadAttention(64, 4), tf.random.normal((1, positions, 64))

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x)[0] ** 2)
        return tape.gradient(loss, [weight.value for weight in layer.trainable_variables])

    step(x[:, :2])  # traced
    before = memory()
    step(x)
    return {"memory": memory() - before}


def memory() -> float:
    """The greatest so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
