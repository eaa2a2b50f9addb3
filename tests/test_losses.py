import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.losses import TokenCrossentropy, share_of_batch

B, T, V = 2, 3, 5
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(B, T, V)).astype("float32")
TARGETS = RNG.integers(V, size=(B, T))
WEIGHTS = np.array([[1, 1, 0], [1, 0, 0]], "float32")


def by_loops(smoothing):
    losses = np.zeros((B, T))
    for b in range(B):
        for t in range(T):
            log_p = LOGITS[b, t] - np.log(np.exp(LOGITS[b, t]).sum())
            for v in range(V):
                share = smoothing / V + (1 - smoothing) * (v == TARGETS[b, t])
                losses[b, t] -= share * log_p[v]
    return losses


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_it_is_the_definition_over_real_tokens_only(smoothing):
    loss = TokenCrossentropy(smoothing)
    np.testing.assert_allclose(
        ops.convert_to_numpy(loss.call(TARGETS, LOGITS)), by_loops(smoothing), atol=1e-5
    )
    mean = loss(TARGETS, LOGITS, sample_weight=share_of_batch(WEIGHTS))
    expected = (by_loops(smoothing) * WEIGHTS).sum() / WEIGHTS.sum()
    np.testing.assert_allclose(float(mean), expected, rtol=1e-5)


def test_a_batch_spread_over_replicas_has_the_same_loss():
    loss = TokenCrossentropy(0.1)
    whole = float(loss(TARGETS, LOGITS, sample_weight=share_of_batch(WEIGHTS)))
    shares = ops.convert_to_numpy(share_of_batch(WEIGHTS))
    parts = [
        float(loss(TARGETS[i : i + 1], LOGITS[i : i + 1], sample_weight=shares[i : i + 1]))
        for i in range(2)
    ]
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-5)


def test_a_batch_of_padding_has_no_loss():
    assert float(ops.sum(share_of_batch(np.zeros((B, T), "float32")))) == 0


def test_half_precision_logits_are_taken_in_full():
    loss = TokenCrossentropy(0.1).call(TARGETS, (300 * LOGITS).astype("float16"))
    assert np.isfinite(ops.convert_to_numpy(loss)).all()


def test_it_saves_its_smoothing():
    config = keras.losses.serialize(TokenCrossentropy(0.2))
    assert keras.losses.deserialize(config).label_smoothing == 0.2
    with pytest.raises(ValueError, match="label_smoothing must lie in"):
        TokenCrossentropy(1.0)
