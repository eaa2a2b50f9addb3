"""Warm-up: a model is called with all shapes that requests can have, before it is ready.

The first call of a function optimizes its graph, and with XLA the first call of each shape compiles
it, which takes seconds. With XLA shapes are few: the rows of a batch are padded to the allowed
sizes, and the lengths of sources to powers of two. Token ids of all widths compile the decoder for
all of these; the signatures for text use the same compiled function. Without XLA one row and the
largest batch are enough.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from tfx_transformer.serving.batching import TEXT_BYTES

TOKEN = 3  # any token of a vocabulary that is not PAD, START or END


def warm_up(model, progress: Callable[[int, int], None]) -> None:
    """Calls a `ServedModel` with all shapes; progress(done, total)."""
    queues = plan(model)
    total, done = sum(len(sizes) for *_, sizes in queues), 0
    progress(0, total)

    def run(signature: str, group: int, sizes: list[int]):
        for size in sizes:  # one after another: together they would share a batch
            model.call(sample(model, signature, group, size), signature, group)
            yield

    def count(queue) -> None:
        nonlocal done
        for _ in run(*queue):
            done += 1
            progress(done, total)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(count, queues))


def plan(model) -> list[tuple[str, int, list[int]]]:
    """Signature, group and batch sizes: with XLA all, otherwise one row and once the largest."""
    queues: list[tuple[str, int, list[int]]] = []
    for name, signature in model.signatures.items():
        if not signature.is_batched:
            queues.append((name, 0, [1]))
            continue
        sizes = model.limits.allowed_batch_sizes if model.is_compiled else [1]
        queues += [(name, group, sizes) for group in model.lengths[name].groups]
        if name == "serving_default" and not model.is_compiled:
            queues.append((name, model.lengths[name].groups[0], [model.limits.max_batch_size]))
    return sorted(queues, key=lambda queue: queue[0] != "ids")  # they compile for the others


def sample(model, signature: str, group: int, rows: int) -> dict[str, np.ndarray]:
    """Inputs of a group with some rows."""
    arrays = {}
    for name, spec in model.signatures[signature].inputs.items():
        shape = [rows, *[size or group for size in spec.shape[1:]]] if spec.shape.rank else []
        if name == "text":
            longest = (*TEXT_BYTES, 2 * TEXT_BYTES[-1])[group]
            value = b"a " * (min(longest, model.limits.max_characters) // 2)
            value = value[: model.max_tokens // 2 or None]  # a token has at least one byte
        elif spec.dtype == tf.string:
            value = tf.io.encode_png(np.zeros((8, 8, 3), "uint8")).numpy()
        else:
            value = TOKEN if spec.dtype.is_integer else 0.0
        arrays[name] = np.full(shape, value, spec.dtype.as_numpy_dtype)
    return arrays
