"""The batches of changed images: their shapes, their order, and a run that goes on."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.image_batches import training_images
from tfx_transformer.data.images import Images


@pytest.fixture(scope="module")
def images():
    """Each of 13 images is of one grey, which tells which one it is."""
    greys = [np.full((6 + i, 20 - i, 3), 10 * i, "uint8") for i in range(13)]
    items = [tf.io.encode_png(grey).numpy() for grey in greys]
    return Images("greys", items, np.arange(13, dtype="int32") % 3, ["a", "b", "c"], {})


def take(data, count, epoch=0, step=0):
    return [tuple(part.numpy() for part in batch) for batch in data.stream(epoch, step).take(count)]


def which(images):
    """The numbers of the images in a batch."""
    return [round((image.mean() + 1) * 127.5 / 10) for image in images]


def plain(images, **options):
    return training_images(images, 8, **{"batch_size": 4, "crop": "none"} | options)


def test_an_epoch_holds_each_image_once_and_the_next_in_another_order(images):
    data = plain(images)
    assert data.steps_per_epoch == 3
    epochs = take(data, 6)
    first, second = ([i for batch in e for i in which(batch[0])] for e in (epochs[:3], epochs[3:]))
    assert len(set(first)) == len(set(second)) == 12 and first != second
    for pixels, labels, weights in epochs:
        assert pixels.shape == (4, 8, 8, 3) and pixels.dtype == "float32"
        assert labels.argmax(axis=1).tolist() == [i % 3 for i in which(pixels)]
        assert labels.shape == (4, 3) and weights.tolist() == [1] * 4


def test_its_end_waits_for_no_tuner(images):
    assert plain(images).stream().options().autotune.enabled is False


OPTIONS = {
    "plain": {},
    "all": dict(crop="resized", rand_augment=2, erase=0.5, mixup=0.4, cutmix=1.0, repeats=2),
}


@pytest.mark.parametrize("options", sorted(OPTIONS))
def test_a_run_goes_on_at_any_step_as_if_it_had_not_stopped(images, options):
    data = plain(images, **OPTIONS[options])
    whole = take(data, 7)
    for done in (1, data.steps_per_epoch, 5):
        rest = take(data, 7 - done, *divmod(done, data.steps_per_epoch))
        for batch, other in zip(rest, whole[done:], strict=True):
            for part, expected in zip(batch, other, strict=True):
                np.testing.assert_array_equal(part, expected)


def test_another_seed_is_another_order(images):
    assert which(take(plain(images), 1)[0][0]) != which(take(plain(images, seed=1), 1)[0][0])


def test_repeats_come_in_succession_across_batches_too(images):
    data = plain(images, repeats=3)  # of 4 images in a batch
    rows = np.concatenate([which(batch[0]) for batch in take(data, data.steps_per_epoch)])
    assert len(rows) == 36 and data.steps_per_epoch == 9
    assert all(len(set(rows[i : i + 3])) == 1 for i in range(0, 36, 3))
    assert len(set(rows)) == 12


def test_repeats_come_in_one_batch_each_changed_anew(images):
    data = plain(images, repeats=2, erase=0.9)
    assert data.steps_per_epoch == 6
    pixels, labels, _ = take(data, 1)[0]
    assert (labels[0] == labels[1]).all() and (labels[2] == labels[3]).all()
    assert not np.array_equal(pixels[0], pixels[1])


def test_mixed_images_have_mixed_labels(images):
    _, labels, _ = take(plain(images, mixup=1.0), 1)[0]
    np.testing.assert_allclose(labels.sum(axis=1), 1, atol=1e-6)
    assert (labels.max(axis=1) < 0.999).any()


def test_a_batch_is_never_larger_than_the_data(images):
    data = plain(images, batch_size=100)
    assert (data.batch_size, data.steps_per_epoch) == (13, 1)
    assert str(data).endswith("1 batches of 13")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"crop": "middle"}, "unknown crop 'middle'; known: resized, pad, none"),
        ({"normalisation": "mine"}, "unknown normalisation 'mine'; known: half, imagenet"),
        ({"magnitude": 11}, "magnitude must lie in 0 <= magnitude <= 10; got magnitude=11"),
        ({"batch_size": 0}, "batch_size must be a whole number above zero"),
        ({"repeats": 0}, "repeats must be a whole number above zero"),
        ({"padding": 1.5}, "padding must lie in 0 <= padding < 1"),
    ],
)
def test_what_cannot_be_is_named(images, options, message):
    with pytest.raises(ValueError, match=message):
        plain(images, **options)
