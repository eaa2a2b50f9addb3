"""Swin checkpoints give the logits of their libraries.

The fixtures and the outputs of their libraries were stored by `fixtures/make_swin_fixtures.py`.
"""

import re

import keras
import numpy as np
import pytest

from tfx_transformer.convert import load_weights, read_weights
from tfx_transformer.models import Swin

SIZES = dict(image_size=24, patch_size=2, window=3, norm={"kind": "layer", "epsilon": 1e-5})
SIZES |= dict(dim=6, depth=(2, 3, 2), num_heads=(2, 3, 4), mlp_dim=15)
NAMES = ["timm_swin", "hugging_face_swin"]


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def make(num_classes=5, **options):
    return Swin(num_classes, **SIZES | options)


@pytest.fixture
def microsoft(read):
    """timm's weights in the format of the authors: merges end a stage, and there are buffers."""
    weights = {}
    for name, array in read("timm_swin").items():
        name = name.replace("head.fc.", "head.")
        if ".downsample." in name:
            name = re.sub(r"\d", lambda digit: str(int(digit[0]) - 1), name, count=1)
        weights[name] = array
    at = "layers.0.blocks.1."
    return weights | {
        f"{at}attn_mask": np.zeros((32, 9, 9)),
        f"{at}attn.relative_position_index": np.zeros((9, 9), "int64"),
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_logits_are_those_of_the_library(name, read, stored):
    model = make()
    assert load_weights(model, read(name)) == []
    images, logits = stored(name)
    np.testing.assert_allclose(numpy(model(images)), logits, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_logits_are_those_of_the_installed_library(name, live, stored):
    model = make()
    load_weights(model, read_weights(live / f"{name}.safetensors"))
    images, logits = stored(name, live)
    assert np.abs(logits - stored(name)[1]).max() > 0.1  # other weights than the stored ones
    np.testing.assert_allclose(numpy(model(images)), logits, atol=1e-5)


def test_a_state_dict_gives_the_same_logits(read, stored):
    images, logits = stored("hugging_face_swin")
    state = read("hugging_face_swin_state")
    assert "swin.encoder.layers.1.blocks.2.attention.q_proj.weight" in state
    model = make()
    assert load_weights(model, state) == []
    np.testing.assert_allclose(numpy(model(images)), logits, atol=1e-5)


def test_the_authors_format_gives_the_same_logits(microsoft, stored):
    assert "layers.0.downsample.norm.weight" in microsoft
    model = make()
    assert load_weights(model, microsoft) == []
    images, logits = stored("timm_swin")
    np.testing.assert_allclose(numpy(model(images)), logits, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_an_encoder_saved_without_head_loads(name, read, stored):
    state = {key.removeprefix("swin."): array for key, array in read(name).items()}
    state = {key: array for key, array in state.items() if not key.startswith(("head", "classi"))}
    whole, alone = make(), make(num_classes=7)
    load_weights(whole, read(name))
    assert load_weights(alone, state, head=False) == ["head/kernel", "head/bias"]
    images, _ = stored(name)
    np.testing.assert_array_equal(numpy(alone.encode(images)[0]), numpy(whole.encode(images)[0]))


WRONG = {  # options of the model, changes of the weights (None: removed), the message
    "window": (
        {"window": 2},
        {},
        r"layers.0.blocks.0.attn.relative_position_bias_table must be \(9, 2\) for "
        r"block_0/self_attention/table; got \(25, 2\)",
    ),
    "other stages": (
        {"depth": (2, 2, 3)},
        {},
        r"layers.2.blocks.2.norm1.weight is missing, must be \(24,\) for block_6/self_norm/scale",
    ),
    "no merge": (
        {},
        {"layers.1.downsample.reduction.weight": None},
        r"layers.1.downsample.reduction.weight is missing, must be \(12, 24\) for merge_1/reduct",
    ),
    "position": (
        {},
        {"absolute_pos_embed": np.zeros((1, 9, 6))},
        "absolute_pos_embed .* no counterpart",
    ),
}


@pytest.mark.parametrize("options, changes, message", WRONG.values(), ids=WRONG)
def test_weights_that_do_not_fit_are_named(options, changes, message, read):
    weights = read("timm_swin") | changes
    weights = {key: array for key, array in weights.items() if array is not None}
    with pytest.raises(ValueError, match=message):
        load_weights(make(**options), weights)
