"""How long training stops for a checkpoint, written by the training thread and in the background.

    python benchmarks/checkpoints.py                        BERT-base: 1.3 GB
    python benchmarks/checkpoints.py --variant tiny --steps 200

Prints the size of the file, the time until training continues after a save, the time of the whole
write, the time of a training step without and during a write, and the peak of memory.
"""

import resource
import tempfile
import time

import keras
import numpy as np
import tyro

from tfx_transformer.models import create_model
from tfx_transformer.training.checkpoint import Checkpoints


def peak() -> float:
    """The most memory that this process ever had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main(
    variant: str = "base", steps: int = 10, tokens: int = 32, rounds: int = 3, folder: str = ""
):
    """Train BERT for a few steps with each kind of checkpoint.

    Args:
        variant: of BERT.
        steps: timed without a write.
        tokens: of the single example of a batch.
        rounds: writes of each kind; the median is printed.
        folder: where checkpoints are written; a temporary one by default.
    """
    model = create_model("bert", variant, vocab_size=30522, head="classify", num_classes=2)
    model.compile(
        keras.optimizers.Adam(1e-5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    ids = np.ones((1, tokens), "int32")
    inputs = {name: ids for name in model.input_shapes()}

    def step() -> float:
        start = time.perf_counter()
        model.train_on_batch(inputs, np.zeros(1))
        return time.perf_counter() - start

    first = [step() for _ in range(steps + 2)][2:]
    print(f"BERT-{variant}: {model.count_params():,} parameters, {peak():.1f} GB in use")
    print(f"step                      {1000 * np.median(first):8.0f} ms")
    with tempfile.TemporaryDirectory(dir=folder or None) as here:
        now, background, whole, during = [], [], [], []
        for _ in range(rounds):
            start = time.perf_counter()
            path = Checkpoints(here).save(1, model)
            now.append(time.perf_counter() - start)
            size = path.stat().st_size
            path.unlink()
            with Checkpoints(here) as checkpoints:
                start = time.perf_counter()
                checkpoints.save(1, model)
                background.append(time.perf_counter() - start)
                while not checkpoints.writes[0].done():
                    during.append(step())
                whole.append(time.perf_counter() - start)
            path.unlink()
    print(f"file                      {size / 1e9:8.2f} GB; peak of memory {peak():.1f} GB")
    print(f"stop, training thread     {1000 * np.median(now):8.0f} ms")
    print(f"stop, background          {1000 * np.median(background):8.0f} ms")
    print(f"write, background         {1000 * np.median(whole):8.0f} ms")
    print(f"step during the write     {1000 * np.median(during):8.0f} ms")


if __name__ == "__main__":
    tyro.cli(main)
