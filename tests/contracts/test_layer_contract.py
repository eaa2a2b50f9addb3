"""Contract of every public layer: one output, a complete config, loading from a `.keras` file."""

import inspect
import json
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops

import tfx_transformer.layers
from tfx_transformer.config import Serializable
from tfx_transformer.layers import ATTENTION, NORM, POSITION

TOKENS, HEADS, GRID, IDS = (5, 12), (3, 5, 12), (5, 7, 12), (5,)
ATTENTION_OPTIONS = {"dim": 12, "num_heads": 3, "dropout": 0.1}

# no argument has its default, so that one missing in the config shows
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
    "NeighborhoodAttention": (
        GRID,
        ATTENTION_OPTIONS
        | {"num_heads": 2, "window": 3, "qkv_bias": False, "initializer": "he_normal"},
    ),
    "PatchEmbedding": (
        (4, 6, 3),
        {"patch_size": 2, "dim": 10, "initializer": "he_normal"},
    ),
    "RMSNorm": (TOKENS, {"epsilon": 1e-2}),
    "RelativePosition": (HEADS, {"max_distance": 2}),
    "RotaryPosition": (HEADS, {"layout": "halves", "base": 100}),
    "SequenceConv": (
        TOKENS,
        {
            "dim": 7,
            "kernel_size": 3,
            "dilation": 2,
            "causal": False,
            "initializer": "he_normal",
        },
    ),
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


ENCODER_BLOCK = {"TransformerBlock": {"cross_attention": None}}  # takes one input


def find_layers():
    """All public layers, and all attention layers that can be chosen by name."""
    public = {
        name: getattr(tfx_transformer.layers, name) for name in tfx_transformer.layers.__all__
    }
    layers = {name: thing for name, thing in public.items() if inspect.isclass(thing)}
    return layers | {layer.__name__: layer for layer in ATTENTION.values()}


LAYERS = find_layers()
for layer in ATTENTION.values():  # without arguments of its own an attention needs no line above
    SAMPLES.setdefault(layer.__name__, (TOKENS, ATTENTION_OPTIONS | {"initializer": "he_normal"}))


@pytest.fixture(params=sorted(SAMPLES))
def name(request):
    return request.param


def build(name, randomize):
    """A functional model around the layer, with random weights, and inputs for it."""
    shape, options = SAMPLES[name]
    layer = LAYERS[name](**options)
    inputs = keras.Input(shape, dtype="int32" if shape == IDS else "float32")
    second = (inputs,) if name == "TransformerBlock" else ()  # its context
    model = keras.Model(inputs, layer(inputs, *second))
    rng = np.random.default_rng(0)
    x = rng.integers(9, size=(2, *shape)) if shape == IDS else rng.normal(size=(2, *shape))
    return randomize(model), x.astype("int32" if shape == IDS else "float32"), layer


def outputs(model, x):
    return [ops.convert_to_numpy(y) for y in keras.tree.flatten(model(x))]


def test_every_public_layer_and_registry_entry_has_a_sample():
    assert sorted(LAYERS) == sorted(SAMPLES)
    for registry in (ATTENTION, POSITION, NORM):
        assert set(registry.values()) <= set(LAYERS.values())


def test_the_sample_sets_every_argument_away_from_its_default(name):
    layer = LAYERS[name]
    defaults = {}
    for part in layer.__mro__:
        if issubclass(part, Serializable) and "__init__" in vars(part):
            parameters = list(inspect.signature(part.__init__).parameters.values())[1:]
            for p in parameters:
                if p.kind is not p.VAR_KEYWORD:
                    defaults.setdefault(p.name, p.default)
    if name in ("WindowAttention", "NeighborhoodAttention"):
        defaults.pop("position")  # inherited, but refused
    assert sorted(SAMPLES[name][1]) == sorted(defaults)
    same = [key for key, value in SAMPLES[name][1].items() if value == defaults[key]]
    assert same == []


def test_the_config_holds_every_argument_and_comes_back(name):
    layer = LAYERS[name](**SAMPLES[name][1])
    config = layer.get_config()
    assert {key: config[key] for key in SAMPLES[name][1]} == SAMPLES[name][1]
    assert json.loads(json.dumps(config["name"])) == layer.name
    again = type(layer).from_config(config)
    assert again.get_config() == config


def test_it_has_a_docstring(name):
    assert len(inspect.getdoc(LAYERS[name]).split()) > 8


def test_it_returns_its_output_alone_in_a_sequential_model(name):
    shape, options = SAMPLES[name]
    layer = LAYERS[name](**options | ENCODER_BLOCK.get(name, {}))
    inputs = keras.Input(shape, dtype="int32" if shape == IDS else "float32")
    model = keras.Sequential([inputs, layer, keras.layers.Flatten(), keras.layers.Dense(3)])
    assert model(np.ones((2, *shape), "int32" if shape == IDS else "float32")).shape == (2, 3)


@pytest.mark.parametrize("name", sorted(n for n in SAMPLES if "Attention" in n or "Block" in n))
def test_attention_scores_come_with_the_output_on_request(name):
    shape, options = SAMPLES[name]
    layer = LAYERS[name](**options | ENCODER_BLOCK.get(name, {}))
    x = np.random.default_rng(0).normal(size=(2, *shape)).astype("float32")
    output = layer(x)
    asked, scores = layer(x, return_attention_scores=True)
    inner, inner_scores, cache = layer.attend(x)
    assert tuple(output.shape) == (2, *shape) and cache == ()
    for other in (asked, inner):
        np.testing.assert_array_equal(ops.convert_to_numpy(other), ops.convert_to_numpy(output))
    (scores,), (inner_scores,) = keras.tree.flatten(scores), keras.tree.flatten(inner_scores)
    np.testing.assert_array_equal(ops.convert_to_numpy(scores), ops.convert_to_numpy(inner_scores))
    total = ops.convert_to_numpy(ops.sum(scores, axis=-1))
    np.testing.assert_allclose(total[total > 0], 1, atol=1e-5)  # 0 for the padding of a window


def test_examples_do_not_mix(name, randomize):
    model, x, _ = build(name, randomize)
    for expected, got in zip(outputs(model, x), outputs(model, x[:1]), strict=True):
        np.testing.assert_allclose(got[:1], expected[:1], atol=1e-5)


@pytest.mark.parametrize("name", sorted(n for n, (shape, _) in SAMPLES.items() if shape == TOKENS))
def test_a_model_of_unknown_length_takes_any(name, randomize):
    model, x, layer = build(name, randomize)
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


def test_saved_and_loaded_in_a_new_process_gives_the_same_output(tmp_path, randomize):
    for name in SAMPLES:
        model, x, _ = build(name, randomize)
        ys = outputs(model, x)
        assert all(np.abs(y).max() > 0 for y in ys)
        model.save(tmp_path / f"{name}.keras")
        np.savez(tmp_path / f"{name}.npz", x=x, **{f"y{i}": y for i, y in enumerate(ys)})
    result = subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path), *SAMPLES], capture_output=True, text=True
    )
    assert f"equal: {len(SAMPLES)}" in result.stdout, result.stderr[-3000:]
