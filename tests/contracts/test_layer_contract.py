"""What every public layer promises: a true config, and the same output from a `.keras` file."""

import inspect
import json
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops

import tfx_transformer.layers
from tfx_transformer.config import Configured
from tfx_transformer.layers import ATTENTION, NORM, POSITION

TOKENS, HEADS, GRID, IDS = (5, 12), (3, 5, 12), (5, 7, 12), (5,)
ATTENTION_OPTIONS = {"dim": 12, "num_heads": 3, "dropout": 0.1}

# every argument away from its default, so that one forgotten in the config shows
SAMPLES = {
    "AdditiveAttention": (TOKENS, ATTENTION_OPTIONS | {"initializer": "he_normal"}),
    "BatchNorm": (TOKENS, {"epsilon": 1e-2, "momentum": 0.5}),
    "BilinearAttention": (TOKENS, ATTENTION_OPTIONS | {"initializer": "he_normal"}),
    "ClassToken": (TOKENS, {"num_tokens": 2, "initializer": "ones"}),
    "DotAttention": (TOKENS, ATTENTION_OPTIONS | {"initializer": "he_normal"}),
    "DropPath": (TOKENS, {"rate": 0.3, "seed": 7}),
    "FeedForward": (
        TOKENS,
        {"mlp_dim": 7, "activation": "swiglu", "dropout": 0.1, "initializer": "he_normal"},
    ),
    "GroupedQueryAttention": (
        TOKENS,
        {
            "dim": 12,
            "num_heads": 6,
            "num_kv_heads": 2,
            "dropout": 0.1,
            "qkv_bias": False,
            "position": "rotary",
            "initializer": "he_normal",
        },
    ),
    "HardAttention": (
        TOKENS,
        ATTENTION_OPTIONS
        | {"seed": 3, "qkv_bias": False, "position": "rotary", "initializer": "he_normal"},
    ),
    "IndexPosition": (TOKENS, {"combine": "concat", "project": False}),
    "LayerNorm": (TOKENS, {"epsilon": 1e-2}),
    "LearnedPosition": (
        (16, 12),
        {
            "max_length": 6,
            "grid": [2, 3],
            "combine": "concat",
            "project": True,
            "initializer": "he_normal",
        },
    ),
    "LocalAttention": (
        TOKENS,
        ATTENTION_OPTIONS
        | {"window": 3, "qkv_bias": False, "position": "rotary", "initializer": "he_normal"},
    ),
    "MultiHeadAttention": (
        TOKENS,
        ATTENTION_OPTIONS
        | {
            "qkv_bias": False,
            "position": {"kind": "relative", "max_distance": 2},
            "initializer": "he_normal",
        },
    ),
    "PatchEmbedding": (
        (4, 6, 3),
        {"patch_size": 2, "dim": 10, "projection": "dense", "initializer": "he_normal"},
    ),
    "RMSNorm": (TOKENS, {"epsilon": 1e-2}),
    "RelativePosition": (HEADS, {"max_distance": 2}),
    "RotaryPosition": (HEADS, {"layout": "halves", "base": 100}),
    "SinCos2DPosition": ((9, 12), {"base": 100, "combine": "concat", "project": True}),
    "SinusoidalPosition": (
        TOKENS,
        {"layout": "halves", "base": 100, "combine": "concat", "project": True},
    ),
    "TokenEmbedding": (
        IDS,
        {"vocab_size": 9, "dim": 6, "scale": False, "pad_id": 1, "initializer": "he_normal"},
    ),
    "TransformerBlock": (
        TOKENS,
        {
            "dim": 12,
            "num_heads": 3,
            "mlp_dim": 20,
            "attention": {"kind": "local", "window": 3},
            "cross_attention": "additive",
            "activation": "relu",
            "norm": {"kind": "rms", "epsilon": 1e-2},
            "norm_first": False,
            "dropout": 0.1,
            "drop_path": 0.2,
            "layer_scale": 0.3,
            "initializer": "he_normal",
        },
    ),
    "WindowAttention": (
        GRID,
        ATTENTION_OPTIONS
        | {
            "window": 3,
            "shift": 1,
            "qkv_bias": False,
            "initializer": "he_normal",
        },
    ),
}


def public_layers():
    for name in tfx_transformer.layers.__all__:
        if inspect.isclass(thing := getattr(tfx_transformer.layers, name)):
            yield name, thing


@pytest.fixture(params=sorted(SAMPLES))
def name(request):
    return request.param


def build(name, randomise):
    """A functional model around the layer, with random weights, and inputs for it."""
    shape, options = SAMPLES[name]
    layer = getattr(tfx_transformer.layers, name)(**options)
    inputs = keras.Input(shape, dtype="int32" if shape == IDS else "float32")
    second = (inputs,) if name == "TransformerBlock" else ()  # it reads a context
    model = keras.Model(inputs, layer(inputs, *second))
    rng = np.random.default_rng(0)
    x = rng.integers(9, size=(2, *shape)) if shape == IDS else rng.normal(size=(2, *shape))
    return randomise(model), x.astype("int32" if shape == IDS else "float32"), layer


def outputs(model, x):
    return [ops.convert_to_numpy(y) for y in keras.tree.flatten(model(x))]


def test_every_public_layer_and_registry_entry_has_a_sample():
    layers = dict(public_layers())
    assert sorted(layers) == sorted(SAMPLES)
    for registry in (ATTENTION, POSITION, NORM):
        assert set(registry.values()) <= set(layers.values())


def test_the_sample_sets_every_argument_away_from_its_default(name):
    layer = getattr(tfx_transformer.layers, name)
    defaults = {}
    for part in layer.__mro__:
        if issubclass(part, Configured) and "__init__" in vars(part):
            parameters = list(inspect.signature(part.__init__).parameters.values())[1:]
            for p in parameters:
                if p.kind is not p.VAR_KEYWORD:
                    defaults.setdefault(p.name, p.default)
    if name == "WindowAttention":
        defaults.pop("position")  # inherited and refused: windows have positions of their own
    assert sorted(SAMPLES[name][1]) == sorted(defaults)
    same = [key for key, value in SAMPLES[name][1].items() if value == defaults[key]]
    assert same == []


def test_the_config_holds_every_argument_and_comes_back(name):
    layer = getattr(tfx_transformer.layers, name)(**SAMPLES[name][1])
    config = layer.get_config()
    assert {key: config[key] for key in SAMPLES[name][1]} == SAMPLES[name][1]
    assert json.loads(json.dumps(config["name"])) == layer.name
    again = type(layer).from_config(config)
    assert again.get_config() == config


def test_the_docstring_is_there(name):
    assert len(inspect.getdoc(getattr(tfx_transformer.layers, name)).split()) > 8


def test_examples_do_not_mix(name, randomise):
    model, x, _ = build(name, randomise)
    for expected, got in zip(outputs(model, x), outputs(model, x[:1]), strict=True):
        np.testing.assert_allclose(got[:1], expected[:1], atol=1e-5)


@pytest.mark.parametrize("name", sorted(n for n, (shape, _) in SAMPLES.items() if shape == TOKENS))
def test_a_model_of_unknown_length_takes_any(name, randomise):
    model, x, layer = build(name, randomise)
    inputs = keras.Input((None, 12))
    second = (inputs,) if name == "TransformerBlock" else ()
    free = keras.Model(inputs, layer(inputs, *second))
    for expected, got in zip(outputs(model, x), outputs(free, x), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)
    assert all(np.isfinite(y).all() for y in outputs(free, x[:, :3]))


LOAD = """
import sys, keras, numpy as np
import tfx_transformer.layers
for name in sys.argv[2:]:
    model = keras.saving.load_model(f"{sys.argv[1]}/{name}.keras")
    stored = np.load(f"{sys.argv[1]}/{name}.npz")
    outputs = keras.tree.flatten(model(stored["x"]))
    for i, y in enumerate(outputs):
        np.testing.assert_allclose(keras.ops.convert_to_numpy(y), stored[f"y{i}"], atol=1e-6)
print(f"equal: {len(sys.argv) - 2}")
"""


def test_saved_and_loaded_in_a_new_process_gives_the_same_output(tmp_path, randomise):
    for name in SAMPLES:
        model, x, _ = build(name, randomise)
        ys = outputs(model, x)
        assert all(np.abs(y).max() > 0 for y in ys)
        model.save(tmp_path / f"{name}.keras")
        np.savez(tmp_path / f"{name}.npz", x=x, **{f"y{i}": y for i, y in enumerate(ys)})
    result = subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path), *SAMPLES], capture_output=True, text=True
    )
    assert f"equal: {len(SAMPLES)}" in result.stdout, result.stderr[-3000:]
