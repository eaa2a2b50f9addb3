"""Comparison of image classifiers: CNNs with and without attention, ViT, Swin and MLP-Mixer.

    python benchmarks/vision_zoo.py [--steps 600] [--source embedded:digits] [--models vit swin …]

Every model of `ZOO` is trained with the same recipe, images and number of steps, each in its own
process. The table has parameters, accuracy on the test set, images per second in training, and the
maximum memory of the process. A second table has the memory that one attention layer over N
positions needs, forward and backward.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

SIDE = 16  # pixels; digits are enlarged scans of 8 × 8
ZOO = {  # model, variant, options
    "convolutions alone": ("attention_cnn", "cnn", {"dims": (32, 64, 128)}),
    "attention between convolutions": ("attention_cnn", "hybrid", {"dims": (32, 64, 128)}),
    "attention instead of convolutions": ("attention_cnn", "local", {"dims": (32, 64, 128)}),
    "attention over pixels": ("pixel_transformer", "small", {"grid_size": 16, "dim": 96}),
    "ViT": ("vit", "test", {"patch_size": 4, "dim": 96, "depth": 4, "mlp_dim": 192}),
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
        row = run(task | {"size": options.size})
        cells = f"{row['parameters']:,} | {row['accuracy']:.1f} | {row['speed']:,.0f}"
        print(f"| {name} | {cells} | {row['memory']:,.0f} |", flush=True)

    print("\n| positions | weights of one head | memory, MB |\n|---:|---:|---:|")
    for positions in POSITIONS:
        memory = run({"positions": positions})["memory"]
        print(f"| {positions:,} | {positions**2:,} | {memory:,.0f} |", flush=True)


def run(task: dict) -> dict:
    """Runs a task in its own process, so that memory is measured separately."""
    command = [sys.executable, __file__, "--child", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def child(task: dict) -> dict:
    return measure_attention(task["positions"]) if "positions" in task else measure_model(task)


def measure_model(task: dict) -> dict:
    from tfx_transformer.train.recipe import ModelOptions
    from tfx_transformer.train.recipes.vision.classify_digits import RECIPE
    from tfx_transformer.train.run import train
    from tfx_transformer.train.run_folder import load_run
    from tfx_transformer.training.callbacks import MetricsLog

    name, variant, options = ZOO[task["model"]]
    recipe = replace(
        RECIPE,
        data=replace(RECIPE.data, source=task["source"]),
        model=ModelOptions.of(name, variant, image_size=task["size"], **options),
        steps=task["steps"],
        eval_steps=(task["steps"] + 1) // 2,  # the second half is timed, after tracing
    )
    with tempfile.TemporaryDirectory() as folder:
        accuracy = train(recipe, folder)["accuracy"]
        speed = MetricsLog(Path(folder, "metrics.jsonl")).read()[-1]["images_per_second"]
        parameters = load_run(folder).model.count_params()
    return {"parameters": parameters, "accuracy": accuracy, "speed": speed, "memory": max_memory()}


def measure_attention(positions: int) -> dict:
    """Memory in MB that one layer of four heads adds for one row of so many positions."""
    import tensorflow as tf

    from tfx_transformer.layers import MultiHeadAttention

    layer, x = MultiHeadAttention(64, 4), tf.random.normal((1, positions, 64))

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x) ** 2)
        return tape.gradient(loss, [weight.value for weight in layer.trainable_variables])

    step(x[:, :2])  # traces the graph
    before = max_memory()
    step(x)
    return {"memory": max_memory() - before}


def max_memory() -> float:
    """Maximum memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
