"""Batches of images with captions against plain Python loops; order, resuming, features."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tfx_transformer.data import END, PAD, START, CaptionBatches, Captions
from tfx_transformer.data.captions.batches import best_widths
from tfx_transformer.data.images.options import CAPTION_AUGMENTATION

MEAN, DEVIATION = 0.5, 0.5  # the normalization "half"
LONGEST, SIZE = 14, 8


@pytest.fixture(scope="module")
def captions(phrases):
    """23 images, each of a different gray and with 1 to 4 captions."""
    grays = [np.full((6 + i, 30 - i, 3), 10 * i, "uint8") for i in range(23)]
    words = iter(phrases["en"])
    texts = [
        [" ".join(next(words) for _ in range(1 + (i + k) % 3)) for k in range(1 + i % 4)]
        for i in range(23)
    ]
    texts[5].append("\u200b")
    texts[6].append(" ".join(phrases["en"][:9]))
    items = [tf.io.encode_png(gray).numpy() for gray in grays]
    return Captions("grays", [f"{i}.png" for i in range(23)], items, texts)


@pytest.fixture(scope="module")
def make(captions, tokenizer):
    def make(**options):
        options = {"image_size": SIZE, "batch_size": 6, "max_length": LONGEST} | options
        return CaptionBatches(captions, tokenizer, **options)

    return make


@pytest.fixture(scope="module")
def data(make):
    return make(seed=3)


@pytest.fixture(scope="module")
def expected(captions, tokenizer):
    """(image, ids) of every caption that is not skipped."""
    pairs = [(i, text) for i, texts in enumerate(captions.texts) for text in texts]
    encoded = zip(pairs, tokenizer.encode_list([text for _, text in pairs]), strict=True)
    return [(i, tuple(ids)) for (i, _), ids in encoded if 0 < len(ids) < LONGEST]


def take(data, count, epoch=0, step=0):
    return list(data.stream(epoch, step).take(count).as_numpy_iterator())


def which(image):
    return round((image[..., 0].mean() * DEVIATION + MEAN) * 25.5)


def rows(batch):
    """(image, ids) of the rows with weights, each checked against the definition."""
    inputs, targets, weights = batch
    for image, given, target, weight in zip(
        inputs["image"], inputs["target"].tolist(), targets.tolist(), weights.tolist(), strict=True
    ):
        if not any(weight):
            assert not any(given) and not any(target)
            continue
        ids = target[: target.index(END)]
        padding = len(target) - len(ids) - 1
        assert given == [START, *ids] + [PAD] * padding
        assert target == [*ids, END] + [PAD] * padding
        assert weight == [1.0] * (len(ids) + 1) + [0.0] * padding
        yield which(image), tuple(ids)


def same(one, other):
    for part, expected in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
        np.testing.assert_array_equal(part, expected)


def test_an_epoch_has_each_caption_once_with_its_image(data, expected):
    for epoch in range(2):
        batches = take(data, data.steps_per_epoch, epoch)
        assert Counter(row for batch in batches for row in rows(batch)) == Counter(expected)


def test_the_types_and_shapes_are_those_that_keras_expects(data):
    for inputs, targets, weights in take(data, data.steps_per_epoch):
        assert set(inputs) == {"image", "target"}
        assert inputs["image"].shape == (6, SIZE, SIZE, 3) and inputs["image"].dtype == "float32"
        assert inputs["target"].shape == targets.shape == weights.shape
        assert inputs["target"].dtype == targets.dtype == "int32" and weights.dtype == "float32"
    image = data.stream().element_spec[0]["image"]
    assert image.shape == (6, SIZE, SIZE, 3)
    assert data.stream().cardinality() == tf.data.INFINITE_CARDINALITY


def test_only_the_last_rows_of_one_batch_are_empty(make, expected):
    size = next(size for size in range(5, 9) if len(expected) % size)  # tokens differ by machine
    data = make(batch_size=size)
    real = [batch[2].any(axis=1) for batch in take(data, data.steps_per_epoch)]
    short = [rows for rows in real if not rows.all()]
    assert len(short) == 1 and -len(expected) % size == (~short[0]).sum() > 0
    assert sorted(short[0], reverse=True) == short[0].tolist()


def test_there_are_few_lengths_and_similar_ones_share_a_batch(data, expected):
    batches = take(data, data.steps_per_epoch)
    widths = {batch[1].shape[1] for batch in batches}
    assert 2 <= len(widths) <= 4 and widths <= set(best_widths(data.lengths))
    assert max(widths) == max(len(ids) + 1 for _, ids in expected)
    spread = np.mean([np.ptp(batch[2].sum(axis=1)[batch[2].any(axis=1)]) for batch in batches])
    shuffled = np.random.default_rng(0).permutation(data.lengths)[: len(expected) // 6 * 6]
    assert spread < 0.7 * np.mean(np.ptp(shuffled.reshape(-1, 6), axis=1))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_widths_have_the_least_padding(count):
    rng = np.random.default_rng(count)
    lengths = 2 + rng.poisson(5, 200)
    values = sorted(set(lengths.tolist()))

    def positions(widths):
        return sum(min(width for width in widths if width >= length) for length in lengths)

    choices = [(*rest, values[-1]) for rest in combinations(values[:-1], count - 1)]
    widths = best_widths(lengths, count)
    assert len(widths) == count and widths == sorted(widths)
    assert positions(widths) == min(map(positions, choices))


def test_with_fewer_lengths_than_widths_there_is_no_padding():
    assert best_widths(np.array([7, 3, 7, 9])) == [3, 7, 9]


def augmented(**options):
    return {"augmentation": replace(CAPTION_AUGMENTATION, **options)}


OPTIONS = {
    "plain": {},
    "augmented": augmented(crop="resized", flip=True, rand_augment=1, erase=0.5),
    "padded": augmented(crop="pad"),
    "features": {"features": np.random.default_rng(0).random((23, 5, 7), "float32")},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_a_run_resumed_at_any_step_equals_the_uninterrupted_one(make, options):
    data, resumed = make(**OPTIONS[options]), make(**OPTIONS[options])
    steps = data.steps_per_epoch
    whole = take(data, 2 * steps + 1)
    for epoch, step in [(0, 2), (0, steps), (1, steps - 1)]:
        done = epoch * steps + step
        rest = take(resumed, min(2, len(whole) - done), epoch, step)
        same(rest, whole[done : done + 2])
    same(list(resumed.dataset(1, steps - 1).as_numpy_iterator()), whole[2 * steps - 1 : 2 * steps])


def test_the_order_depends_on_seed_and_epoch(make, data):
    def order(data, epoch=0):
        return [row for batch in take(data, data.steps_per_epoch, epoch) for row in rows(batch)]

    assert order(data) == order(make(seed=3))
    assert len({tuple(order(*x)) for x in [(data,), (data, 1), (make(seed=4),)]}) == 3


def test_images_are_cropped_and_normalized(tokenizer):
    pixels = np.random.default_rng(0).integers(0, 256, (SIZE, SIZE + 4, 3)).astype("uint8")
    one = Captions("one", ["a"], [tf.io.encode_png(pixels).numpy()], [["grinning face"]])
    middle = pixels[:, 2:-2] / 255
    for name, mean, deviation in (
        ("imagenet", [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ("half", [0.5] * 3, [0.5] * 3),
    ):
        data = CaptionBatches(one, tokenizer, SIZE, normalization=name)
        ((inputs, _, _),) = take(data, 1)
        np.testing.assert_allclose(inputs["image"][0], (middle - mean) / deviation, atol=1e-5)


def test_every_example_is_augmented_differently(tokenizer):
    pixels = np.random.default_rng(0).integers(0, 256, (SIZE, SIZE, 3)).astype("uint8")
    one = Captions("one", ["a"], [tf.io.encode_png(pixels).numpy()], [["grinning face"] * 12])

    def images(**options):
        data = CaptionBatches(one, tokenizer, SIZE, batch_size=12, **options)
        return np.concatenate([batch[0]["image"] for batch in take(data, 2)])

    def kinds(images):
        return {image.tobytes() for image in images}

    plain = images()[0]
    assert kinds(images()) == kinds([plain])
    assert kinds(images(**augmented(flip=True))) == kinds([plain, plain[:, ::-1]])
    assert len(kinds(images(**augmented(crop="resized")))) > 9
    assert 2 < len(kinds(images(**augmented(crop="pad")))) <= 9  # a shift by one pixel at most


def test_features_replace_the_image(make, data):
    values = np.arange(23)[:, None, None] + np.linspace(0, 0.5, 35).reshape(5, 7)
    for dtype in ("float16", "float64"):
        encoded = make(seed=3, image_size=None, features=values.astype(dtype))
        batches = take(encoded, encoded.steps_per_epoch)
        assert str(encoded) == str(data)
        for batch, other in zip(batches, take(data, data.steps_per_epoch), strict=True):
            features = batch[0]["features"]
            assert set(batch[0]) == {"features", "target"}
            assert features.shape == (6, 5, 7) and features.dtype == "float32"
            numbers = [which(image) for image in other[0]["image"]]
            np.testing.assert_array_equal(features, values.astype(dtype)[numbers].astype("float32"))
            same((batch[0]["target"], *batch[1:]), (other[0]["target"], *other[1:]))
    assert encoded.stream().element_spec[0]["features"].shape == (6, 5, 7)


def test_the_description_counts_the_content_of_the_batches(data, expected, captions):
    batches = take(data, data.steps_per_epoch)
    long = sum(map(len, captions.texts)) - len(expected) - 1
    assert data.skipped == {f"over {LONGEST} tokens": long, "empty after normalization": 1}
    assert long > 5
    tokens = int(sum(batch[2].sum() for batch in batches))
    padding = 1 - tokens / sum(batch[2].size for batch in batches)
    lengths = sorted({batch[1].shape[1] for batch in batches})
    assert str(data) == (
        f"{len({image for image, _ in expected})} images with {len(expected)} captions (skipped: "
        f"{long} over 14 tokens, 1 empty after normalization), {tokens} tokens in {len(batches)} "
        f"batches of {', '.join(f'6 × {length}' for length in lengths)}, {padding:.0%} padding"
    )
    assert data.steps_per_epoch == len(batches)


def test_a_batch_is_never_larger_than_the_data(make, expected):
    data = make(batch_size=1000)
    assert (data.batch_size, data.steps_per_epoch) == (len(expected), 1)
    assert Counter(rows(take(data, 1)[0])) == Counter(expected)


def test_an_image_without_a_usable_caption_is_not_counted(make, captions, tokenizer):
    data = make(max_length=4)
    lengths = [[len(ids) for ids in tokenizer.encode_list(texts)] for texts in captions.texts]
    assert (
        len(np.unique(data.image_rows))
        == sum(any(0 < x < 4 for x in part) for part in lengths)
        < 23
    )


def test_keras_trains_on_the_batches(make, tokenizer):
    image = keras.Input([SIZE, SIZE, 3], name="image")
    target = keras.Input([None], dtype="int32", name="target")
    memory = keras.layers.Dense(4)(ops.mean(image, axis=(1, 2)))[:, None]
    logits = keras.layers.Dense(tokenizer.vocab_size)(
        keras.layers.Embedding(tokenizer.vocab_size, 4)(target) + memory
    )
    model = keras.Model({"image": image, "target": target}, logits)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss=loss, jit_compile=False)
    data = make()
    history = model.fit(
        data.stream(), steps_per_epoch=data.steps_per_epoch, epochs=3, verbose=0, shuffle=False
    )
    assert history.history["loss"][-1] < 0.9 * history.history["loss"][0]


FEATURES = np.zeros((23, 5, 7), "float32")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image_size": None}, "image_size must be a whole number above zero; got image_size=None"),
        ({"batch_size": 0}, "batch_size must be a whole number above zero"),
        ({"max_length": 0}, "max_length must be a whole number above zero"),
        ({"max_length": 1}, r"no caption of grays is left: \d+ are longer than max_length=1 tok"),
        ({"normalization": "mine"}, "unknown normalization 'mine'; known: half, imagenet"),
        ({"features": FEATURES[:-1]}, r"each of the N = 23 imag.*; got float32 of shape \(22, 5, "),
        ({"features": FEATURES[0]}, r"a float array \(N, S, C\).*; got float32 of shape \(5, 7\)"),
        ({"features": FEATURES.astype(int)}, r"a float array .*; got int64 of shape \(23, 5, 7\)"),
        ({"features": FEATURES, **augmented(flip=True)}, "not to features; got .*flip=True"),
        ({"features": FEATURES, **augmented(crop="pad")}, "not to features; got .*crop='pad'"),
        (augmented(mixup=0.2), "mixup, cutmix and repeats do not apply .*; got .*mixup=0.2"),
        (augmented(repeats=2), "mixup, cutmix and repeats do not apply .*; got .*repeats=2"),
    ],
)
def test_an_invalid_argument_is_named(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)
