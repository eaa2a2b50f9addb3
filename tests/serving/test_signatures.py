"""The functions of pipelines and of exports have the same signatures."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.export import export, load
from tfx_transformer.serving.signatures import by_name, concrete_functions, read_signature


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
