"""Pictures and captions → Keras's triples `(inputs, targets, weights)` for captioning.

An example is one picture with one of its captions, so that an epoch sees a picture once for each of
them. For the words y1 … yn, by `shift` of `text.py`:

    decoder input   START y1 … yn        targets   y1 … yn END        weights   1 … 1

Captions of like length share a batch, padded with PAD, whose weight is 0, to one of at most four
lengths. In an epoch every example comes once: what does not fill its batch moves up to the next
longer one, and the last batch of all is filled up with rows of PAD, whose weight is 0.
"""

import sys
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_choice, check_positive
from tfx_transformer.data import augment
from tfx_transformer.data.buckets import EMPTY, Batch, epoch_batches
from tfx_transformer.data.captions import Captions
from tfx_transformer.data.pixels import NORMALISATION, centre_crop, decode, normalise
from tfx_transformer.data.text import _Side, shift
from tfx_transformer.data.tokenizer import PAD, Tokenizer
from tfx_transformer.graph import as_it_is, untuned

WIDTHS = 4  # lengths of batches, at most
MIN_AREA = 0.5  # of a resized crop: a caption tells of the whole picture


@dataclass(frozen=True)
class CaptionReport:
    """What a data set holds and what its batches cost."""

    pictures: int
    captions: int
    skipped: dict[str, int]
    steps_per_epoch: int
    shapes: list[tuple[int, int]]  # (rows, length) of the batches
    tokens: int  # in an epoch, END included
    padding: float  # padded positions / all positions

    def __str__(self) -> str:
        skipped = ", ".join(f"{number:,} {reason}" for reason, number in self.skipped.items())
        shapes = ", ".join(f"{rows} × {length}" for rows, length in self.shapes)
        return (
            f"{self.pictures:,} pictures with {self.captions:,} captions "
            f"(skipped: {skipped or 'none'}), {self.tokens:,} tokens in "
            f"{self.steps_per_epoch:,} batches of {shapes}, {self.padding:.0%} padding"
        )


def training_captions(
    captions: Captions,
    tokenizer: Tokenizer,
    image_size: int | None,
    batch_size: int = 64,
    max_length: int = 32,
    normalisation: str = "imagenet",
    flip: bool = False,
    crop: str = "none",
    seed: int = 0,
    features: np.ndarray | None = None,
) -> "CaptionData":
    """Shuffled batches; captions too long, or empty once normalised, are left out.

    Args:
        captions: from `load_captions`.
        tokenizer: of the captions.
        image_size: height and width; without meaning for `features`.
        batch_size: smaller where there are fewer captions.
        max_length: longest row, END included.
        normalisation: a name in NORMALISATION.
        flip: left to right, half of the images; a caption that says "left" is then wrong.
        crop: "resized" (a random part of at least half the area), "pad" (a shift of up to an eighth
            of the size) or "none".
        seed: of the order and of all changes.
        features: (N, S, C), for each picture of `captions` what a frozen network makes of it; the
            batches then hold these in place of the pictures, which are not decoded.
    """
    check_positive(batch_size=batch_size, max_length=max_length)
    check_choice("resized", "pad", "none", crop=crop)
    check_choice(*NORMALISATION, normalisation=normalisation)
    if features is None:
        check_positive(image_size=image_size)
    else:
        features = _check_features(np.asarray(features), len(captions), flip, crop)

    def change(encoded, seed):
        """Bytes → (size, size, 3)."""
        crop_seed, flip_seed = tf.unstack(tf.random.split(seed))
        image = decode(encoded)
        if crop == "resized":
            image = augment.resized_crop(image, crop_seed, image_size, MIN_AREA)
        else:
            image = centre_crop(image, image_size)
        if crop == "pad":
            image = augment.padded_crop(image, crop_seed)
        if flip:
            image = augment.flip(image, flip_seed)
        return normalise(image, normalisation)

    side = _Side.of(tokenizer, [text for texts in captions.texts for text in texts])
    too_long, empty = side.lengths > max_length, side.lengths == 1
    keep = ~(too_long | empty)
    if not keep.any():
        raise ValueError(
            f"no caption of {captions.name} is left: {too_long.sum():,} are longer than "
            f"{max_length=} tokens and {empty.sum():,} are empty once normalised"
        )
    skipped = {f"over {max_length} tokens": too_long.sum(), "empty once normalised": empty.sum()}
    return CaptionData(
        captions.items if features is None else features,
        np.repeat(np.arange(len(captions)), [len(texts) for texts in captions.texts])[keep],
        side.keep(keep),
        batch_size,
        change if features is None else None,
        seed,
        {reason: int(number) for reason, number in skipped.items() if number},
    )


def _check_features(features: np.ndarray, count: int, flip: bool, crop: str) -> np.ndarray:
    if flip or crop != "none":
        raise ValueError(f"flip and crop change pictures, not features; got {flip=}, {crop=}")
    if features.ndim != 3 or len(features) != count or features.dtype.kind != "f":
        raise ValueError(
            f"features must be a float array (N, S, C), a row for each of the N = {count:,} "
            f"pictures; got {features.dtype} of shape {features.shape}"
        )
    return features


def best_widths(lengths: np.ndarray, count: int = WIDTHS) -> list[int]:
    """At most `count` lengths to which rows are padded, so that the padding is least.

    Args:
        lengths: (N) of the rows, whole numbers.
        count: how many.
    """
    values, numbers = np.unique(lengths, return_counts=True)
    below = np.concatenate([[0], np.cumsum(numbers)]).tolist()  # rows of the first i values
    values = values.tolist()
    # best[j]: of the first j values, the fewest positions and the widths that need them
    best: list[tuple[int, list[int]]] = [(0, []), *((sys.maxsize, []) for _ in values)]
    for _ in range(count):
        best = best[:1] + [
            min(
                (best[i][0] + width * (below[j] - below[i]), [*best[i][1], width]) for i in range(j)
            )
            for j, width in enumerate(values, 1)
        ]
    return best[-1][1]


class CaptionData:
    """Tokenised captions and the order of their batches; made by `training_captions`.

    A batch is `({"image": (B, size, size, 3), "target": (B, T)}, targets (B, T), weights (B, T))`,
    or has `"features": (B, S, C)` in place of the image.

    Args:
        pictures: N encoded ones, or features (N, S, C).
        places: (M) of each caption the place of its picture.
        side: the M captions, tokenised.
        batch_size: rows of every batch; smaller where there are fewer captions.
        change: of one encoded picture and a seed → an image; None for features.
        seed: of the order and of all changes.
        skipped: reason → captions left out, for the report.
    """

    def __init__(self, pictures, places, side, batch_size, change, seed, skipped):
        self.pictures, self.places, self.change, self.seed = pictures, places, change, seed
        self.lengths = side.lengths  # (M)
        self.inputs, self.targets = (ids.to_tensor(PAD).numpy() for ids in shift(side.ids))
        self.batch_size = min(batch_size, len(places))
        self.sizes = dict.fromkeys(best_widths(self.lengths), self.batch_size)
        batches = self.epoch_batches()
        tokens = int(self.lengths.sum())
        self.steps_per_epoch = len(batches)
        self.report = CaptionReport(
            pictures=len(np.unique(places)),
            captions=len(places),
            skipped=skipped,
            steps_per_epoch=len(batches),
            shapes=sorted({(len(batch.rows), batch.length) for batch in batches}),
            tokens=tokens,
            padding=1 - tokens / sum(batch.length * len(batch.rows) for batch in batches),
        )

    def epoch_batches(self, epoch: int = 0) -> list[Batch]:
        """The captions in each batch of an epoch, in order."""
        return epoch_batches(self.lengths, self.sizes, self.seed, epoch)

    def stream(self, epoch: int = 0, step: int = 0) -> tf.data.Dataset:
        """The batches from (epoch, step) on, without end: a run continues here, exactly."""
        if epoch < 0 or not 0 <= step <= self.steps_per_epoch:
            raise ValueError(
                f"epoch must not be negative and step must lie in 0 … {self.steps_per_epoch}; "
                f"got {epoch=}, {step=}"
            )
        rows = self.batch_size
        if self.change is None:
            picture = tf.TensorSpec([rows, *self.pictures.shape[1:]], tf.float32)
        else:
            picture = tf.TensorSpec([rows], tf.string)
        words = [tf.TensorSpec([rows, None], dtype) for dtype in (tf.int32, tf.int32, tf.float32)]
        signature = (picture, tf.TensorSpec([rows, 2], tf.int32), *words)
        batches = tf.data.Dataset.from_generator(
            lambda: self._batches(epoch, step), output_signature=signature
        )
        if self.change is not None:  # one picture at a time, in parallel
            change = as_it_is(self._change_one)
            batches = batches.unbatch().map(change, num_parallel_calls=tf.data.AUTOTUNE)
            batches = batches.batch(rows, drop_remainder=True)
        endless = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
        return batches.map(as_it_is(self._name)).apply(endless).apply(untuned).prefetch(2)

    def _batches(self, epoch, step):
        """For each batch its pictures, a seed for each, and the three parts of the captions."""
        for number in range(epoch, sys.maxsize):
            rng = np.random.default_rng([self.seed, number, 1])
            seeds = rng.integers(1, 2**31, (len(self.places), 2), dtype="int32")
            for batch in self.epoch_batches(number)[step:]:
                real = batch.rows != EMPTY
                rows = np.where(real, batch.rows, batch.rows[0])  # the first picture once more
                words = (part[rows, : batch.length] for part in (self.inputs, self.targets))
                inputs, targets = (np.where(real[:, None], part, PAD) for part in words)
                weights = (targets != PAD).astype("float32")
                yield self._take(self.places[rows]), seeds[rows], inputs, targets, weights
            step = 0

    def _take(self, places):
        if self.change is None:
            return self.pictures[places].astype("float32")
        return np.array([self.pictures[place] for place in places], object)

    def _change_one(self, encoded, seed, *words):
        return self.change(encoded, seed), seed, *words

    def _name(self, pictures, seeds, inputs, targets, weights):
        name = "features" if self.change is None else "image"
        return {name: pictures, "target": inputs}, targets, weights
