"""Batches `(inputs, targets, weights)` for image captioning.

An example is one image with one of its captions: an image with five captions appears five times in
an epoch. Decoder inputs, targets and weights are those of `pair_batches.py`. Captions of similar
length share a batch, padded to one of at most four lengths; see `epoch_batches`.
"""

import sys
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_positive
from tfx_transformer.data.captions.sources import Captions
from tfx_transformer.data.epochs import BucketedBatches
from tfx_transformer.data.images.augment import read_augmented
from tfx_transformer.data.images.options import CAPTION_AUGMENTATION, Augmentation, ImageOptions
from tfx_transformer.data.images.pixels import normalize
from tfx_transformer.data.sources import describe_counts
from tfx_transformer.data.text.pair_batches import encode_all, find_usable, shift
from tfx_transformer.data.text.tokenizer import PAD, Tokenizer

MAX_WIDTHS = 4  # lengths of batches


def _check_features(features: np.ndarray, count: int, augmentation: Augmentation) -> np.ndarray:
    if augmentation.changes_images:
        raise ValueError(f"augmentation applies to images, not to features; got {augmentation}")
    if features.ndim != 3 or len(features) != count or features.dtype.kind != "f":
        raise ValueError(
            f"features must be a float array (N, S, C), one row for each of the N = {count:,} "
            f"images; got {features.dtype} of shape {features.shape}"
        )
    return features


def best_widths(lengths: np.ndarray, count: int = MAX_WIDTHS) -> list[int]:
    """At most `count` lengths for padded rows of `lengths` (N), chosen for the least padding."""
    values, numbers = np.unique(lengths, return_counts=True)
    below = np.concatenate([[0], np.cumsum(numbers)]).tolist()  # rows with the first i values
    values = values.tolist()
    # best[j]: for the first j values, the least number of positions and the widths for it
    best: list[tuple[int, list[int]]] = [(0, []), *((sys.maxsize, []) for _ in values)]
    for _ in range(count):
        best = best[:1] + [
            min(
                (best[i][0] + width * (below[j] - below[i]), [*best[i][1], width]) for i in range(j)
            )
            for j, width in enumerate(values, 1)
        ]
    return best[-1][1]


class CaptionBatches(BucketedBatches):
    """Shuffled batches; captions that are too long, or empty after normalization, are skipped.

    A batch is `({"image": (B, size, size, 3), "target": (B, T)}, targets (B, T), weights (B, T))`,
    or has `"features": (B, S, C)` instead of the image.

    Args:
        captions: from `load_captions`.
        tokenizer: of the captions.
        image_size: height and width; not used with `features`.
        batch_size: smaller if there are fewer captions.
        max_length: maximum number of tokens, END included.
        augmentation: the random changes of the images; without mixup, cutmix and repeats.
        seed: of the order and of the augmentation.
        features: (N, S, C), the output of a frozen encoder for each image of `captions`; the
            batches then contain these instead of the images.
        image_options: of `ImageOptions`: resize, crop_ratio, normalization, max_pixels.
    """

    def __init__(
        self,
        captions: Captions,
        tokenizer: Tokenizer,
        image_size: int | None,
        batch_size: int = 64,
        max_length: int = 32,
        augmentation: Augmentation = CAPTION_AUGMENTATION,
        seed: int = 0,
        features: np.ndarray | None = None,
        **image_options,
    ):
        check_positive(batch_size=batch_size, max_length=max_length)
        if augmentation.mixes_images:
            raise ValueError(
                f"mixup, cutmix and repeats do not apply to captions; got {augmentation}"
            )
        if features is None:
            check_positive(image_size=image_size)
        else:
            features = _check_features(np.asarray(features), len(captions), augmentation)
        ids = encode_all(tokenizer, [text for part in captions.texts for text in part])
        lengths = ids.row_lengths().numpy() + 1  # END included
        name = f"caption of {captions.name}"
        usable, self.skipped = find_usable(lengths[None], max_length, name)  # M captions
        ids, lengths = tf.gather(ids, usable), lengths[usable]
        image_rows = np.repeat(np.arange(len(captions)), [len(part) for part in captions.texts])
        self.image_rows = image_rows[usable]  # (M) index of the image of each caption
        self.image_size, self.augmentation = image_size, augmentation
        self.options = ImageOptions(**image_options)
        self.inputs, self.targets = (part.to_tensor(PAD).numpy() for part in shift(ids))
        self.batch_size = min(batch_size, len(self.image_rows))
        super().__init__(lengths, dict.fromkeys(best_widths(lengths), self.batch_size), seed)
        self.images: Any = captions.items if features is None else features
        if features is not None:
            self.image_key = "features"
        else:
            self.image_key, self.map_example = "image", self._augment

    @property
    def signature(self):
        rows = self.share.size(self.batch_size)
        image = tf.TensorSpec([rows], tf.string)
        if self.map_example is None:
            image = tf.TensorSpec([rows, *self.images.shape[1:]], tf.float32)
        tokens = [tf.TensorSpec([rows, None], dtype) for dtype in (tf.int32, tf.int32, tf.float32)]
        return image, tf.TensorSpec([rows, 2], tf.int32), *tokens

    def __str__(self) -> str:
        shapes, tokens = self.batch_shapes(), self.lengths.sum()
        padding = 1 - tokens / sum(rows * length for rows, length in shapes)
        return (
            f"{len(np.unique(self.image_rows)):,} images with {len(self.image_rows):,} captions "
            f"(skipped: {describe_counts(self.skipped)}), {tokens:,} tokens in "
            f"{self.steps_per_epoch:,} batches of "
            + ", ".join(f"{rows} × {length}" for rows, length in sorted(set(shapes)))
            + f", {padding:.0%} padding"
        )

    def batch_arrays(self, epoch, step):
        """The images of each batch, a seed for each, decoder inputs, targets and weights."""
        rng = np.random.default_rng([self.seed, epoch, 1])
        seeds = rng.integers(1, 2**31, (len(self.image_rows), 2), dtype="int32")
        for batch in self.own_batches(epoch, step):
            rows, is_real = batch.filled_rows, batch.is_real[:, None]
            inputs, targets = (
                np.where(is_real, ids[rows, : batch.length], PAD)
                for ids in (self.inputs, self.targets)
            )
            weights = (targets != PAD).astype("float32")
            yield self._take(self.image_rows[rows]), seeds[rows], inputs, targets, weights

    def make_batch(self, images, seeds, inputs, targets, weights):
        return {self.image_key: images, "target": inputs}, targets, weights

    def _take(self, rows):
        if self.map_example is None:
            return self.images[rows].astype("float32")
        return np.array([self.images[row] for row in rows], object)

    def _augment(self, encoded, seed, *tokens):
        image = read_augmented(encoded, seed, self.image_size, self.augmentation, self.options)
        return normalize(image, self.options.normalization), seed, *tokens
