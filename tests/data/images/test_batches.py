"""Batches of augmented images: shapes, order and resuming."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.images.batches import ImageBatches
from tfx_transformer.data.images.options import Augmentation
from tfx_transformer.data.images.pixels import decode_batch
from tfx_transformer.data.images.sources import Images


@pytest.fixture(scope="module")
def images():
    """13 images, each of a different gray."""
    grays = [np.full((6 + i, 20 - i, 3), 10 * i, "uint8") for i in range(13)]
    items = [tf.io.encode_png(gray).numpy() for gray in grays]
    return Images("grays", items, np.arange(13, dtype="int32") % 3, ["a", "b", "c"], {})


def take(data, count, epoch=0, step=0):
    return [tuple(part.numpy() for part in batch) for batch in data.stream(epoch, step).take(count)]


def which(images):
    """The index of each image in a batch."""
    return [round((image.mean() + 1) * 127.5 / 10) for image in images]


def make(images, batch_size=4, seed=0, **options):
    augmentation = Augmentation(**{"crop": "none"} | options)
    return ImageBatches(images, 8, batch_size, augmentation=augmentation, seed=seed)


def test_an_epoch_has_each_image_once_and_the_next_in_another_order(images):
    data = make(images)
    assert data.steps_per_epoch == 3
    epochs = take(data, 6)
    first, second = ([i for batch in e for i in which(batch[0])] for e in (epochs[:3], epochs[3:]))
    assert len(set(first)) == len(set(second)) == 12 and first != second
    for pixels, labels, weights in epochs:
        assert pixels.shape == (4, 8, 8, 3) and pixels.dtype == "float32"
        assert labels.argmax(axis=1).tolist() == [i % 3 for i in which(pixels)]
        assert labels.shape == (4, 3) and weights.tolist() == [1] * 4


OPTIONS = {
    "plain": {},
    "all": dict(crop="resized", rand_augment=2, erase=0.5, mixup=0.4, cutmix=1.0, repeats=2),
}


@pytest.mark.parametrize("options", sorted(OPTIONS))
def test_a_run_resumed_at_any_step_equals_the_uninterrupted_one(images, options):
    data = make(images, **OPTIONS[options])
    whole = take(data, 7)
    np.testing.assert_array_equal(next(iter(data.dataset(1)))[0], whole[data.steps_per_epoch][0])
    for done in (1, data.steps_per_epoch, 5):
        rest = take(data, 7 - done, *divmod(done, data.steps_per_epoch))
        for batch, other in zip(rest, whole[done:], strict=True):
            for part, expected in zip(batch, other, strict=True):
                np.testing.assert_array_equal(part, expected)


def test_another_seed_gives_another_order(images):
    assert which(take(make(images), 1)[0][0]) != which(take(make(images, seed=1), 1)[0][0])


def test_repeats_are_consecutive_across_batches_too(images):
    data = make(images, repeats=3)  # 4 images in a batch
    rows = np.concatenate([which(batch[0]) for batch in take(data, data.steps_per_epoch)])
    assert len(rows) == 36 and data.steps_per_epoch == 9
    assert all(len(set(rows[i : i + 3])) == 1 for i in range(0, 36, 3))
    assert len(set(rows)) == 12


def test_each_repeat_is_augmented_differently(images):
    data = make(images, repeats=2, erase=0.9)
    assert data.steps_per_epoch == 6
    pixels, labels, _ = take(data, 1)[0]
    assert (labels[0] == labels[1]).all() and (labels[2] == labels[3]).all()
    assert not np.array_equal(pixels[0], pixels[1])


def test_mixed_images_have_mixed_labels(images):
    _, labels, _ = take(make(images, mixup=1.0), 1)[0]
    np.testing.assert_allclose(labels.sum(axis=1), 1, atol=1e-6)
    assert (labels.max(axis=1) < 0.999).any()


def test_a_batch_is_never_larger_than_the_data(images):
    data = make(images, batch_size=100)
    assert (data.batch_size, data.steps_per_epoch) == (13, 1)
    assert str(data).endswith("1 batches of 13")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"normalization": "mine"}, "unknown normalization 'mine'; known: half, imagenet"),
        ({"batch_size": 0}, "batch_size must be a whole number above zero"),
        ({"image_size": 0}, "image_size must be a whole number above zero"),
    ],
)
def test_an_invalid_argument_is_named(images, options, message):
    with pytest.raises(ValueError, match=message):
        ImageBatches(**{"images": images, "image_size": 8} | options)


@pytest.mark.parametrize("resize", ["crop", "squash", "pad"])
def test_without_augmentation_training_sees_what_evaluation_sees(resize):
    """Also the crop ratio is that of evaluation."""
    noise = np.random.default_rng(0).integers(0, 256, (20, 30, 3), "uint8")
    images = Images("noise", [tf.io.encode_png(noise).numpy()], np.zeros(1, "int32"), ["a"], {})
    augmentation = Augmentation(crop="none", flip=False)
    options = {"crop_ratio": 0.6, "resize": resize}
    (pixels, _, _) = take(ImageBatches(images, 8, 1, augmentation=augmentation, **options), 1)[0]
    evaluated, whole = (
        decode_batch(tf.constant(images.items), 8, **how)[0] / 127.5 - 1 for how in (options, {})
    )
    np.testing.assert_allclose(pixels, evaluated, atol=1e-5)
    assert np.abs(pixels - whole).max() > 0.1


def test_a_random_part_is_one_of_the_square_that_resize_makes(images):
    data = make(images, crop="resized", min_area=0.9, flip=False)
    padded = ImageBatches(images, 8, 4, augmentation=data.augmentation, resize="pad")
    has_gray = [
        np.isclose(pixels, 128 / 127.5 - 1, atol=1e-3).any() for pixels in take(padded, 1)[0][0]
    ]
    assert sum(has_gray) >= 3


def test_balanced_classes_have_the_same_total_weight(images):
    labels = np.array([0] * 9 + [1] * 3 + [2], "int32")
    images = Images("grays", images.items, labels, ["a", "b", "c"], {})
    plain = ImageBatches(images, 8, 13)
    assert take(plain, 1)[0][2].tolist() == [1] * 13
    balanced = ImageBatches(images, 8, 13, class_weights="balanced")
    _, targets, weights = take(balanced, 1)[0]
    np.testing.assert_allclose(weights @ targets, [13 / 3] * 3, rtol=1e-5)
    mixed = ImageBatches(
        images, 8, 13, augmentation=Augmentation(mixup=1.0), class_weights="balanced"
    )
    _, targets, weights = take(mixed, 1)[0]
    np.testing.assert_allclose(weights, targets @ [13 / 27, 13 / 9, 13 / 3], rtol=1e-5)
