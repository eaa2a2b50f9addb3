"""Batches `(inputs, targets, weights)` of sentence pairs for translation.

Targets are the decoder inputs shifted by one. For the target tokens y1 … yn:

    decoder input   START y1 … yn        targets   y1 … yn END        weights   1 … 1

The source is x1 … xm END, as in Marian and fairseq: with END the encoder has at least one position,
also for an empty text. Rows are padded with PAD, whose weight is 0.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from tfx_transformer.checks import check_positive, check_rate
from tfx_transformer.data.buckets import bucket_sizes, pair_sizes
from tfx_transformer.data.epochs import BucketedBatches
from tfx_transformer.data.sources import describe_counts
from tfx_transformer.data.stored import (
    Rows,
    Texts,
    has_rows,
    hash_files,
    locked,
    read_rows,
    write_rows,
)
from tfx_transformer.data.text.noise import add_noise
from tfx_transformer.data.text.pairs import Pairs
from tfx_transformer.data.text.tokenizer import END, PAD, START, Tokenizer

CHUNK = 8192  # strings that are tokenized at a time
TOKENIZING: dict[str, Any] = {"desc": "tokenizing", "unit": " texts", "delay": 3, "disable": None}


def shift(ids: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Target ids (B, ragged) → decoder inputs START y1 … yn and targets y1 … yn END."""
    start = tf.fill([ids.nrows(), 1], START)
    return tf.concat([start, ids], axis=1), append_end(ids)


def append_end(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Ids (B, ragged) → x1 … xm END."""
    end = tf.fill([ids.nrows(), 1], END)
    return tf.concat([ids, end], axis=1)


def encode_all(tokenizer: Tokenizer, strings: Sequence[str]) -> tf.RaggedTensor:
    """Strings (N) → ids (N, ragged) without START and END, kept where tf.data runs."""
    with tf.device("CPU:0"):
        parts = [tokenizer.encode(strings[i : i + CHUNK]) for i in range(0, len(strings), CHUNK)]
        return tf.concat(parts, axis=0)


def encode_rows(tokenizer: Tokenizer, texts: Sequence[str]) -> Rows:
    """Texts (N) → their ids, without START and END; those of texts in files are in files, too."""
    if not isinstance(texts, Texts):
        ids = encode_all(tokenizer, texts)
        return Rows(ids.flat_values.numpy(), ids.row_splits.numpy())
    path = texts.path.with_name(f"{texts.path.name}-{hash_files([], tokenizer.model)}")
    kind = "uint16" if tokenizer.vocab_size <= 2**16 else "int32"
    with locked(path.parent):
        if not has_rows(path):
            with write_rows(path, kind) as add, tqdm(**TOKENIZING) as bar:
                for block in texts.all_in_blocks(CHUNK):
                    ids = tokenizer.encode(block)  # in all threads of TensorFlow
                    add(ids.flat_values.numpy(), ids.row_lengths().numpy())
                    bar.update(len(block))
    rows = read_rows(path, kind)
    return rows if texts.rows.selected is None else rows.select(texts.rows.selected)


def find_usable(
    lengths: np.ndarray, max_length: int, name: str
) -> tuple[np.ndarray, dict[str, int]]:
    """The examples that are neither too long nor empty, and {reason: count} of the others.

    `lengths` (sides, N) include END; `name` is that of an example, for the error if none is left.
    """
    too_long = (lengths > max_length).any(axis=0)
    empty = (lengths == 1).any(axis=0) & ~too_long
    counts = int(too_long.sum()), int(empty.sum())
    if (too_long | empty).all():
        raise ValueError(
            f"no {name} is left: {counts[0]:,} are longer than {max_length=} tokens and "
            f"{counts[1]:,} are empty after normalization"
        )
    reasons = f"over {max_length} tokens", "empty after normalization"
    skipped = {reason: count for reason, count in zip(reasons, counts, strict=True) if count}
    return np.flatnonzero(~(too_long | empty)), skipped


class PairBatches(BucketedBatches):
    """Shuffled batches; pairs that are too long, or empty after normalization, are skipped.

    A batch is `({"source": (B, S), "target": (B, T)}, targets (B, T), weights (B, T))`, with
    (S, T) one of a few shapes that `choose_shapes` finds for the pairs.

    Args:
        pairs: from `load_pairs`.
        source_tokenizer: of the source.
        target_tokenizer: of the target; may be the same one.
        token_budget: maximum number of positions of a batch on each side, padding included.
        max_length: maximum number of tokens of a row, END included.
        seed: of the order and of the segmentations. None is for evaluation: every pair, in a fixed
            order, truncated to `max_length`.
        n_best: above 1, one of the `n_best` best segmentations is sampled anew in each epoch.
        alpha: its smoothing; see `Tokenizer.sample`.
        noise: fraction of the sources that have noise, other ones in each epoch; see `add_noise`.
    """

    def __init__(
        self,
        pairs: Pairs,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        token_budget: int = 4096,
        max_length: int = 128,
        seed: int | None = 0,
        n_best: int = 1,
        alpha: float = 0.1,
        noise: float = 0.0,
    ):
        check_positive(max_length=max_length, n_best=n_best)
        if n_best > 1 and not (source_tokenizer.can_sample and target_tokenizer.can_sample):
            raise ValueError(
                f"n_best above 1 needs unigram tokenizers on both sides; got {n_best=}"
            )
        check_rate(noise=noise)
        if noise and (n_best > 1 or seed is None):
            raise ValueError(f"noise needs n_best=1 and a seed; got {noise=}, {n_best=}, {seed=}")
        if n_best > 1 and seed is None:
            raise ValueError(f"n_best above 1 needs a seed; got {n_best=}, {seed=}")
        self.tokenizers = source_tokenizer, target_tokenizer
        self.texts = pairs.source, pairs.target
        ids = [encode_rows(*side) for side in zip(self.tokenizers, self.texts, strict=True)]
        lengths = np.stack([side.lengths() for side in ids]) + 1  # (2, N), END included
        self.rows, self.truncated = np.arange(len(pairs), dtype="int32"), 0
        self.skipped: dict[str, int] = {}
        if seed is None:
            self.truncated = int((lengths > max_length).any(axis=0).sum())
        else:
            self.rows, self.skipped = find_usable(lengths, max_length, f"pair of {pairs.name}")
        self.ids = [side.select(self.rows) for side in ids]
        lengths = np.minimum(lengths[:, self.rows], max_length)
        self.num_tokens = lengths.sum(axis=1)  # (2) of source and target, END included
        sizes = pair_sizes(lengths, max_length, token_budget)
        if n_best > 1:  # other segmentations are longer: they need room
            sizes = {(x, x): rows for x, rows in bucket_sizes(max_length, token_budget).items()}
        super().__init__(lengths, sizes, seed)
        self.max_length, self.n_best, self.alpha, self.noise = max_length, n_best, alpha, noise
        kinds = (tf.string, tf.float32) if n_best > 1 else (tf.int32, tf.int64)
        side = tuple(tf.TensorSpec([None], kind) for kind in kinds)  # see `_ids`
        length, is_real = tf.TensorSpec([2], tf.int32), tf.TensorSpec([None], tf.bool)
        self.signature = length, is_real, side, side

    def __str__(self) -> str:
        shapes = self.batch_shapes()
        source, target = self.num_tokens
        padding = 1 - (source + target) / sum(rows * sum(length) for rows, length in shapes)
        return (
            f"{self.lengths.shape[1]:,} pairs (skipped: {describe_counts(self.skipped)}; "
            f"truncated: {self.truncated:,}), {source:,} + {target:,} tokens in "
            f"{self.steps_per_epoch:,} batches of {len(set(shapes))} shapes, {padding:.0%} padding"
        )

    def batch_arrays(self, epoch, step):
        """The length of each batch, which rows are real, and the ids or texts of both sides."""
        uniform = np.zeros(self.lengths.shape, "float32")
        if self.n_best > 1:
            uniform = np.random.default_rng([self.seed, epoch, 1]).random(uniform.shape, "float32")
        for batch in self.own_batches(epoch, step):
            rows = batch.filled_rows
            if self.n_best > 1:
                texts = ([side[i] for i in self.rows[rows].tolist()] for side in self.texts)
                source, target = zip(texts, uniform[:, rows], strict=True)
            else:
                source, target = (side.take(rows, self.max_length - 1) for side in self.ids)
                if self.noise:
                    seeds = ([self.seed, epoch, 2, row] for row in rows)
                    source = add_noise(*source, self.noise, seeds)
            yield batch.length, batch.is_real, source, target

    def make_batch(self, length, is_real, source, target):
        source, target = (self._ids(i, *side, length[i]) for i, side in enumerate((source, target)))
        rows = tf.size(is_real)
        shapes = [tf.cast(tf.stack([rows, length[i]]), tf.int64) for i in (0, 1, 1)]
        sides = append_end(source), *shift(target)
        source, decoder_input, targets = (
            ids.to_tensor(PAD, shape=shape) for ids, shape in zip(sides, shapes, strict=True)
        )
        weights = tf.cast((targets != PAD) & is_real[:, None], tf.float32)
        return {"source": source, "target": decoder_input}, targets, weights

    def _ids(self, side, values, extra, length) -> tf.RaggedTensor:
        """Of ids and the number in each row, or sampled from texts by a random number for each."""
        if self.n_best == 1:
            return tf.RaggedTensor.from_row_lengths(values, extra, validate=False)
        return self.tokenizers[side].sample(values, extra, self.n_best, self.alpha, length - 1)
