"""The precision is chosen by the width of the model and the machine; copies are in float32."""

import numpy as np
import pytest

from tfx_transformer.models import create_model
from tfx_transformer.training import precision
from tfx_transformer.training.precision import (
    choose_precision,
    copy_weights,
    cpu_flags,
    float32_copy,
    matmul_speedup,
)


@pytest.fixture
def machine(monkeypatch):
    """A CPU with these flags and this speed-up, without other devices."""

    def make(flags, speedup):
        monkeypatch.setattr(precision, "cpu_flags", lambda: flags)
        monkeypatch.setattr(precision, "matmul_speedup", lambda: speedup)

    return make


@pytest.mark.parametrize(
    ("dim", "flags", "speedup", "expected"),
    [
        (192, {"avx512_bf16", "avx2"}, 1.3, "mixed_bfloat16"),
        (512, {"amx_bf16"}, 2.0, "mixed_bfloat16"),
        (191, {"avx512_bf16"}, 2.0, "float32"),
        (None, {"avx512_bf16"}, 2.0, "float32"),
        (512, {"avx512f"}, 2.0, "float32"),
        (512, {"avx512_bf16"}, 1.29, "float32"),
    ],
)
def test_bfloat16_needs_a_wide_model_its_instructions_and_a_gain(
    machine, dim, flags, speedup, expected
):
    machine(flags, speedup)
    assert choose_precision(dim)[0] == expected


def test_the_flags_are_those_of_the_file(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text("model name\t: some CPU\nflags\t\t: fpu avx512_bf16 sse\n")
    assert cpu_flags(path) == {"fpu", "avx512_bf16", "sse"}
    assert cpu_flags(tmp_path / "missing") == set()


def test_the_probe_gives_a_ratio():
    assert 0.01 < matmul_speedup() < 100


def test_the_copy_computes_in_float32_with_the_same_weights():
    model = create_model("transformer", "test", vocab_size=11, dtype="mixed_bfloat16")
    copy = float32_copy(model)
    assert copy.dtype_policy.name == "float32" and float32_copy(copy) is copy
    copy_weights(model, copy)
    inputs = {"source": np.array([[3, 4, 5]]), "target": np.array([[1, 6]])}
    exact, rough = copy(inputs), model(inputs)
    assert exact.dtype == "float32" and rough.dtype == "bfloat16"
    np.testing.assert_allclose(exact, np.float32(rough), atol=0.1)
    assert np.abs(exact).max() > 0.3
