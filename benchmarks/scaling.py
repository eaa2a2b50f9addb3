"""Training steps by several workers, and what they cost: computed and measured.

    python benchmarks/scaling.py                       on this machine: workers × cores
    python benchmarks/scaling.py --dim 128 --depth 2 --tokens 2048
    python benchmarks/scaling.py plan                  WMT14 and ImageNet on accelerators

Trains a translator on batches of one shape by one worker with one core, one with all cores, and one
worker for each core, and prints the time of a step, of the sum of all gradients over the workers,
and the speed. The same batch is divided among the workers, as `tfx-transformer launch` does.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from tfx_transformer.train.launch.local import LaunchOptions, launch


def work(folder: str, dim: int, depth: int, vocab_size: int, tokens: int, steps: int) -> None:
    """One worker: writes its times to a file."""
    from tfx_transformer.runtime import import_tensorflow

    import_tensorflow()
    import tensorflow as tf

    from tfx_transformer.data.share import Share
    from tfx_transformer.models import create_model
    from tfx_transformer.train.optimizer import make_optimizer
    from tfx_transformer.train.plan import StepTimer
    from tfx_transformer.train.tasks.translation import TranslationRecipe
    from tfx_transformer.training.losses import TokenCrossentropy
    from tfx_transformer.training.strategy import choose_strategy
    from tfx_transformer.training.updates import distribute, use_updates
    from tfx_transformer.training.workers import Workers

    count = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
    strategy = choose_strategy("multiworker" if count > 1 else "one")
    workers, length = Workers(strategy), 32
    rows = Share(workers.index, count, count).size(tokens // length)
    ids = np.random.default_rng(workers.index).integers(4, vocab_size, (rows, length), "int32")
    batch = {"source": ids, "target": ids}, ids, np.ones(ids.shape, "float32")
    with strategy.scope():
        own: dict[str, Any] = {
            "dim": dim,
            "depth": depth,
            "num_heads": dim // 64,
            "mlp_dim": 4 * dim,
        }
        model = create_model("transformer", "small", vocab_size=vocab_size, dropout=0.1, **own)
        loss = TokenCrossentropy(0.1, reduction="sum")
        model.compile(make_optimizer(TranslationRecipe(), model), loss, jit_compile=False)
    use_updates(model)
    timer, cpu = StepTimer(steps, 0.0), []

    class Cpu(type(timer).__base__):  # CPU time at the end of each step
        def on_train_batch_end(self, batch, logs=None):
            cpu.append(time.process_time())

    def data():
        return tf.data.Dataset.from_tensors(batch).repeat()

    model.fit(distribute(strategy, data), shuffle=False, verbose=0, callbacks=[timer, Cpu()])
    sizes = [tuple(weight.shape) for weight in model.trainable_variables]

    @tf.function(autograph=False)
    def reduce():
        def sum_all():
            context = tf.distribute.get_replica_context()
            return context.all_reduce("SUM", [tf.ones(size) for size in sizes])[0]

        return strategy.run(sum_all)

    reduce()
    begin = time.perf_counter()
    for _ in range(10):
        reduce()
    found = {
        "step": timer.mean(),
        "cpu": (cpu[-1] - cpu[1]) / (len(cpu) - 2),
        "reduce": (time.perf_counter() - begin) / 10 if count > 1 else 0.0,
        "megabytes": 4e-6 * sum(map(np.prod, sizes)),
    }
    Path(folder, f"{workers.index}.json").write_text(json.dumps(found))


def plan(
    peak: float = 312,
    share: float = 0.35,
    within: float = 200,
    between: float = 25,
    pairs_per_core: float = 20_000,
    images_per_core: float = 273,
) -> None:
    """Print what three trainings take on 1, 8 and 64 accelerators, 8 in a machine.

    Args:
        peak: TFLOP/s of an accelerator in bfloat16; 312 are those of an A100.
        share: of the peak that training reaches.
        within: GB/s between the accelerators of a machine.
        between: GB/s between two machines; 25 are those of one adapter of 200 Gb/s.
        pairs_per_core: sentence pairs that a core prepares in a second, see benchmarks/data.py.
        images_per_core: images of 500 × 375 pixels, likewise.
    """
    # parameters by what they see of a step; a step of WMT14 has 25,000 + 25,000 tokens (900 pairs)
    base, big = (18.9e6, 25.2e6 + 37e3 * 512), (75.6e6, 100.7e6 + 37e3 * 1024)
    jobs = {  # FLOP of a step, parameters, steps, examples of a step, examples that a core prepares
        "WMT14, base": (6 * 25e3 * sum(base), sum(base), 100e3, 900, pairs_per_core),
        "WMT14, big": (6 * 25e3 * sum(big), sum(big), 300e3, 900, pairs_per_core),
        "ViT-S/16, ImageNet": (3 * 9.2e9 * 1024, 22e6, 300 * 1251, 1024, images_per_core),
    }
    print("| training | accelerators | step | sum of gradients | whole run | cores for the data |")
    print("|---|---|---|---|---|---|")
    for name, (work_, parameters, steps, examples, per_core) in jobs.items():
        for count in (1, 8, 64):
            compute = work_ / (count * peak * share * 1e12)
            speed = within if count <= 8 else between
            reduce = 2 * (count - 1) / count * 4 * parameters / (speed * 1e9)
            step = compute + reduce
            cells = [name, str(count), f"{1000 * compute:.1f} ms", f"{1000 * reduce:.1f} ms"]
            cells += [f"{steps * step / 3600:.1f} h", f"{examples / step / per_core:.1f}"]
            print(f"| {' | '.join(cells)} |")


def main(
    dim: int = 256,
    depth: int = 3,
    vocab_size: int = 8000,
    tokens: int = 4096,
    steps: int = 15,
) -> None:
    """Compare workers and cores.

    Args:
        dim: of the model.
        depth: blocks of the encoder, and of the decoder.
        vocab_size: joint.
        tokens: target tokens of a batch, over all workers.
        steps: timed in each setting.
    """
    cores = sorted(os.sched_getaffinity(0))
    sizes = {"dim": dim, "depth": depth, "vocab-size": vocab_size, "tokens": tokens, "steps": steps}
    options = [x for name, value in sizes.items() for x in (f"--{name}", str(value))]
    first = None
    for workers, used in ((1, 1), (1, len(cores)), (len(cores), len(cores))):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "work", "--folder", folder, *options]
            os.sched_setaffinity(0, cores[:used])  # `launch` divides these
            if launch(command, Path(folder), LaunchOptions(workers=workers, restarts=0)):
                sys.exit("a worker failed")
            files = sorted(Path(folder).glob("?.json"))
            found = [json.loads(file.read_text()) for file in files]
        step = found[0]["step"]
        first = first or step
        shown = f"{workers} worker(s), {used // workers} core(s) each: step {1000 * step:.0f} ms, "
        cpu = " + ".join(f"{1000 * x['cpu']:.0f}" for x in found)
        shown += f"CPU {cpu} ms, "
        shown += f"{tokens / step:,.0f} tokens/s, {first / step:.2f} x"
        if workers > 1:
            reduce = found[0]["reduce"]
            shown += (
                f"; sum of {found[0]['megabytes']:.0f} MB over the workers {1000 * reduce:.0f} ms,"
            )
            shown += f" computed {first / (first / workers + reduce):.2f} x"
        print(shown, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] in (["work"], ["plan"]):
        tyro.cli(globals()[sys.argv[1]], args=sys.argv[2:])
    else:
        tyro.cli(main)
