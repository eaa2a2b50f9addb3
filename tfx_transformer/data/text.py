"""Sentence pairs → Keras's triples `(inputs, targets, weights)` for translation.

The shift by one is here and nowhere else. For the target words y1 … yn:

    decoder input   START y1 … yn        targets   y1 … yn END        weights   1 … 1

and the source is x1 … xm END: as in Marian and fairseq, the END gives the encoder a place that is
always there, also for an empty text. Rows are padded with PAD, whose weight is 0.
"""

from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_positive
from tfx_transformer.data.buckets import EMPTY, Batch, bucket_sizes, epoch_batches
from tfx_transformer.data.epochs import EpochData
from tfx_transformer.data.sources import Pairs
from tfx_transformer.data.tokenizer import END, PAD, START, Tokenizer


def shift(ids: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Target ids (B, ragged) → decoder inputs START y1 … yn and targets y1 … yn END."""
    start = tf.fill([ids.nrows(), 1], START)
    return tf.concat([start, ids], axis=1), append_end(ids)


def append_end(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Ids (B, ragged) → x1 … xm END."""
    end = tf.fill([ids.nrows(), 1], END)
    return tf.concat([ids, end], axis=1)


def encode_source(tokenizer: Tokenizer, strings, max_length: int | None = None) -> tf.Tensor:
    """Strings (B) → source ids (B, S) as in training; cut to `max_length`, END included."""
    ids = tokenizer.encode(strings)
    if max_length is not None:
        ids = ids[:, : max_length - 1]
    return append_end(ids).to_tensor(PAD)


@dataclass(frozen=True)
class TextReport:
    """What a data set holds and what its batches cost."""

    pairs: int
    skipped: dict[str, int]
    truncated: int
    steps_per_epoch: int
    shapes: list[tuple[int, int]]  # (rows, length) of the batches
    source_tokens: int  # in an epoch, END included
    target_tokens: int
    padding: float  # padded positions / all positions

    def __str__(self) -> str:
        skipped = ", ".join(f"{number:,} {reason}" for reason, number in self.skipped.items())
        return (
            f"{self.pairs:,} pairs (skipped: {skipped or 'none'}; truncated: {self.truncated:,}), "
            f"{self.source_tokens:,} + {self.target_tokens:,} tokens in "
            f"{self.steps_per_epoch:,} batches of {len(self.shapes)} shapes, "
            f"{self.padding:.0%} padding"
        )


def training_data(
    pairs: Pairs,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    token_budget: int = 4096,
    max_length: int = 128,
    multiple: int = 1,
    seed: int = 0,
    nbest: int = 1,
    alpha: float = 0.1,
) -> "TextData":
    """Shuffled batches; pairs that are too long, or empty once normalised, are left out.

    Args:
        pairs: from `load_pairs`.
        source_tokenizer: of the source.
        target_tokenizer: of the target; may be the same one.
        token_budget: a batch has at most so many positions on each side, padding included.
        max_length: longest row, END included.
        multiple: the number of rows in a batch is a multiple of it (replicas).
        seed: of the order and of the segmentations.
        nbest: above 1: subword regularisation, in each epoch a new segmentation out of so many.
        alpha: its smoothing; see `Tokenizer.sample`.
    """
    check_positive(max_length=max_length, nbest=nbest)
    if nbest > 1 and not (source_tokenizer.can_sample and target_tokenizer.can_sample):
        raise ValueError(f"nbest above 1 needs unigram tokenizers on both sides; got {nbest=}")
    source = _Side.of(source_tokenizer, pairs.source)
    target = _Side.of(target_tokenizer, pairs.target)
    lengths = np.stack([source.lengths, target.lengths])
    too_long = (lengths > max_length).any(axis=0)
    empty = (lengths == 1).any(axis=0) & ~too_long
    if (too_long | empty).all():
        raise ValueError(
            f"no pair of {pairs.name} is left: {too_long.sum():,} are longer than "
            f"{max_length=} tokens and {empty.sum():,} are empty once normalised"
        )
    keep = ~(too_long | empty)
    skipped = {f"over {max_length} tokens": too_long.sum(), "empty once normalised": empty.sum()}
    return TextData(
        source.keep(keep),
        target.keep(keep),
        bucket_sizes(max_length, token_budget, multiple),
        seed=seed,
        nbest=nbest,
        alpha=alpha,
        skipped={reason: int(number) for reason, number in skipped.items() if number},
    )


def evaluation_data(
    pairs: Pairs,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    token_budget: int = 4096,
    max_length: int = 128,
    multiple: int = 1,
) -> "TextData":
    """Every pair, in a fixed order; what is longer than `max_length` is cut. Args as above."""
    check_positive(max_length=max_length)
    source = _Side.of(source_tokenizer, pairs.source)
    target = _Side.of(target_tokenizer, pairs.target)
    too_long = (np.stack([source.lengths, target.lengths]) > max_length).any(axis=0)
    return TextData(
        source.cut(max_length),
        target.cut(max_length),
        bucket_sizes(max_length, token_budget, multiple),
        truncated=int(too_long.sum()),
    )


@dataclass(frozen=True)
class _Side:
    """One language of the pairs, tokenised once and kept in memory."""

    tokenizer: Tokenizer
    strings: tf.Tensor  # (N)
    ids: tf.RaggedTensor  # (N, ragged)

    @classmethod
    def of(cls, tokenizer, strings, chunk=8192):
        with tf.device("CPU:0"):  # where tf.data will look for them
            texts = tf.constant(strings)
            chunks = range(0, len(strings), chunk)
            ids = tf.concat([tokenizer.encode(texts[i : i + chunk]) for i in chunks], axis=0)
        return cls(tokenizer, texts, ids)

    @property
    def lengths(self) -> np.ndarray:
        """(N), END included."""
        return self.ids.row_lengths().numpy() + 1

    def keep(self, mask):
        rows = np.flatnonzero(mask)
        return replace(self, strings=tf.gather(self.strings, rows), ids=tf.gather(self.ids, rows))

    def cut(self, max_length):
        return replace(self, ids=self.ids[:, : max_length - 1])


class TextData(EpochData):
    """Tokenised pairs and the order of their batches; made by the two functions above.

    `stream()` is for `fit(..., steps_per_epoch=data.steps_per_epoch)`, `dataset()` for a loop of
    one's own or `evaluate`. A batch is `({"source": (B, S), "target": (B, T)}, targets (B, T),
    weights (B, T))` with S = T out of few lengths.
    """

    signature = (
        tf.TensorSpec([], tf.int32, name="length"),
        tf.TensorSpec([None], tf.int32, name="rows"),  # (B)
        tf.TensorSpec([2, None], tf.float32, name="draws"),  # (2, B)
    )

    def __init__(
        self, source, target, sizes, seed=None, nbest=1, alpha=0.1, skipped=None, truncated=0
    ):
        self.source, self.target, self.sizes, self.seed = source, target, sizes, seed
        self.nbest, self.alpha = nbest, alpha
        self.lengths = np.maximum(source.lengths, target.lengths)  # (N)
        batches = self.epoch_batches()
        positions = sum(2 * batch.length * len(batch.rows) for batch in batches)
        tokens = int(source.lengths.sum()), int(target.lengths.sum())
        self.steps_per_epoch = len(batches)
        self.report = TextReport(
            pairs=len(self.lengths),
            skipped=skipped or {},
            truncated=truncated,
            steps_per_epoch=len(batches),
            shapes=sorted({(len(batch.rows), batch.length) for batch in batches}),
            source_tokens=tokens[0],
            target_tokens=tokens[1],
            padding=1 - sum(tokens) / positions,
        )

    def epoch_batches(self, epoch: int = 0) -> list[Batch]:
        """The pairs in each batch of an epoch, in order."""
        return epoch_batches(self.lengths, self.sizes, self.seed, epoch)

    def orders(self, epoch, step):
        """For each batch its length, its rows and two random numbers for each row."""
        draws = np.zeros([2, len(self.lengths)], "float32")
        if self.nbest > 1:
            draws = np.random.default_rng([self.seed, epoch, 1]).random(draws.shape, "float32")
        for batch in self.epoch_batches(epoch)[step:]:
            yield batch.length, batch.rows, draws[:, batch.rows]

    def triple(self, length, rows, draws):
        """Of one batch; runs inside tf.data."""
        real = rows != EMPTY
        # An empty row repeats the first one with weight 0: a row of padding alone would leave
        # attention nothing to look at, and 0 · NaN is NaN.
        rows = tf.where(real, rows, rows[0])
        source = self._take(self.source, rows, draws[0], length)
        decoder_input, targets = shift(self._take(self.target, rows, draws[1], length))

        shape = tf.cast(tf.stack([tf.size(rows), length]), tf.int64)
        source, decoder_input, targets = (
            ids.to_tensor(PAD, shape=shape) for ids in (append_end(source), decoder_input, targets)
        )
        weights = tf.cast((targets != PAD) & real[:, None], tf.float32)
        return {"source": source, "target": decoder_input}, targets, weights

    def _take(self, side, rows, draws, length) -> tf.RaggedTensor:
        if self.nbest == 1:
            return tf.gather(side.ids, rows)
        strings = tf.gather(side.strings, rows)
        return side.tokenizer.sample(strings, draws, self.nbest, self.alpha, length - 1)
