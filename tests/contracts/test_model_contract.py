"""What every entry of MODELS promises; a new model is tested here by its registry line."""

import inspect

import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.models import MODELS, create_model

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(3, 16, 16, 3)).astype("float32")
PHOTOS = RNG.normal(size=(2, 32, 32, 3)).astype("float32")
TOKENS = np.array([[1, 7, 8, 3], [1, 9, 5, 6]])
SOURCE = np.array([[4, 5, 6, 2, 0], [4, 7, 2, 0, 0]])
TRANSLATE = {"source": SOURCE, "target": TOKENS}

# options for the tiny variant, and inputs; tokens that are read step by step have no padding
SAMPLES = {
    "attention_cnn": ({"num_classes": 5}, IMAGES),
    "bert": (
        {"vocab_size": 11, "head": "mlm"},
        {"tokens": SOURCE, "segments": np.array([[0, 0, 1, 1, 0], [0, 1, 1, 0, 0]])},
    ),
    "gpt": ({"vocab_size": 11}, TOKENS),
    "mlp_mixer": ({"num_classes": 5}, IMAGES),
    "pixel_transformer": ({"num_classes": 5}, IMAGES),
    "rnn_seq2seq": (
        {"vocab_size": 11, "attention": "additive", "feed": "context", "cell": "gru"},
        TRANSLATE,
    ),
    "show_attend_tell": ({"vocab_size": 11}, {"image": PHOTOS, "target": TOKENS}),
    "swin": ({"num_classes": 5}, IMAGES),
    "transformer": ({"vocab_size": 11}, TRANSLATE),
    "vit": ({"num_classes": 5}, IMAGES),
}
WITHOUT_ATTENTION = {"mlp_mixer"}


def numpy(x):
    return ops.convert_to_numpy(x)


KNOWN = [name for name in MODELS if name in SAMPLES]
MADE: dict[str, keras.Model] = {}  # each model once; no test changes it


@pytest.fixture(params=KNOWN)
def name(request):
    return request.param


@pytest.fixture
def model(name, randomise):
    """With random weights, after a first call."""
    options, inputs = SAMPLES[name]
    if name not in MADE:
        MADE[name] = randomise(create_model(name, "tiny", **options), inputs)
    return MADE[name]


def test_every_model_has_a_sample():
    missing = sorted(MODELS.keys() - SAMPLES.keys())
    assert not missing, f"add to SAMPLES the options and inputs of: {', '.join(missing)}"
    assert SAMPLES.keys() <= MODELS.keys()


def test_the_registry_reads_in_order():
    assert list(MODELS) == sorted(MODELS)


def test_every_variant_is_made_of_options(name):
    variants = MODELS[name].variants
    assert "tiny" in variants
    parameters = inspect.signature(MODELS[name]).parameters
    for variant, options in variants.items():
        assert set(options) <= set(parameters), variant
        missing = [
            p.name
            for p in parameters.values()
            if p.default is p.empty and p.kind is not p.VAR_KEYWORD and p.name not in options
        ]
        assert set(missing) <= set(SAMPLES[name][0]), variant  # the user's vocabulary, or classes


def test_the_docstring_names_every_option(name):
    text = inspect.getdoc(MODELS[name])
    unnamed = [
        p.name
        for p in inspect.signature(MODELS[name]).parameters.values()
        if p.kind is not p.VAR_KEYWORD and p.name not in text
    ]
    assert unnamed == []


def test_tiny_gives_finite_logits_that_depend_on_the_input(name, model):
    inputs = SAMPLES[name][1]
    logits = numpy(model(inputs))
    last = SAMPLES[name][0].get("vocab_size") or SAMPLES[name][0]["num_classes"]
    assert logits.shape[0] == len(keras.tree.flatten(inputs)[0]) and logits.shape[-1] == last
    assert np.isfinite(logits).all()
    assert np.abs(logits[0] - logits[1]).max() > 1e-3


def test_examples_do_not_mix(name, model):
    inputs = SAMPLES[name][1]
    alone = keras.tree.map_structure(lambda x: x[1:2], inputs)
    np.testing.assert_allclose(numpy(model(alone)), numpy(model(inputs))[1:2], atol=1e-4)


def test_the_config_holds_every_option_and_comes_back(name, model):
    config = model.get_config()
    for key, value in SAMPLES[name][0].items():
        assert config[key] == value
    again = type(model).from_config(config)
    assert again.get_config() == config
    again(SAMPLES[name][1])
    assert [w.shape for w in again.weights] == [w.shape for w in model.weights]


def test_saved_and_loaded_gives_the_same_logits(name, model, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    inputs = SAMPLES[name][1]
    np.testing.assert_allclose(numpy(loaded(inputs)), numpy(model(inputs)), atol=1e-6)
    assert loaded.get_config() == model.get_config()


def test_attention_maps_are_distributions(name, model):
    inputs = SAMPLES[name][1]
    maps = model.attention_maps(inputs)
    assert bool(maps) != (name in WITHOUT_ATTENTION)
    for key, weights in maps.items():
        assert key.rsplit("/", 1)[-1] in ("self", "cross")
        weights = numpy(weights)
        assert weights.ndim == 4 and len(weights) == len(keras.tree.flatten(inputs)[0])
        assert weights.min() >= 0
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in KNOWN if hasattr(MODELS[name], "step")])
def test_step_by_step_equals_all_at_once(name, model):
    inputs = SAMPLES[name][1]
    tokens = inputs["target"] if isinstance(inputs, dict) else inputs
    whole = numpy(model(inputs))
    state = model.initial_state(inputs, max_length=tokens.shape[1] + 2)
    for t in range(tokens.shape[1]):
        logits, state = model.step(ops.convert_to_tensor(tokens[:, t]), state, t)
        assert set(state) == {"fixed", "moving"}
        np.testing.assert_allclose(numpy(logits), whole[:, t], atol=1e-5)


def test_an_unknown_option_or_variant_is_named(name):
    with pytest.raises(ValueError, match=f"{name} has no option 'colour'"):
        create_model(name, "tiny", colour="red", **SAMPLES[name][0])
    known = ", ".join(MODELS[name].variants)
    with pytest.raises(ValueError, match=f"unknown {name} variant 'enormous'; known: {known}"):
        create_model(name, "enormous", **SAMPLES[name][0])


def test_an_unknown_model_lists_the_known():
    with pytest.raises(ValueError, match=f"unknown model 'flashy'; known: {', '.join(MODELS)}"):
        create_model("flashy", "tiny")
