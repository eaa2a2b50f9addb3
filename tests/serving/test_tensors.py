import base64
import json
import math
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.serving.errors import InvalidRequest
from tfx_transformer.serving.tensors import flatten, read_inputs, show_outputs, to_array, to_json

TEXT = {"text": tf.TensorSpec([None], tf.string)}
TWO = {"a": tf.TensorSpec([None, 2], tf.float32), "b": tf.TensorSpec([None], tf.int32)}


def strings(*values):
    return np.array(values, object)


@pytest.mark.parametrize(
    "request_, specs, expected",
    [
        ({"instances": ["é", {"b64": "AP8="}]}, TEXT, {"text": ["é".encode(), b"\x00\xff"]}),
        ({"instances": [{"text": "a"}, {"text": "b"}]}, TEXT, {"text": [b"a", b"b"]}),
        ({"instances": [{"text": {"b64": "YQ"}}]}, TEXT, {"text": [b"a"]}),
        ({"inputs": ["a", "b"]}, TEXT, {"text": [b"a", b"b"]}),
        ({"inputs": {"text": ["a"]}}, TEXT, {"text": [b"a"]}),
        ({"inputs": {"text": []}}, TEXT, {"text": []}),
        (
            {"instances": [{"a": [1, 2.5], "b": 3}, {"b": 4, "a": [5, 6]}]},
            TWO,
            {"a": [[1, 2.5], [5, 6]], "b": [3, 4]},
        ),
        ({"inputs": {"b": [3], "a": [[1, 2]]}}, TWO, {"a": [[1, 2]], "b": [3]}),
    ],
)
def test_rows_and_columns_become_arrays(request_, specs, expected):
    arrays = read_inputs(request_, specs)
    assert {name: array.tolist() for name, array in arrays.items()} == expected
    for name, array in arrays.items():
        assert array.dtype == specs[name].dtype.as_numpy_dtype


@pytest.mark.parametrize(
    "request_, message",
    [
        ({}, "either 'instances' or 'inputs'"),
        ({"instances": ["a"], "inputs": ["a"]}, "either 'instances' or 'inputs'"),
        ({"instances": []}, "at least one element"),
        ({"instances": "a"}, "must be a list"),
        ({"instances": None}, "must be a list"),
        ({"instances": [{"text": "a"}, "b"]}, "list of objects, or a list of values"),
        ({"instances": [{"txt": "a"}]}, "inputs must be text; got txt"),
        ({"instances": [{}]}, "inputs must be text; got none"),
        ({"instances": ["a", {"text": "b"}]}, "valid base64"),
        ({"inputs": {"text": ["a"], "more": [1]}}, "inputs must be text; got text, more"),
        ({"instances": [1]}, "text must have values of type string"),
        ({"instances": ["a", None]}, "text must have values of type string"),
        ({"instances": ["a", ["b"]]}, "text must have values of type string"),
        ({"instances": ["\ud800"]}, "UTF-8"),
        ({"instances": json.loads("[" * 33 + '"a"' + "]" * 33)}, "at most 32 lists in each other"),
        ({"instances": [{"b64": "%%%"}]}, "valid base64"),
        ({"instances": [{"b64": "é"}]}, "valid base64"),
    ],
)
def test_other_requests_are_refused(request_, message):
    with pytest.raises(InvalidRequest, match=message):
        read_inputs(request_, TEXT)


def test_several_inputs_must_be_named():
    for request in ({"instances": [1, 2]}, {"inputs": [1, 2]}):
        with pytest.raises(InvalidRequest, match="must be named; the signature has a, b"):
            read_inputs(request, TWO)


@pytest.mark.parametrize(
    "value, dtype",
    [
        ([True], tf.int32),
        ([1.0], tf.int32),
        ([2**31], tf.int32),
        ([-1], tf.uint8),
        ([10**400], tf.int64),
        ([True], tf.float32),
        (["1"], tf.float32),
        ([1e39], tf.float32),
        ([2**24 + 1], tf.float32),  # as TensorFlow Serving: the float would be another number
        ([10**400], tf.float32),
        ([1], tf.bool),
        ([[1, 2], [3]], tf.int32),
        ([[1], 2], tf.int32),
        ([1, [2]], tf.int32),
    ],
)
def test_values_that_do_not_fit_are_refused(value, dtype):
    with pytest.raises(InvalidRequest, match="x must"):
        to_array(value, tf.TensorSpec(None, dtype), "x")


def test_special_floats_are_accepted_as_by_tensorflow_serving():
    array = to_array([math.nan, math.inf, -1, 1e38], tf.TensorSpec(None, tf.float32), "x")
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, np.array([np.nan, np.inf, -1, 1e38], "float32"))


def test_nested_lists_have_the_shape_that_numpy_gives_them(draw):
    array = draw(2, 3, 4)
    values, shape = flatten(array.tolist(), "x")
    assert shape == [2, 3, 4] and values == array.ravel().tolist()
    assert flatten(7, "x") == ([7], [])


def test_one_output_has_no_name():
    outputs = {"y": np.array([[1, 2], [3, 4]])}
    assert show_outputs(outputs, as_rows=True) == {"predictions": [[1, 2], [3, 4]]}
    assert show_outputs(outputs, as_rows=False) == {"outputs": [[1, 2], [3, 4]]}


def test_several_outputs_are_objects():
    outputs = {"y": np.array([1, 2]), "text": strings(b"a", "é".encode())}
    rows = [{"y": 1, "text": "a"}, {"y": 2, "text": "é"}]
    assert show_outputs(outputs, as_rows=True) == {"predictions": rows}
    assert show_outputs(outputs, as_rows=False) == {"outputs": {"y": [1, 2], "text": ["a", "é"]}}


def test_only_outputs_named_bytes_are_base64():
    assert to_json(strings(b"\xff"), "image_bytes") == [{"b64": base64.b64encode(b"\xff").decode()}]
    assert to_json(strings(b"a\xff"), "text") == ["a\ufffd"]


def test_floats_have_the_digits_of_their_own_precision(draw):
    assert json.dumps(to_json(np.array([0.2, 1, 1e-30], "float32"))) == "[0.2, 1.0, 1e-30]"
    array = draw(50)
    np.testing.assert_array_equal(np.array(to_json(array), "float32"), array)
    assert json.dumps(to_json(np.array([np.nan, -np.inf], "float32"))) == "[NaN, -Infinity]"
    long = np.linspace(0, 1, 30_003, dtype="float32").reshape(3, -1)
    np.testing.assert_array_equal(np.array(to_json(long), "float32"), long)
    assert to_json(np.float32(0.2)) == 0.2 and to_json(np.array(True)) is True


def test_many_floats_take_little_memory():
    array = np.linspace(0, 1, 200_000, dtype="float32")
    tracemalloc.start()
    to_json(array)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * array.size  # a list of Python floats takes 32 bytes for each
