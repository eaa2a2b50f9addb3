import tensorflow as tf

from tfx_transformer.graph import graph


def test_a_function_is_traced_once_for_all_sizes():
    traced = []

    def double(x):
        traced.append(x.shape)
        return 2 * x

    function = graph(double, tf.TensorSpec([None], tf.float32))
    assert function(tf.constant([1.0])).numpy().tolist() == [2]
    assert function(tf.constant([1.0, 3.0])).numpy().tolist() == [2, 6]
    assert len(traced) == 1
