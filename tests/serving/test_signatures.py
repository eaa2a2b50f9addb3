"""Pipelines and exports have the same signatures, which the inputs of a request must fit."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.export import export, load
from tfx_transformer.serving.errors import InvalidRequest, TooLarge
from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.signatures import (
    by_name,
    check_inputs,
    concrete_functions,
    read_signature,
)


@pytest.fixture(scope="module")
def exported(generator, tmp_path_factory):
    return load(export(generator, tmp_path_factory.mktemp("generator") / "out"))


@pytest.mark.parametrize("form", ["pipeline", "export"])
def test_inputs_and_outputs_are_read(form, generator, exported):
    functions = concrete_functions(generator if form == "pipeline" else exported)
    signatures = {name: read_signature(function) for name, function in functions.items()}
    assert set(signatures) == {"serving_default", "limited"}
    limited = signatures["limited"]
    assert limited.inputs == {
        "text": tf.TensorSpec([None], tf.string, "text"),
        "max_length": tf.TensorSpec([], tf.int32, "max_length"),
    }
    assert limited.outputs["score"] == tf.TensorSpec([None], tf.float32, "score")
    assert signatures["serving_default"].is_batched and not limited.is_batched
    tensors = {"max_length": tf.constant(2), "text": tf.constant(["the"])}
    outputs = by_name(functions["limited"])(tensors)
    np.testing.assert_array_equal(outputs["text"], generator.predict_limited(["the"], 2)["text"])


TEXT = {"text": tf.TensorSpec([None], tf.string, "text")}
IDS = {"source": tf.TensorSpec([None, None], tf.int32, "source")}
PIXELS = {"image": tf.TensorSpec([None, 2, 2, 3], tf.float32, "image")}
LIMITED = TEXT | {"max_length": tf.TensorSpec([], tf.int32, "max_length")}
OPTIONS = ServingOptions(max_rows=3, max_characters=5)

REFUSED = {
    "no input": (TEXT, {}, "inputs must be text; got none"),
    "another name": (TEXT, {"txt": ["a"]}, "inputs must be text; got txt"),
    "one too many": (TEXT, {"text": ["a"], "x": [1]}, "inputs must be text; got text, x"),
    "a number as text": (TEXT, {"text": ["a", 1]}, "text must be strings; got int"),
    "null": (TEXT, {"text": [None]}, "text must be strings; got NoneType"),
    "a list in a text": (TEXT, {"text": [["a"]]}, r"text must have the shape \(\?\); got \(1, 1\)"),
    "many axes": (TEXT, {"text": np.full([1] * 40, "a", object)}, r"must have the shape \(\?\)"),
    "a text alone": (TEXT, {"text": "a"}, r"text must have the shape \(\?\); got \(\)"),
    "no rows": (TEXT, {"text": []}, "at least one row"),
    "not UTF-8": (TEXT, {"text": [b"\xff"]}, "text must be UTF-8"),
    "strings as ids": (IDS, {"source": [["a"]]}, "source must have the type int32; got strings"),
    "floats as ids": (IDS, {"source": [[1.5]]}, "source must have the type int32; got float64"),
    "booleans as ids": (IDS, {"source": [[True]]}, "source must have the type int32; got bool"),
    "ragged ids": (IDS, {"source": [[1], [2, 3]]}, "source must have rows of equal length"),
    "large ids": (IDS, {"source": [[2**31]]}, "source must lie in the range of int32"),
    "huge ids": (
        IDS,
        {"source": [[2**70]]},
        "source must have the type int32; got strings or mixed",
    ),
    "an object": (
        IDS,
        {"source": {"a": 1}},
        "source must have the type int32; got strings or mixed",
    ),
    "other pixels": (
        PIXELS,
        {"image": np.zeros((1, 3, 2, 3))},
        r"image must have the shape \(\?, 2, 2, 3\); got \(1, 3, 2, 3\)",
    ),
    "a list of lengths": (
        LIMITED,
        {"text": ["a"], "max_length": [3]},
        r"max_length must have the shape \(\); got \(1,\)",
    ),
}


@pytest.mark.parametrize("specs, inputs, message", REFUSED.values(), ids=REFUSED)
def test_wrong_inputs_are_refused(specs, inputs, message):
    with pytest.raises(InvalidRequest, match=message):
        check_inputs(inputs, specs, OPTIONS)


def test_limits_have_an_error_of_their_own():
    with pytest.raises(TooLarge, match="at most 3 rows; got 4"):
        check_inputs({"text": ["a"] * 4}, TEXT, OPTIONS)
    with pytest.raises(TooLarge, match="at most 5 characters; got 6"):
        check_inputs({"text": ["a", "abcdef"]}, TEXT, OPTIONS)
    check_inputs({"text": ["ééééé"]}, TEXT, OPTIONS)  # ten bytes


def test_values_become_arrays_of_the_right_type():
    assert check_inputs({"text": ["é", b"b", "a\ud800"]}, TEXT, OPTIONS)["text"].tolist() == [
        "é".encode(),
        b"b",
        b"a",
    ]
    ids = check_inputs({"source": [[1, 2], [3, 4]]}, IDS, OPTIONS)["source"]
    assert ids.dtype == np.int32 and ids.tolist() == [[1, 2], [3, 4]]
    assert check_inputs({"source": [[], []]}, IDS, OPTIONS)["source"].dtype == np.int32
    pixels = check_inputs({"image": np.ones((2, 2, 2, 3), int)}, PIXELS, OPTIONS)["image"]
    assert pixels.dtype == np.float32
    both = check_inputs({"max_length": 3, "text": ["a"]}, LIMITED, OPTIONS)
    assert list(both) == ["text", "max_length"] and both["max_length"].shape == ()


def test_inputs_must_have_equal_numbers_of_rows():
    pair = {"first": tf.TensorSpec([None], tf.int32), "second": tf.TensorSpec([None], tf.int32)}
    with pytest.raises(InvalidRequest, match="same number of rows; got .*'first': 1, 'second': 2"):
        check_inputs({"first": [1], "second": [1, 2]}, pair, OPTIONS)
