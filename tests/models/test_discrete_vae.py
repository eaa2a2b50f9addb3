"""The discrete VAE: tokens of images, Gumbel-softmax, its schedules and losses."""

import keras
import numpy as np
import pytest
import scipy.special
from keras import ops

from tfx_transformer.models.discrete_vae import (
    MARGIN,
    DiscreteVAE,
    LaplaceLoss,
    ResidualConv,
    cosine,
    divergence,
    median_distance,
    spread_points,
)

SIZES = {"codebook_size": 7, "dim": 6, "depth": 2, "image_size": 12, "patch_size": 4}


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.fixture
def images(draw):
    return np.tanh(draw(2, 12, 12, 3))


@pytest.fixture
def model(randomize, images):
    return randomize(DiscreteVAE(**SIZES), images)


def test_an_image_becomes_a_grid_of_tokens_and_an_image_again(model, images):
    tokens = numpy(model.encode(images))
    assert tokens.shape == (2, 3, 3) == (2, *model.grid) and 0 <= tokens.min() <= tokens.max() < 7
    restored = numpy(model.decode(tokens))
    assert restored.shape == images.shape and np.abs(restored).max() <= 1
    np.testing.assert_allclose(numpy(model(images)), restored, atol=1e-6)
    np.testing.assert_array_equal(tokens, numpy(model.logits(images)).argmax(axis=-1))


def test_a_token_is_its_row_of_the_codebook(model):
    tokens = np.array([[[0, 6, 2], [1, 1, 5], [3, 4, 0]]])
    vectors = numpy(model.codebook)[tokens]
    np.testing.assert_allclose(numpy(model.decode(tokens)), numpy(model.decode_codes(vectors)))


def test_the_channels_halve_with_every_scale():
    model = DiscreteVAE(7, dim=16, depth=1, image_size=32, patch_size=8)
    model.build()
    widths = [x.shape[-1] for x in model.encoder.weights if len(x.shape) == 4]
    assert widths == [4, 8, 16, 8, 8, 16, 7]
    assert model.grid == (4, 4) and model(np.zeros((1, 32, 32, 3), "float32")).shape[1] == 32


def test_samples_follow_the_gumbel_softmax(model):
    """At a low temperature a code is as frequent as its softmax says."""
    logits = np.array([2.0, 0.0, 1.0, -1.0, 0.5, -2.0, 0.0], "float32")
    many = ops.convert_to_tensor(np.tile(logits, (1, 100, 100, 1)))
    soft = numpy(model.sample(many, 0.01))[0].reshape(-1, 7)
    np.testing.assert_allclose(soft.sum(axis=-1), 1, atol=1e-4)
    assert np.mean(soft.max(axis=-1) > 0.99) > 0.9
    np.testing.assert_allclose(soft.mean(axis=0), scipy.special.softmax(logits), atol=0.02)
    warm = numpy(model.sample(many, 1.0))[0].reshape(-1, 7)
    assert np.mean(warm.max(axis=-1)) < 0.8


def test_straight_through_samples_are_single_codes_with_the_gradient_of_mixtures(images):
    tf = pytest.importorskip("tensorflow")
    model = DiscreteVAE(**SIZES, straight_through=True)
    model.build()
    logits = tf.constant(np.random.default_rng(0).normal(size=(1, 2, 2, 7)).astype("float32"))
    seed = numpy(model.noise.state)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        hard = model.sample(logits, 0.5)
        loss = ops.sum(hard[..., 2])
    np.testing.assert_allclose(
        np.sort(hard, axis=-1), np.eye(7)[[6] * 4].reshape(1, 2, 2, 7), atol=1e-6
    )
    model.noise.state.assign(seed)
    model.straight_through = False
    with tf.GradientTape() as soft_tape:
        soft_tape.watch(logits)
        soft_loss = ops.sum(model.sample(logits, 0.5)[..., 2])
    expected = soft_tape.gradient(soft_loss, logits)
    np.testing.assert_allclose(tape.gradient(loss, logits), expected, atol=1e-6)
    assert np.abs(expected).max() > 1e-3


def test_each_training_call_adds_the_divergence_and_is_counted(model, images):
    model.kl_steps = 2
    for step, share in enumerate((0, 0.5, 1, 1)):
        assert int(model.updates) == step
        model(images, training=True)
        expected = model.kl_weight * share * float(divergence(model.logits(images, training=True)))
        assert float(model.losses[0]) == pytest.approx(expected / (3 * 4 * 4), rel=1e-3)
    model(images)
    assert int(model.updates) == 4 and not model.losses


def test_the_temperature_falls_to_a_sixteenth_along_a_cosine(model):
    model.temperature_steps, found = 8, []
    for step in range(10):
        model.updates.assign(step)
        found.append(float(model.schedules()[0]))
    angles = np.pi * np.minimum(np.arange(10) / 8, 1)
    np.testing.assert_allclose(found, 1 / 16 + (15 / 16) * (1 + np.cos(angles)) / 2, rtol=1e-5)
    assert float(cosine(ops.array(0.5), 0.0, 3.0)) == pytest.approx(1.5)


def test_the_divergence_is_that_of_uniform_codes(draw):
    logits = 2 * draw(3, 2, 2, 5)
    probs = scipy.special.softmax(logits, axis=-1)
    expected = np.mean([sum(q * np.log(q * 5) for q in row) for row in probs.reshape(-1, 5)])
    assert float(divergence(logits)) == pytest.approx(expected, rel=1e-4)
    assert float(divergence(np.zeros((1, 5), "float32"))) == pytest.approx(0, abs=1e-6)


def test_the_laplace_loss_is_the_negative_log_likelihood_but_for_a_constant(draw):
    images, outputs, scale = draw(2, 4, 3, 3), draw(2, 4, 3, 3), 0.2
    density = np.exp(-np.abs(images - outputs) / scale) / (2 * scale)
    expected = np.mean(-np.log(density)) - np.log(2 * scale)
    assert float(LaplaceLoss(scale)(images, outputs)) == pytest.approx(expected, rel=1e-4)


def test_the_sum_of_a_residual_block_is_scaled_by_depth(draw, randomize):
    x = draw(1, 4, 4, 6)
    one, three = randomize(ResidualConv(6, 1), x), ResidualConv(6, 3)
    three.build(x.shape)
    three.set_weights(one.get_weights())
    np.testing.assert_allclose(numpy(three(x)) - x, (numpy(one(x)) - x) / 9, atol=1e-5)


def test_training_lowers_the_loss_and_a_saved_model_has_the_same_tokens(images, tmp_path):
    keras.utils.set_random_seed(0)
    model = DiscreteVAE(**SIZES, kl_steps=10, temperature_steps=20)
    model.build()
    model.compile(keras.optimizers.Adam(1e-2), LaplaceLoss(), jit_compile=False)
    images = np.broadcast_to(np.sign(images[:, :1, :1]) / 2, images.shape)  # two colors
    losses = model.fit(images, images, epochs=30, verbose=0).history["loss"]
    assert losses[-1] < 0.8 * losses[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    np.testing.assert_array_equal(numpy(loaded.encode(images)), numpy(model.encode(images)))
    assert loaded.get_config() == model.get_config() and int(loaded.updates) == 30


@pytest.mark.parametrize(
    "options, message",
    [
        ({"patch_size": 6}, "patch_size must be 2, 4, 8, …; got patch_size=6"),
        ({"patch_size": 8}, "patch_size must divide image_size"),
        ({"kl_weight": 0}, "kl_weight must be above zero"),
        ({"codebook_size": 0}, "codebook_size must be a whole number above zero"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        DiscreteVAE(**SIZES | options)


def test_a_token_depends_on_its_own_pixels_alone(model, images):
    logits, changed = numpy(model.logits(images)), images.copy()
    changed[:, 8:] = -changed[:, 8:]  # the last row of patches
    others = numpy(model.logits(changed))
    np.testing.assert_allclose(others[:, :2], logits[:, :2], atol=1e-5)
    assert np.abs(others[:, 2] - logits[:, 2]).max(axis=(0, 2)).min() > 1e-3


def test_the_first_codes_are_the_parts_of_images_that_differ():
    rng = np.random.default_rng(4)
    parts = np.tanh(2 * rng.normal(size=(7, 4, 4, 3))).astype("float32")
    cells = np.concatenate([np.arange(7), np.zeros(20, int), rng.integers(7, size=9)])
    images = parts[cells].reshape(4, 3, 3, 4, 4, 3).swapaxes(2, 3).reshape(4, 12, 12, 3)
    keras.utils.set_random_seed(2)
    model = DiscreteVAE(**SIZES)
    model.build()
    model.spread_codes(images)
    logits = numpy(model.logits(images, training=True)).reshape(36, 7)
    tokens = logits.argmax(axis=-1)
    assert len(set(zip(cells, tokens, strict=True))) == 7 == len(set(tokens))
    sorted_logits = np.sort(logits, axis=-1)
    margins = (sorted_logits[:, -1] - sorted_logits[:, -2])[:7]
    assert np.median(margins) == pytest.approx(MARGIN, rel=0.1)
    assert 0.5 < numpy(model.codebook).std() < 2


def test_points_are_spread_even_if_there_are_too_few():
    points = np.array([[0.0, 0], [5, 0], [0, 9]])
    found = spread_points(points[[0, 0, 0, 0, 1, 2]], 3, np.random.default_rng(0))
    assert sorted(map(tuple, found)) == sorted(map(tuple, points))
    assert len(spread_points(points, 5, np.random.default_rng(0))) == 5
    assert median_distance(points) == 25
