"""Batches `(tokens, targets, weights)` for a model that continues a text by the tokens of an image.

A row is START, the text with its padding and the image, without its last token; the targets are the
next tokens. An example is one image with one of its captions, as in `batches.py`.
"""

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_positive, check_rate, check_whole
from tfx_transformer.data.buckets import EMPTY, Batch
from tfx_transformer.data.epochs import EpochBatches
from tfx_transformer.data.text.tokenizer import START


class TextImageBatches(EpochBatches):
    """Shuffled batches of texts and image tokens.

    Args:
        texts: (M, T) text tokens with those of padding, as `DALLE.prompt` makes them.
        is_word: (M, T) False at padding, which has the weight 0.
        images: (N, I) image tokens, by their numbers in the whole vocabulary.
        image_rows: (M,) the image of each text.
        batch_size: texts in a batch; smaller if there are fewer.
        text_weight: weight of all words of a batch; that of its image tokens is the rest of 1.
        seed: of the order; None keeps it.
    """

    def __init__(
        self,
        texts: np.ndarray,
        is_word: np.ndarray,
        images: np.ndarray,
        image_rows: np.ndarray,
        batch_size: int = 64,
        text_weight: float = 1 / 8,
        seed: int | None = 0,
    ):
        check_positive(batch_size=batch_size)
        check_rate(text_weight=text_weight)
        if seed is not None:
            check_whole(seed=seed)
        self.texts, self.is_word = texts.astype("int32"), is_word
        self.images, self.image_rows = images.astype("int32"), image_rows
        self.text_weight, self.seed = text_weight, seed
        self.batch_size = min(batch_size, len(texts))
        self.steps_per_epoch = -(-len(texts) // self.batch_size)  # rounded up

    @property
    def signature(self):
        shape = [self.share.size(self.batch_size), self.texts.shape[1] + self.images.shape[1]]
        return tuple(tf.TensorSpec(shape, x) for x in (tf.int32, tf.int32, tf.float32))

    def __str__(self) -> str:
        return (
            f"{len(self.texts):,} texts of {len(self.images):,} images, "
            f"{self.texts.shape[1]} and {self.images.shape[1]} tokens each, in "
            f"{self.steps_per_epoch:,} batches of {self.batch_size}"
        )

    def batch_arrays(self, epoch, step):
        order = np.arange(len(self.texts))
        if self.seed is not None:
            order = np.random.default_rng([self.seed, epoch]).permutation(order)
        missing = self.steps_per_epoch * self.batch_size - len(order)
        order = np.pad(order, (0, missing), constant_values=EMPTY)
        for rows in order.reshape(-1, self.batch_size)[step:]:
            whole = Batch(None, rows)
            words = (self.is_word[whole.filled_rows] * whole.is_real[:, None]).sum()
            pixels = self.images.shape[1] * whole.is_real.sum()
            factor = self.text_weight / (1 - self.text_weight) * pixels / max(words, 1)
            batch = whole.share(self.share)
            texts = self.texts[batch.filled_rows]
            targets = np.concatenate(
                [texts, self.images[self.image_rows[batch.filled_rows]]], axis=1
            )
            tokens = np.pad(targets[:, :-1], [(0, 0), (1, 0)], constant_values=START)
            weights = np.ones(targets.shape, "float32")
            weights[:, : texts.shape[1]] = factor * self.is_word[batch.filled_rows]
            yield tokens, targets, weights * batch.is_real[:, None].astype("float32")
