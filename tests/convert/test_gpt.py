"""GPT-2 checkpoints of Hugging Face give the logits of its library.

The fixture and the outputs of the library were stored by `fixtures/make_text_fixtures.py`.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from tfx_transformer.convert import load_weights
from tfx_transformer.models import GPT

FIXTURES = Path(__file__).parents[1] / "fixtures"
NAME = "hugging_face_gpt"
SIZES = dict(vocab_size=23, dim=12, depth=2, num_heads=3, mlp_dim=30, max_length=10)


def make(**options):
    return GPT(**SIZES | options)


def check(model, folder=FIXTURES):
    """At real tokens: the library masks padding, which our causal model does not need."""
    with np.load(folder / f"{NAME}.npz") as file:
        tokens, expected = file["tokens"], file["logits"]
    is_real = tokens != 0
    assert 0 < is_real.sum() < is_real.size
    logits = keras.ops.convert_to_numpy(model(tokens))
    np.testing.assert_allclose(logits[is_real], expected[is_real], atol=1e-4)
    return expected


def test_the_logits_are_those_of_the_library():
    model = make()
    assert load_weights(model, FIXTURES / f"{NAME}.safetensors") == []
    check(model)


def test_the_logits_are_those_of_the_installed_library(tmp_path):
    for name in ("torch", "timm", "transformers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    command = [sys.executable, FIXTURES / "make_text_fixtures.py", tmp_path, "1"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    model = make()
    load_weights(model, tmp_path / f"{NAME}.safetensors")
    live = check(model, tmp_path)
    load_weights(model, FIXTURES / f"{NAME}.safetensors")
    assert np.abs(live - check(model)).max() > 0.1  # other weights than the stored ones


@pytest.mark.parametrize("prefix", ["transformer.", ""], ids=["with a head", "alone"])
def test_old_files_load_too(prefix, read):
    """As the first one on the Hub, which contains the causal mask of each block."""
    state = {}
    for name, array in read(NAME).items():
        state[prefix + name.removeprefix("transformer.")] = array
    for i in range(2):
        state[f"{prefix}h.{i}.attn.bias"] = np.tril(np.ones((1, 1, 10, 10)))
        state[f"{prefix}h.{i}.attn.masked_bias"] = np.array(-1e4)
    state["lm_head.weight"] = state[f"{prefix}wte.weight"]
    model = make()
    assert load_weights(model, state) == []
    check(model)


def test_an_output_that_is_not_tied_is_refused(read, draw):
    with pytest.raises(ValueError, match="lm_head.weight must be equal to transformer.wte.weight"):
        load_weights(make(), read(NAME) | {"lm_head.weight": draw(23, 12)})


WRONG = {  # options of the model, changes of the weights (None: removed), the message
    "missing": (
        {},
        {"transformer.h.1.attn.c_attn.weight": None},
        r"h.1.attn.c_attn.weight\[query\] is missing, must be \(12, 12\) for block_1/self_att",
    ),
    "kernels are not transposed": (
        {"mlp_dim": 24},
        {},
        r"h.0.mlp.c_fc.weight must be \(12, 24\) for block_0/mlp/up/kernel; got \(12, 30\)",
    ),
    "transposed": (
        {},
        {"transformer.h.0.attn.c_attn.weight": np.zeros((36, 12))},
        r"c_attn.weight\[query\] must be \(12, 12\) .* got \(36, 4\)",
    ),
    "fewer blocks": ({"depth": 1}, {}, r"transformer.h.1.* has no counterpart in the model"),
    "positions": (
        {"max_length": 8},
        {},
        r"wpe.weight must be \(8, 12\) for position_embedding/table; got \(10,",
    ),
    "more": ({}, {"score.weight": np.zeros((2, 12))}, r"score.weight \(2, 12\) has no counterpart"),
}


@pytest.mark.parametrize("options, changes, message", WRONG.values(), ids=WRONG)
def test_weights_that_do_not_fit_are_named(options, changes, message, read):
    weights = read(NAME) | changes
    weights = {key: array for key, array in weights.items() if array is not None}
    with pytest.raises(ValueError, match=message):
        load_weights(make(**options), weights)


def test_other_weights_are_refused(read):
    with pytest.raises(
        ValueError, match="unknown GPT weights; known: Hugging Face, keras-hub; got"
    ):
        load_weights(make(), read("hugging_face_bert_mlm"))
