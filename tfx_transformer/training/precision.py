"""The precision of training: bfloat16 where it is faster, and float32 copies for evaluation."""

import functools
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

MIN_DIM = 192  # narrower models spend their time outside of the matrix products
MIN_SPEEDUP = 1.3  # of a matrix product
FLAGS = {"avx512_bf16", "amx_bf16"}  # of a CPU with instructions for bfloat16
MIN_CAPABILITY = (8, 0)  # of a GPU with units for bfloat16


def choose_precision(dim: int | None) -> tuple[str, str]:
    """The dtype policy for a model of a width, None if it is not known, and why."""
    if dim is None or dim < MIN_DIM:
        width = "the width of the model is not known" if dim is None else f"the model has dim {dim}"
        return "float32", f"{width}; bfloat16 pays from {MIN_DIM}"
    if tf.config.list_logical_devices("TPU"):
        return "mixed_bfloat16", "a TPU"
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
        lowest = min(x.get("compute_capability", (0, 0)) for x in details)
        has_units = lowest >= MIN_CAPABILITY
        name = "mixed_bfloat16" if has_units else "float32"
        return name, f"a GPU of compute capability {'.'.join(map(str, lowest))}"
    if not FLAGS & cpu_flags():
        return "float32", "this CPU has no instructions for bfloat16"
    ratio = matmul_speedup()
    name = "mixed_bfloat16" if ratio >= MIN_SPEEDUP else "float32"
    return name, f"matrix products in bfloat16 are {ratio:.1f} times as fast on this CPU"


def cpu_flags(path: Path = Path("/proc/cpuinfo")) -> set[str]:
    """The features of the CPU by Linux's names; none on other systems."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return set()
    return {flag for line in lines if line.startswith("flags") for flag in line.split()[2:]}


@functools.cache
def matmul_speedup(size: int = 768, rounds: int = 5) -> float:
    """The time of a matrix product in float32 / the time in bfloat16, the fastest of some."""
    x = np.random.default_rng(0).normal(size=(size, size)).astype("float32")
    inputs = {dtype: tf.constant(x, dtype) for dtype in ("float32", "bfloat16")}
    times: dict[str, list[float]] = {dtype: [] for dtype in inputs}
    with tf.device("CPU"):
        for _ in range(rounds + 1):  # the first call of each prepares its kernel
            for dtype, y in inputs.items():
                start = time.perf_counter()
                tf.matmul(y, y).numpy()
                times[dtype].append(time.perf_counter() - start)
    return min(times["float32"][1:]) / min(times["bfloat16"][1:])


def float32_copy(model):
    """A model that computes in float32, for evaluation and export; the model itself if it does.

    `copy_weights` gives the copy the present weights.
    """
    if model.dtype_policy.name == "float32":
        return model
    copy = type(model).from_config(model.get_config() | {"dtype": "float32"})
    copy.build(copy.input_shapes())
    return copy


def copy_weights(model, other) -> None:
    """Assigns the weights of a model to another one of the same kind."""
    if other is not model:
        for weight, value in zip(other.weights, model.weights, strict=True):
            weight.assign(value)
