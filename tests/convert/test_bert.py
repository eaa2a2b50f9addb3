"""BERT checkpoints of Hugging Face give the outputs of its library.

The fixtures and the outputs of the library were stored by `fixtures/make_text_fixtures.py`.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from tfx_transformer.convert import load_weights
from tfx_transformer.models import BERT

FIXTURES = Path(__file__).parents[1] / "fixtures"
SIZES = dict(vocab_size=23, dim=12, depth=2, num_heads=3, mlp_dim=30, max_length=10)
OPTIONS = {
    "hugging_face_bert": {},
    "hugging_face_bert_mlm": {"head": "mlm"},
    "hugging_face_bert_pretraining": {"head": "mlm", "next_sentence": True},
    "hugging_face_bert_classify": {"head": "classify", "num_classes": 5},
}
THEIRS = {  # our output → the name of the library's, by fixture
    "hugging_face_bert": {"tokens": "last_hidden_state", "sentence": "pooler_output"},
    "hugging_face_bert_mlm": "logits",
    "hugging_face_bert_pretraining": {
        "tokens": "prediction_logits",
        "sentence": "seq_relationship_logits",
    },
    "hugging_face_bert_classify": "logits",
}
PRETRAINING = "hugging_face_bert_pretraining"


def make(**options):
    return BERT(**SIZES | options)


def stored(name, folder=FIXTURES):
    """The inputs of a fixture, and the outputs of the library in the structure of ours."""
    with np.load(folder / f"{name}.npz") as file:
        arrays = dict(file)
    inputs = {part: arrays[part] for part in ("tokens", "segments")}
    return inputs, keras.tree.map_structure(lambda part: arrays[part], THEIRS[name])


def check(model, name, folder=FIXTURES):
    inputs, expected = stored(name, folder)
    outputs = model(inputs)
    keras.tree.assert_same_structure(outputs, expected)
    for one, other in zip(keras.tree.flatten(outputs), keras.tree.flatten(expected), strict=True):
        np.testing.assert_allclose(keras.ops.convert_to_numpy(one), other, atol=1e-4)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_outputs_are_those_of_the_library(name):
    """At padding too, which attends to the same tokens as the others."""
    model = make(**OPTIONS[name])
    assert load_weights(model, FIXTURES / f"{name}.safetensors") == []
    assert (stored(name)[0]["tokens"] == 0).any() and (stored(name)[0]["segments"] == 1).any()
    check(model, name)


def test_the_outputs_are_those_of_the_installed_library(tmp_path):
    for name in ("torch", "timm", "transformers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    command = [sys.executable, FIXTURES / "make_text_fixtures.py", tmp_path, "1"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for name, options in OPTIONS.items():
        model = make(**options)
        load_weights(model, tmp_path / f"{name}.safetensors")
        check(model, name, tmp_path)
    others = stored(name, tmp_path)[1], stored(name)[1]
    assert np.abs(others[0] - others[1]).max() > 0.1  # other weights than the stored ones


def test_a_state_dict_loads_too(read):
    """It contains the tied output layer as well."""
    state = read(PRETRAINING)
    state["cls.predictions.decoder.weight"] = state["bert.embeddings.word_embeddings.weight"]
    state["cls.predictions.decoder.bias"] = state["cls.predictions.bias"]
    model = make(**OPTIONS[PRETRAINING])
    assert load_weights(model, state) == []
    check(model, PRETRAINING)


def test_an_output_that_is_not_tied_is_refused(read, draw):
    state = read(PRETRAINING) | {"cls.predictions.decoder.weight": draw(23, 12)}
    message = "decoder.weight must be equal to bert.embeddings.word_embeddings.weight"
    with pytest.raises(ValueError, match=message):
        load_weights(make(**OPTIONS[PRETRAINING]), state)


def test_old_files_load_too(read):
    """As the first ones on the Hub: TensorFlow's names of norms, and a buffer of positions."""
    old_names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    state = {"bert.embeddings.position_ids": np.arange(10)[None]}
    for name, array in read(PRETRAINING).items():
        for new, old in old_names.items():
            name = name.replace(new, old)
        state[name] = array
    assert "bert.encoder.layer.1.output.LayerNorm.gamma" in state
    model = make(**OPTIONS[PRETRAINING])
    assert load_weights(model, state) == []
    check(model, PRETRAINING)


@pytest.mark.parametrize("options", [{}, {"head": "mlm"}], ids=["features", "mlm"])
def test_weights_without_a_layer_in_the_model_are_ignored(options):
    path = FIXTURES / f"{PRETRAINING}.safetensors"
    whole, part = make(**OPTIONS[PRETRAINING]), make(**options)
    for model in (whole, part):
        assert load_weights(model, path) == []
    inputs, expected = stored(PRETRAINING)
    if options:
        np.testing.assert_allclose(part(inputs), expected["tokens"], atol=1e-4)
    else:
        np.testing.assert_allclose(
            part(inputs)["sentence"], whole.pool_tokens(whole.encode(inputs)[0])
        )


@pytest.mark.parametrize("prefix", ["bert.", ""], ids=["with heads", "alone"])
def test_a_new_head_is_added_to_a_pretrained_encoder(prefix, read, weights_by_path):
    state = read(PRETRAINING)
    if not prefix:
        state = {name[5:]: array for name, array in state.items() if name.startswith("bert.")}
    model = make(head="classify", num_classes=7)
    model.build((None, None))
    before = weights_by_path(model)
    kept = load_weights(model, state, head=False)
    assert kept == ["head_class/kernel", "head_class/bias"]
    for path, array in weights_by_path(model).items():
        assert np.array_equal(array, before[path]) == ("/head_class/" in path), path
    inputs, _ = stored(PRETRAINING)
    whole = make(**OPTIONS[PRETRAINING])
    load_weights(whole, read(PRETRAINING))
    np.testing.assert_array_equal(model.encode(inputs)[0], whole.encode(inputs)[0])


@pytest.mark.parametrize("head", [None, "classify"])
def test_a_file_without_pooler_gives_all_but_a_new_pooler_and_head(head, read, weights_by_path):
    """As BertForMaskedLM saves it."""
    state = read("hugging_face_bert_mlm")
    assert not any("pooler" in name for name in state)
    model = make(head=head, num_classes=7 if head == "classify" else None)
    model.build((None, None))
    before = weights_by_path(model)
    kept = load_weights(model, state, head=False)
    new = ["pooler/kernel", "pooler/bias"]
    new += ["head_class/kernel", "head_class/bias"] if head == "classify" else []
    assert kept == new
    for path, array in weights_by_path(model).items():
        assert np.array_equal(array, before[path]) == (path.split("/", 1)[1] in new), path
    with pytest.raises(ValueError, match="pooler.dense.weight is missing, .*; head=False skips it"):
        load_weights(model, state)


def test_a_loaded_model_is_restored_from_a_keras_file(tmp_path):
    model = make(head="mlm")
    load_weights(model, FIXTURES / "hugging_face_bert_mlm.safetensors")
    model.save(tmp_path / "bert.keras")
    check(keras.saving.load_model(tmp_path / "bert.keras"), "hugging_face_bert_mlm")


WRONG = {  # options of the model, changes of the weights (None: removed), the message
    "missing": (
        {"head": "mlm"},
        {"cls.predictions.transform.dense.bias": None},
        r"cls.predictions.transform.dense.bias is missing, must be \(12,\) for head_dense/bias; "
        "head=False skips it",
    ),
    "no classifier": (
        {"head": "classify", "num_classes": 5},
        {},
        r"classifier.weight is missing, must be \(5, 12\) for head_class/kernel; head=False",
    ),
    "no pooler": (
        {},
        {"bert.pooler.dense.weight": None},
        r"bert.pooler.dense.weight is missing, must be \(12, 12\) for pooler/kernel",
    ),
    "vocabulary": (
        {"vocab_size": 24},
        {},
        r"word_embeddings.weight must be \(24, 12\) for tokens/table; got \(23, 12\)",
    ),
    "positions": (
        {"max_length": 9},
        {},
        r"position_embeddings.weight must be \(9, 12\) for position_embedding",
    ),
    "width": (
        {"mlp_dim": 24},
        {},
        r"bert.encoder.layer.0.output.dense.weight must be \(12, 24\) for block_0/mlp/down/kernel; "
        r"got \(12, 30\)",
    ),
    "fewer blocks": ({"depth": 1}, {}, r"bert.encoder.layer.1.*has no counterpart in the model"),
    "more": ({}, {"bert.extra": np.zeros(3)}, r"bert.extra \(3,\) has no counterpart in the model"),
}


@pytest.mark.parametrize("options, changes, message", WRONG.values(), ids=WRONG)
def test_weights_that_do_not_fit_are_named_and_nothing_is_loaded(
    options, changes, message, read, weights_by_path
):
    model = make(**options)
    model.build((None, None))
    before = weights_by_path(model)
    weights = read(PRETRAINING) | changes
    weights = {key: array for key, array in weights.items() if array is not None}
    with pytest.raises(ValueError, match=message):
        load_weights(model, weights)
    for path, array in weights_by_path(model).items():
        np.testing.assert_array_equal(array, before[path])


def test_other_weights_are_refused(read):
    with pytest.raises(
        ValueError, match="unknown BERT weights; known: Hugging Face, keras-hub; got "
    ):
        load_weights(make(), read("hugging_face_gpt"))
