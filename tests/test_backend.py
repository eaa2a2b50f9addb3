"""The operations of `backend` equal their definition, and are one op in TensorFlow."""

import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.backend import forget_size, gather, gather_each, matmul_transposed

B, M, K, D = 2, 5, 3, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, M, D)).astype("float32")
Y = RNG.normal(size=(B, K, D)).astype("float32")
INDICES = np.array([[4, 0, 0], [2, 1, 3]], "int32")

CASES = {
    "gather": (lambda x: gather(x, INDICES[0], axis=1), X, X[:, INDICES[0]]),
    "gather a row": (lambda x: gather(x, 1), X, X[1]),
    "gather_each": (
        lambda x: gather_each(x, INDICES),
        X,
        np.array([[X[b, i] for i in INDICES[b]] for b in range(B)]),
    ),
    "matmul_transposed": (
        lambda x: matmul_transposed(x, Y),
        X,
        np.array(
            [[[np.dot(X[b, m], Y[b, k]) for k in range(K)] for m in range(M)] for b in (0, 1)]
        ),
    ),
}


@pytest.mark.parametrize("function, x, expected", CASES.values(), ids=CASES)
def test_the_result_is_that_of_the_definition(function, x, expected):
    y = ops.convert_to_numpy(function(ops.convert_to_tensor(x)))
    np.testing.assert_allclose(y, expected, atol=1e-6)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="compares the two ways")
@pytest.mark.parametrize("function, x, expected", CASES.values(), ids=CASES)
def test_other_backends_compute_the_same(function, x, expected, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    y = ops.convert_to_numpy(function(ops.convert_to_tensor(x)))
    np.testing.assert_allclose(y, expected, atol=1e-6)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="counts its ops")
@pytest.mark.parametrize("function, x, expected", CASES.values(), ids=CASES)
def test_in_tensorflow_it_is_one_op(function, x, expected):
    import tensorflow as tf

    traced = tf.function(function, [tf.TensorSpec([None, M, D])], autograph=False)
    nodes = traced.get_concrete_function().graph.as_graph_def().node
    assert sum(node.op not in ("Const", "Identity", "Placeholder") for node in nodes) == 1


def test_a_size_that_is_forgotten_may_change_in_a_loop():
    def grow(x):
        x = forget_size(x, 1)
        return ops.while_loop(
            lambda x: ops.shape(x)[1] < 8, lambda x: (ops.concatenate([x, x], axis=1),), (x,)
        )[0]

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        assert tf.function(grow, autograph=False)(tf.constant([[1, 2]])).shape == (1, 8)
    assert forget_size(ops.ones((1, 2)), 1).shape == (1, 2)
