"""The contract of every model in MODELS; a new model is tested here by its registry line."""

import ast
import inspect
import re
import sys
import textwrap
from typing import Any, Literal

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
STORY = np.array([[[4, 5, 6], [7, 4, 0], [5, 9, 3]], [[4, 7, 2], [6, 8, 0], [0, 0, 0]]])
TRANSLATE = {"source": SOURCE, "target": TOKENS}

# options for the test variant, and inputs; tokens for step-by-step decoding have no padding
SAMPLES = {
    "attention_cnn": ({"num_classes": 5}, IMAGES),
    "bert": (
        {"vocab_size": 11, "head": "mlm"},
        {"tokens": SOURCE, "segments": np.array([[0, 0, 1, 1, 0], [0, 1, 1, 0, 0]])},
    ),
    "bytenet": ({"vocab_size": 11}, TRANSLATE),
    "conv_seq2seq": ({"vocab_size": 11}, TRANSLATE),
    "dalle": ({"vocab_size": 11}, np.array([[1, 7, 8, 14], [1, 9, 12, 16]])),
    "gpt": ({"vocab_size": 11}, TOKENS),
    "memory_network": ({"vocab_size": 11}, {"story": STORY, "question": TOKENS}),
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
WITHOUT_ATTENTION = {"bytenet", "mlp_mixer"}
CLASSIFIERS = [name for name, (_, inputs) in SAMPLES.items() if inputs is IMAGES]


def numpy(x):
    return ops.convert_to_numpy(x)


KNOWN = [name for name in MODELS if name in SAMPLES]
MADE: dict[str, keras.Model] = {}  # each model once; no test changes it


@pytest.fixture(params=KNOWN)
def name(request):
    return request.param


@pytest.fixture
def model(name, randomize):
    """With random weights, after a first call."""
    options, inputs = SAMPLES[name]
    if name not in MADE:
        MADE[name] = randomize(create_model(name, "test", **options), inputs)
    return MADE[name]


def test_every_model_has_a_sample():
    missing = sorted(MODELS.keys() - SAMPLES.keys())
    assert not missing, f"add to SAMPLES the options and inputs of: {', '.join(missing)}"
    assert SAMPLES.keys() <= MODELS.keys()


def test_the_registry_reads_in_order():
    assert list(MODELS) == sorted(MODELS)


def test_every_variant_is_made_of_options(name):
    variants = MODELS[name].variants
    assert "test" in variants
    parameters = inspect.signature(MODELS[name]).parameters
    for variant, options in variants.items():
        assert set(options) <= set(parameters), variant
        missing = [
            p.name
            for p in parameters.values()
            if p.default is p.empty and p.kind is not p.VAR_KEYWORD and p.name not in options
        ]
        assert set(missing) <= set(SAMPLES[name][0]), variant  # the user's vocabulary, or classes


def test_a_model_is_the_class_with_variants_in_the_file_of_its_name(name):
    module = sys.modules[f"tfx_transformer.models.{name}"]
    classes = [kind for _, kind in inspect.getmembers(module, inspect.isclass)]
    own = [
        kind for kind in classes if kind.__module__ == module.__name__ and "variants" in vars(kind)
    ]
    assert own == [MODELS[name]]


def option_parameters(name):
    parameters = inspect.signature(MODELS[name]).parameters.values()
    return [p for p in parameters if p.kind is not p.VAR_KEYWORD]


def test_the_docstring_describes_every_option_once(name):
    options = inspect.getdoc(MODELS[name]).partition("Args:\n")[2]
    described = [
        option
        for entry in re.findall(r"^ {4}([a-z_, ]+): \S", options, re.M)
        for option in entry.split(", ")
    ]
    assert described == [p.name for p in option_parameters(name)]


def test_every_option_has_a_type_that_evaluates_without_imports(name):
    """The command line reads the types from the source, without importing TensorFlow."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(MODELS[name].__init__)))
    for argument in tree.body[0].args.args[1:]:
        assert argument.annotation is not None, argument.arg
        eval(ast.unparse(argument.annotation), {"Any": Any, "Literal": Literal})


def test_a_created_model_is_built_and_has_the_name_of_the_registry(name, tmp_path):
    model = create_model(name, "test", **SAMPLES[name][0])
    assert model.built and model.name == name
    lines = []
    model.summary(print_fn=lines.append)
    assert f"{model.count_params():,}" in "\n".join(lines)
    model.save_weights(tmp_path / "x.weights.h5")
    again = create_model(name, "test", **SAMPLES[name][0])
    again.load_weights(tmp_path / "x.weights.h5")
    for ours, theirs in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(numpy(ours), numpy(theirs))
        assert ours.path == theirs.path and ours.path.startswith(f"{name}/")
    model.build(model.input_shapes())  # a second build changes nothing
    assert len(model.weights) == len(again.weights)


def test_a_variant_is_not_needed_if_all_sizes_are_given(name):
    options = MODELS[name].variants["test"] | SAMPLES[name][0]
    assert create_model(name, **options).get_config() == MODELS[name](**options).get_config()
    assert MODELS[name](**options).name == name


def test_a_missing_option_is_named(name):
    required = next(iter(SAMPLES[name][0]))
    with pytest.raises(
        ValueError, match=f"^{name} needs {required}: create_model.*{required}="
    ) as e:
        create_model(name, "test")
    assert "variant" not in str(e.value) and "\n" not in str(e.value)
    message = f"^{name} needs .*, or choose a variant: {', '.join(MODELS[name].variants)}$"
    with pytest.raises(ValueError, match=message):
        create_model(name, **SAMPLES[name][0])


def test_layer_groups_go_from_the_input_to_the_output(name, model):
    groups = [
        [id(v) for part in group for v in getattr(part, "trainable_variables", [part])]
        for group in model.layer_groups()
    ]
    assert len(groups) > 1 and all(groups)
    listed = [weight for group in groups for weight in dict.fromkeys(group)]
    assert len(listed) == len(set(listed)), "a weight is in two groups"
    trainable = [id(weight) for weight in model.trainable_variables]
    assert set(listed) <= set(trainable)
    inside = {w.path.partition("/")[2]: w for w in model.trainable_variables}
    inputs = [w for path, w in inside.items() if re.search("patches|embedding", path)]
    if name != "show_attend_tell":  # whose embedding is that of the new decoder
        assert {id(w) for w in inputs if "norm" not in w.path} <= set(groups[0])


ORDERED = [(name, {}) for name in KNOWN] + [
    ("bert", {"head": "classify", "num_classes": 3}),
    ("bytenet", {"block": "multiplicative"}),
    ("conv_seq2seq", {"tie": "all"}),
    ("memory_network", {"tie": "layerwise"}),
    ("dalle", {"masks": "full"}),
    ("rnn_seq2seq", {"feed": "none", "readout": "combined", "bidirectional": True}),
    ("rnn_seq2seq", {"feed": "none", "attention": None}),
    ("show_attend_tell", {"attention": None}),
    ("transformer", {"norm_first": True, "position": {"kind": "learned", "max_length": 9}}),
]


@pytest.mark.parametrize("name, options", ORDERED)
def test_layers_are_used_in_the_order_of_their_groups_and_those_in_none_last(
    name, options, monkeypatch
):
    """So that layer-wise decay gives the lower rate to the layer nearer to the input."""
    own, inputs = SAMPLES[name]
    model = create_model(name, "test", **own | options)
    reads, value = [], keras.Variable.value.fget
    recorded = property(lambda variable: reads.append(id(variable)) or value(variable))
    monkeypatch.setattr(keras.Variable, "value", recorded)
    model(inputs)
    monkeypatch.undo()
    first = {weight: reads.index(weight) for weight in dict.fromkeys(reads)}

    groups = [
        [id(v) for part in group for v in getattr(part, "trainable_variables", [part])]
        for group in model.layer_groups()
    ]
    starts = [min(first[weight] for weight in group if weight in first) for group in groups]
    assert starts == sorted(starts)
    listed = {weight for group in groups for weight in group}
    for weight in model.trainable_variables:
        if id(weight) in first and id(weight) not in listed:
            assert first[id(weight)] > starts[-1], weight.path


def test_logits_are_finite_and_depend_on_the_input(name, model):
    inputs = SAMPLES[name][1]
    logits = numpy(model(inputs))
    last = SAMPLES[name][0].get("vocab_size") or SAMPLES[name][0]["num_classes"]
    last = model.num_tokens if name == "dalle" else last  # of a text and an image
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


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_without_classes_it_returns_the_pooled_features(name, model):
    features = create_model(name, "test", num_classes=0)
    weights = {w.path: w for w in model.weights if "/head" not in w.path}
    assert [w.path for w in features.weights] == list(weights)
    for weight in features.weights:
        weight.assign(weights[weight.path])
    head = [numpy(w) for w in model.weights if "/head" in w.path]
    expected = numpy(features(IMAGES)) @ head[0] + head[1]
    np.testing.assert_allclose(numpy(model(IMAGES)), expected, atol=1e-4)


@pytest.mark.parametrize("name", [*CLASSIFIERS, "show_attend_tell"])
def test_images_of_a_wrong_shape_or_type_are_refused(name, model):
    def call(images):
        model({"image": images, "target": TOKENS} if name == "show_attend_tell" else images)

    size, message = model.image_size, r"images must have shape \(B, height, width, 3\); got"
    for shape in ((size, size, 3), (2, size, size, 1)):
        with pytest.raises(ValueError, match=message):
            call(np.zeros(shape, "float32"))
    with pytest.raises(ValueError, match="images must be floating-point.*; got uint8.*Classifier"):
        call(np.zeros((2, size, size, 3), "uint8"))
    if keras.backend.backend() == "jax":  # whose arrays and tracers look the same
        return
    with pytest.raises(ValueError, match="images must be normalized, .* values up to 255. For the"):
        call(np.full((2, size, size, 3), 255, "float32"))


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


GENERATORS = [name for name in KNOWN if hasattr(MODELS[name], "step")]


@pytest.mark.parametrize("name", GENERATORS)
def test_step_by_step_equals_all_at_once(name, model):
    inputs = SAMPLES[name][1]
    tokens = inputs["target"] if isinstance(inputs, dict) else inputs
    whole = numpy(model(inputs))
    state = model.initial_state(inputs, max_length=tokens.shape[1] + 2)
    for t in range(tokens.shape[1]):
        logits, state = model.step(ops.convert_to_tensor(tokens[:, t]), state, t)
        assert {"constant", "carry"} <= set(state) <= {"constant", "carry", "shared"}
        np.testing.assert_allclose(numpy(logits), whole[:, t], atol=1e-5)


@pytest.mark.parametrize("to_index", [int, ops.convert_to_tensor], ids=["number", "tensor"])
@pytest.mark.parametrize("sizes", [(2, 2), (3, 1), (1, 3), (4,)])
@pytest.mark.parametrize("name", GENERATORS)
def test_any_chunks_equal_one_token_at_a_time(name, model, sizes, to_index):
    inputs = SAMPLES[name][1]
    tokens = ops.convert_to_tensor(inputs["target"] if isinstance(inputs, dict) else inputs)
    first = model.initial_state(inputs, max_length=tokens.shape[1] + 2)
    state, expected = first, []
    for t in range(tokens.shape[1]):
        logits, state = model.step(tokens[:, t], state, t)
        expected.append(numpy(logits))
    chunked, start = first, 0
    for size in sizes:
        logits, chunked = model.step(tokens[:, start : start + size], chunked, to_index(start))
        for t in range(size):
            np.testing.assert_allclose(numpy(logits)[:, t], expected[start + t], atol=1e-5)
        start += size
    keras.tree.map_structure(
        lambda a, b: np.testing.assert_allclose(numpy(a), numpy(b), atol=1e-5), chunked, state
    )


def test_an_unknown_option_or_variant_is_named(name):
    with pytest.raises(ValueError, match=f"{name} has no option 'color'"):
        create_model(name, "test", color="red", **SAMPLES[name][0])
    known = ", ".join(MODELS[name].variants)
    with pytest.raises(ValueError, match=f"unknown {name} variant 'enormous'; known: {known}"):
        create_model(name, "enormous", **SAMPLES[name][0])


def test_an_unknown_model_lists_the_known():
    with pytest.raises(ValueError, match=f"unknown model 'flashy'; known: {', '.join(MODELS)}"):
        create_model("flashy", "test")
