import pytest
import tensorflow as tf

from tfx_transformer.graph import as_it_is, at_least_one, graph, untuned


def test_a_function_is_traced_once_for_all_sizes():
    traced = []

    def double(x):
        traced.append(x.shape)
        return 2 * x

    function = graph(double, tf.TensorSpec([None], tf.float32))
    assert function(tf.constant([1.0])).numpy().tolist() == [2]
    assert function(tf.constant([1.0, 3.0])).numpy().tolist() == [2, 6]
    assert len(traced) == 1


def test_a_data_set_calls_a_function_as_it_is():
    """AutoGraph would make a loop of the graph out of `while`, and not raise."""

    def count(x):
        while x < 3:
            x += 1
        return x

    assert list(tf.data.Dataset.range(1).map(count).as_numpy_iterator()) == [3]
    with pytest.raises(TypeError, match="symbolic `tf.Tensor` as a Python `bool`"):
        tf.data.Dataset.range(1).map(as_it_is(count))


def test_what_is_made_of_an_untuned_data_set_has_no_tuner_either():
    data = tf.data.Dataset.range(3)
    assert data.options().autotune.enabled is not False
    made = untuned(data).map(lambda x: x + 1).prefetch(2)
    assert made.options().autotune.enabled is False
    assert list(made.as_numpy_iterator()) == [1, 2, 3]


def test_a_function_that_cannot_take_nothing_gets_one_and_gives_nothing():
    asked = []

    def double(images):
        asked.append(images.shape[0])
        return 2 * images

    assert at_least_one(double, tf.zeros([0, 4, 3])).shape == (0, 4, 3)
    x = tf.random.normal([2, 4, 3])
    assert (at_least_one(double, x).numpy() == 2 * x.numpy()).all() and asked == [1, 2]
