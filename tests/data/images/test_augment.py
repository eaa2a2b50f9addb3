"""Each change of an image against its definition; the seed is the only randomness."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.images import augment

SEEDS = [tf.constant([i, 7 * i + 1]) for i in range(40)]


@pytest.fixture
def image():
    return tf.constant(np.random.default_rng(0).integers(0, 256, (12, 12, 3)), tf.float32)


CHANGES = {
    "resized_crop": lambda image, seed: augment.resized_crop(image, seed, 8, 0.2),
    "padded_crop": lambda image, seed: augment.padded_crop(image, seed, 0.25),
    "flip": augment.flip,
    "erase": lambda image, seed: augment.erase(image, seed, 0.9),
    "rand_augment": lambda image, seed: augment.rand_augment(image, seed, 2, 7.0),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_the_result_depends_on_the_seed_alone(name, image):
    change = tf.function(CHANGES[name], autograph=False)
    first, again = change(image, SEEDS[3]).numpy(), change(image, SEEDS[3]).numpy()
    np.testing.assert_array_equal(first, again)
    assert any(not np.array_equal(first, change(image, seed)) for seed in SEEDS[4:9])
    assert first.min() >= 0 and first.max() <= 255 and first.shape[0] == first.shape[1]


def test_a_padded_crop_is_a_shift(image):
    padded = np.pad(image.numpy(), ((3, 3), (3, 3), (0, 0)))
    shifts = [padded[y : y + 12, x : x + 12] for y in range(7) for x in range(7)]
    used = set()
    for seed in SEEDS:
        cropped = augment.padded_crop(image, seed, 0.25).numpy()
        used |= {i for i, shift in enumerate(shifts) if np.array_equal(shift, cropped)}
    assert len(used) > 15


def test_a_resized_crop_of_one_color_keeps_it():
    flat = tf.fill([12, 17, 3], 90.0)
    for seed in SEEDS[:9]:
        np.testing.assert_allclose(augment.resized_crop(flat, seed, 5), 90, atol=1e-3)


def test_resized_crops_have_small_and_large_areas():
    ramp = tf.tile(tf.range(100.0)[None, :, None], [100, 1, 3])  # a pixel's value is its column
    spans = [np.ptp(augment.resized_crop(ramp, seed, 10, 0.05).numpy()) for seed in SEEDS]
    assert min(spans) < 40 and max(spans) > 80


def test_half_of_the_images_are_flipped(image):
    flipped = [np.array_equal(augment.flip(image, s), image[:, ::-1]) for s in SEEDS]
    same = [np.array_equal(augment.flip(image, s), image) for s in SEEDS]
    assert 10 < sum(flipped) < 30 and sum(flipped) + sum(same) == 40


def test_one_rectangle_is_erased_with_the_given_probability(image):
    counts = 0
    for seed in SEEDS:
        changed = (augment.erase(image, seed, 0.5).numpy() != image.numpy()).any(axis=-1)
        if changed.any():
            counts += 1
            rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
            box = changed[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            assert box.mean() > 0.95 and changed.mean() < 0.45
    assert 10 < counts < 30


@pytest.mark.parametrize("name", sorted(augment.OPERATIONS))
def test_operations_keep_the_range_and_most_change_nothing_at_level_zero(name, image):
    for level in (-0.9, 0.9):
        changed = augment.OPERATIONS[name](image, tf.constant(level)).numpy()
        assert changed.shape == (12, 12, 3) and changed.min() >= 0 and changed.max() <= 255
        assert (name == "identity") == np.array_equal(changed, image)
    if name not in ("autocontrast", "equalize"):
        unchanged = augment.OPERATIONS[name](image, tf.constant(0.0))
        np.testing.assert_allclose(unchanged, image, atol=1e-3)


def test_geometric_operations_match_their_definition(image):
    level = tf.constant(1 / 3.6)  # 0.6 of half of 12 pixels: one pixel
    moved = augment.OPERATIONS["translate_x"](image, level).numpy()
    np.testing.assert_allclose(moved[:, :-1], image[:, 1:], atol=0.1)
    np.testing.assert_allclose(moved[:, -1], augment.GRAY, atol=0.1)
    moved = augment.OPERATIONS["translate_y"](image, level).numpy()
    np.testing.assert_allclose(moved[:-1], image[1:], atol=0.1)
    rotated = augment.rotate(image, tf.constant(3.0)).numpy()  # 3 · 30 degrees
    np.testing.assert_allclose(rotated, np.rot90(image.numpy()), atol=0.1)


def test_color_operations_match_their_definition(image):
    def change(name, level):
        return augment.OPERATIONS[name](image, tf.constant(level)).numpy()

    pixels = image.numpy()
    np.testing.assert_allclose(change("brightness", -0.5), 0.55 * pixels, atol=1e-3)
    np.testing.assert_array_equal(
        change("solarize", 0.5), np.where(pixels < 128, pixels, 255 - pixels)
    )
    np.testing.assert_array_equal(change("posterize", -1.0), pixels // 16 * 16)
    gray = pixels @ [0.2989, 0.5870, 0.1140]
    np.testing.assert_allclose(
        change("color", -1.0), 0.1 * pixels + 0.9 * gray[..., None], atol=0.1
    )
    np.testing.assert_allclose(change("contrast", -1.0), 0.1 * pixels + 0.9 * gray.mean(), atol=0.1)
    stretched = change("autocontrast", 0.0)
    assert stretched.min(axis=(0, 1)).tolist() == [0] * 3
    np.testing.assert_allclose(stretched.max(axis=(0, 1)), 255)
    flat = np.sort(change("equalize", 0.0)[..., 0].ravel())
    assert np.abs(flat - np.linspace(0, 255, 144)).max() < 16


@pytest.fixture
def batch():
    images = tf.reshape(tf.range(4 * 10 * 10 * 3, dtype=tf.float32) % 251, [4, 10, 10, 3])
    return images, tf.eye(4)


def test_mixup_is_a_weighted_sum_of_images_and_labels(batch):
    images, labels = batch
    for seed in SEEDS[:5]:
        mixed, targets = augment.mix(images, labels, seed, 0.8, 0.0)
        weight = targets.numpy()[0, 0]
        expected = weight * images[0] + (1 - weight) * images[3]
        np.testing.assert_allclose(mixed[0], expected, atol=1e-2)
        np.testing.assert_allclose(targets[0], [weight, 0, 0, 1 - weight], atol=1e-6)


def test_cutmix_pastes_a_rectangle_and_mixes_labels_by_its_area(batch):
    images, labels = batch
    for seed in SEEDS[:5]:
        mixed, targets = augment.mix(images, labels, seed, 0.0, 1.0)
        is_other = (mixed[1].numpy() == images[2].numpy()).all(axis=-1)
        is_own = (mixed[1].numpy() == images[1].numpy()).all(axis=-1)
        assert (is_other | is_own).all()
        assert targets.numpy()[1, 2] == pytest.approx(is_other.mean(), abs=1e-6)
        assert targets.numpy()[1, 1] == pytest.approx(is_own.mean(), abs=1e-6)


def test_with_both_each_batch_uses_one_of_them(batch):
    images, labels = batch
    is_cut = []
    for seed in SEEDS:
        mixed, _ = augment.mix(images, labels, seed, 0.8, 1.0)
        is_cut.append(bool(np.isin(mixed.numpy(), images.numpy()).all()))
    assert 8 < sum(is_cut) < 32


def test_without_mixup_and_cutmix_nothing_is_mixed(batch):
    assert augment.mix(*batch, SEEDS[0], 0.0, 0.0) == batch
