import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tfx_transformer.training.losses import TokenCrossentropy

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
                target = smoothing / V + (1 - smoothing) * (v == TARGETS[b, t])
                losses[b, t] -= target * log_p[v]
    return losses


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_loss_is_the_mean_over_tokens_with_a_weight(smoothing):
    loss = TokenCrossentropy(smoothing)
    np.testing.assert_allclose(
        ops.convert_to_numpy(loss.call(TARGETS, LOGITS)), by_loops(smoothing), atol=1e-5
    )
    expected = (by_loops(smoothing) * WEIGHTS).sum() / WEIGHTS.sum()
    assert float(loss(TARGETS, LOGITS, WEIGHTS)) == pytest.approx(expected, rel=1e-5)
    assert float(loss(TARGETS, LOGITS)) == pytest.approx(by_loops(smoothing).mean(), rel=1e-5)
    total = TokenCrossentropy(smoothing, reduction="sum")
    mean = total(TARGETS, LOGITS, WEIGHTS / WEIGHTS.sum())
    assert float(mean) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_gradient_is_that_of_the_definition(smoothing):
    logits = tf.Variable(30 * LOGITS)
    smooth = (1 - smoothing) * tf.one_hot(TARGETS, V) + smoothing / V
    with tf.GradientTape(persistent=True) as tape:
        loss = TokenCrossentropy(smoothing, reduction="sum")(TARGETS, logits, 3 * WEIGHTS)
        expected = -3 * tf.reduce_sum(WEIGHTS[..., None] * smooth * tf.nn.log_softmax(logits))
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    own, other = (tape.gradient(x, logits) for x in (loss, expected))
    np.testing.assert_allclose(own, other, atol=1e-5)
    assert np.abs(own).max() > 0.1 and not np.any(own[WEIGHTS == 0])


@pytest.mark.parametrize("weights", [WEIGHTS, WEIGHTS / WEIGHTS.sum()], ids=["real", "sum 1"])
def test_fit_shows_the_mean_over_real_tokens(weights):
    dense = keras.layers.Dense(V, use_bias=False, kernel_initializer="identity")
    model = keras.Sequential([keras.Input((T, V)), dense])
    model.compile("sgd", TokenCrossentropy(0.1), jit_compile=False)
    history = model.fit(LOGITS, TARGETS, sample_weight=np.array(weights), verbose=0).history
    expected = (by_loops(0.1) * WEIGHTS).sum() / WEIGHTS.sum()
    assert history["loss"] == pytest.approx([expected], rel=1e-5)


def test_the_loss_of_padding_is_zero():
    padding = np.zeros((B, T), "float32")
    assert float(TokenCrossentropy()(TARGETS, LOGITS, padding)) == 0


def test_half_precision_logits_give_a_finite_loss():
    loss = TokenCrossentropy(0.1).call(TARGETS, (300 * LOGITS).astype("float16"))
    assert np.isfinite(ops.convert_to_numpy(loss)).all()


def test_the_config_has_the_label_smoothing():
    config = keras.losses.serialize(TokenCrossentropy(0.2))
    assert keras.losses.deserialize(config).get_config() == TokenCrossentropy(0.2).get_config()
    assert config["config"]["label_smoothing"] == 0.2
    with pytest.raises(ValueError, match="label_smoothing must lie in"):
        TokenCrossentropy(1.0)
