"""Hard attention: one key, the most likely or sampled, with the gradients of the softmax."""

import numpy as np
import pytest
from keras.ops import convert_to_numpy

from tfx_transformer.layers.attention.hard import HardAttention

B, T, S, D, H = 2, 5, 7, 12, 3


@pytest.fixture
def context(draw):
    return draw(B, S, D)


@pytest.fixture
def query(draw):
    return draw(B, T, D)


@pytest.fixture
def layer(randomize, query, context):
    return randomize(HardAttention(D, H, seed=3), query, context)


def one_hot_at_the_peak(soft):
    hard = np.zeros_like(soft)
    for row in np.ndindex(*soft.shape[:-1]):
        hard[row][soft[row].argmax()] = soft[row].any()
    return hard


def test_outside_training_the_most_likely_key_is_taken(layer, query, context, by_loops):
    output, weights, _ = layer.attend(query, context)
    hard = one_hot_at_the_peak(by_loops(layer, query, context)[1])
    np.testing.assert_array_equal(convert_to_numpy(weights), hard)
    alone = by_loops(layer, query, context, visible=hard > 0)[0]  # only the chosen key is allowed
    np.testing.assert_allclose(convert_to_numpy(output), alone, atol=1e-5)


def test_a_masked_key_is_not_taken(layer, query, context, draw, by_loops):
    mask = draw(B, H, T, S) > 0.3
    mask[0, 1, 2] = False  # no key is allowed for this query
    weights = convert_to_numpy(layer.attend(query, context, attention_mask=mask)[1])
    soft = by_loops(layer, query, context, visible=mask)[1]
    np.testing.assert_array_equal(weights, one_hot_at_the_peak(soft))
    assert not weights[0, 1, 2].any()


def test_samples_follow_the_softmax(layer, query, context, by_loops):
    copies = 4000
    same = np.repeat(query[:1, :1], copies, axis=1)  # one query, repeated
    weights = convert_to_numpy(
        layer.attend(same, context[:1], training=True)[1]
    )  # (1, H, copies, S)
    assert set(np.unique(weights)) == {0.0, 1.0}
    np.testing.assert_array_equal(weights.sum(-1), 1.0)
    soft = by_loops(layer, query[:1, :1], context[:1])[1]
    assert (soft.max(-1) < 0.9).all()  # not deterministic
    np.testing.assert_allclose(weights.mean(2), soft[:, :, 0], atol=0.035)  # > 4 deviations


def test_a_masked_key_is_never_sampled(layer, query, context, by_loops):
    copies = 2000
    same = np.repeat(query[:1, :1], copies, axis=1)
    some, nothing = [0, 1, 0, 1, 1, 0, 0], [0] * S
    mask = np.array([some, nothing, some], bool)[None, :, None]  # (1, H, 1, S)
    weights = convert_to_numpy(
        layer.attend(same, context[:1], attention_mask=mask, training=True)[1]
    )
    assert not weights[:, 1].any()
    assert not weights[..., [0, 2, 5, 6]].any()
    np.testing.assert_array_equal(weights[:, [0, 2]].sum(-1), 1.0)
    soft = by_loops(layer, query[:1, :1], context[:1], visible=mask)[1]
    np.testing.assert_allclose(weights.mean(2), soft[:, :, 0], atol=0.05)


def test_the_same_seed_gives_the_same_samples(layer, query, context):
    def twin(seed):
        other = HardAttention(D, H, seed=seed)
        other(query, context)
        other.set_weights(layer.get_weights())
        return [convert_to_numpy(other.attend(query, context, training=True)[1]) for _ in range(2)]

    first, second = twin(seed=3)
    assert (first != second).any()
    np.testing.assert_array_equal([first, second], twin(seed=3))
    assert (first != twin(seed=4)[0]).any()


@pytest.mark.parametrize("training", [True, False])
def test_gradients_are_those_of_the_soft_weights(
    training, layer, query, context, draw, by_loops, gradients, slopes
):
    query, context = query[:1, :2], context[:1, :4]
    mask = np.array([[[1, 1, 0, 1], [1, 1, 1, 1]]], bool)  # (1, T, S)
    upstream = draw(1, H, 2, 4)

    def hard(query, context):
        return layer.attend(query, context, attention_mask=mask, training=training)[1]

    def soft(query, context):
        return (upstream * by_loops(layer, query, context, visible=mask)[1]).sum()

    found = gradients(hard, upstream, query, context)
    for gradient, slope in zip(found, slopes(soft, query, context), strict=True):
        assert np.abs(slope).max() > 0.01
        np.testing.assert_allclose(gradient, slope, atol=1e-4)


def test_gradients_of_the_output_are_those_of_soft_attention(
    layer, query, context, draw, by_loops, gradients, slopes
):
    query, context = query[:1, :2], context[:1, :4]
    upstream = draw(1, 2, D)

    def hard(query):
        return layer(query, context, training=True)

    def soft(query):
        return (upstream * by_loops(layer, query, context)[0]).sum()

    (gradient,), (slope,) = gradients(hard, upstream, query), slopes(soft, query)
    np.testing.assert_allclose(gradient, slope, atol=1e-4)
