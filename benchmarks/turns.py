"""Contenders that take turns: how all benchmarks here measure.

All live in one process and take turns, round by round and each time in another order, so that a
slow moment of the machine hits all alike; between two turns there is a pause, because a library's
idle threads go on spinning for a while.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping

PAUSE = 0.25  # seconds


def take_turns(cases: Mapping[str, Callable], rounds: int, warm: int = 2) -> dict[str, list[float]]:
    """Seconds of each case in each round, after calls to warm up; a case may time itself."""
    for case in cases.values():
        for _ in range(warm):
            case()
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    rng = random.Random(0)
    for _ in range(rounds):
        for name in rng.sample(list(cases), len(cases)):
            time.sleep(PAUSE)
            start = time.perf_counter()
            own = cases[name]()
            elapsed = time.perf_counter() - start
            seconds[name].append(own if isinstance(own, float) else elapsed)
    return seconds


def ratio(peer: list[float], ours: list[float]) -> float:
    """The median over the rounds of peer's time / our time: above 1 we are faster."""
    return statistics.median(p / o for p, o in zip(peer, ours, strict=True))
