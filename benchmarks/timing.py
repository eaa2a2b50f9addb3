"""Timing of competing implementations, shared by all benchmarks here.

All run in one process, round by round in random order, so that a slow moment of the machine affects
all alike. Before each call there is a pause, because idle threads of a library keep spinning.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np

PAUSE = 0.25  # seconds
SIZE = 2048  # of the matrices in `matmul_case`


def time_interleaved(
    cases: Mapping[str, Callable], rounds: int, warmup: int = 2
) -> dict[str, list[float]]:
    """Seconds of each case in each round, after warm-up calls.

    A case that returns a float has timed itself.
    """
    for case in cases.values():
        for _ in range(warmup):
            case()
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    rng = random.Random(0)
    for _ in range(rounds):
        for name in rng.sample(list(cases), len(cases)):
            time.sleep(PAUSE)
            start = time.perf_counter()
            result = cases[name]()
            elapsed = time.perf_counter() - start
            seconds[name].append(result if isinstance(result, float) else elapsed)
    return seconds


def median_ratio(peer: list[float], ours: list[float]) -> float:
    """Median over the rounds of the peer's time / our time: above 1 ours is faster."""
    return statistics.median(p / o for p, o in zip(peer, ours, strict=True))


def matmul_case():
    """A large float32 matrix product; its fastest round is the peak of this machine."""
    a = np.random.default_rng(0).normal(size=(SIZE, SIZE)).astype("float32")
    return lambda: a @ a


def peak_flops(seconds: list[float]) -> float:
    """Floating-point operations per second, from the times of `matmul_case`."""
    return 2 * SIZE**3 / min(seconds)


def block_flops(batch, tokens, dim, mlp_dim):
    """Operations in the matrix products of a Transformer block, forward pass."""
    dense = 2 * batch * tokens * dim * (4 * dim + 2 * mlp_dim)
    return dense + 4 * batch * tokens * tokens * dim


def fit_case(model, data, optimizer, loss, jit_compile=False):
    """A training step of `fit`: the mean of two, after one that is not counted."""
    import keras

    times: list[float] = []
    clock = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: times.append(time.perf_counter())
    )
    model.compile(optimizer, loss, jit_compile=jit_compile)

    def case():
        model.fit(data.repeat(3), verbose=0, shuffle=False, callbacks=[clock])
        return (times[-1] - times[-3]) / 2

    return case


def loop_case(step: Callable):
    """A training step of a plain loop, counted like `fit_case`."""

    def case():
        step()
        start = time.perf_counter()
        step()
        step()
        return (time.perf_counter() - start) / 2

    return case
