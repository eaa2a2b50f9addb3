"""Batches `(inputs, targets, weights)` for masked language modeling, as in BERT.

Section 3.1 of arXiv:1810.04805. A row is START x1 … xm END, or for a pair of texts
START a1 … am END b1 … bn END; segments are 0, and 1 from b1 on. 15 % of the tokens are selected;
80 % of these are replaced by the mask, 10 % by a random token, and 10 % are kept. Targets are the
selected tokens, and PAD with weight 0 elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_above_zero, check_positive, check_rate, check_whole
from tfx_transformer.data.buckets import bucket_sizes
from tfx_transformer.data.epochs import BucketedBatches
from tfx_transformer.data.text.language import load_text
from tfx_transformer.data.text.tokenizer import END, PAD, START, UNK, Tokenizer

MASKED, REPLACED = 0.8, 0.1  # fractions of the selected tokens; the rest is kept
SPECIAL = -1  # the word index of START and END


@dataclass(frozen=True)
class MaskingRow:
    """One example before masking."""

    ids: np.ndarray  # (T,)
    segments: np.ndarray  # (T,)
    words: np.ndarray  # (T,) the index of each token's word, from 0 on; or SPECIAL


def make_rows(texts, tokenizer, max_length, whole_words) -> tuple[list[MaskingRow], int]:
    """The rows of all texts, and the number of empty texts."""
    starts_word = np.array([piece.startswith("▁") for piece in tokenizer.pieces])
    pairs = [(text,) if isinstance(text, str) else text for text in texts]
    for number, pair in enumerate(pairs):
        is_pair = isinstance(pair, list | tuple) and 0 < len(pair) < 3
        if not is_pair or not all(isinstance(text, str) for text in pair):
            raise ValueError(f"a text must be one or two strings; got text {number}: {pair!r:.80}")
    flat = iter(tokenizer.encode_list([text for pair in pairs for text in pair]))
    rows, skipped = [], 0
    for pair in pairs:
        parts = [next(flat) for _ in pair]
        if not all(parts):
            skipped += 1
        elif len(parts) == 1:
            size = max_length - 2
            for start in range(0, len(parts[0]), size):
                rows.append(make_row([parts[0][start : start + size]], starts_word, whole_words))
        else:
            first, second = truncate_pair(len(parts[0]), len(parts[1]), max_length - 3)
            parts = [parts[0][:first], parts[1][:second]]
            rows.append(make_row(parts, starts_word, whole_words))
    return rows, skipped


def truncate_pair(first: int, second: int, total: int) -> tuple[int, int]:
    """The lengths of two texts after the longer one is truncated, so that both fit in `total`."""
    if first + second <= total:
        return first, second
    shorter = min(first, second, total // 2)
    return (total - shorter, shorter) if first > second else (shorter, total - shorter)


def make_row(parts: list[list[int]], starts_word: np.ndarray, whole_words: bool) -> MaskingRow:
    """START, and the ids of each text followed by END."""
    ids, segments, starts = [START], [0], [False]
    for segment, part in enumerate(parts):
        ids += [*part, END]
        segments += [segment] * (len(part) + 1)
        inner = starts_word[part[1:]] if whole_words else [True] * (len(part) - 1)
        starts += [True, *inner, False]  # the first token always begins a word
    is_special = np.isin(ids, [START, END])
    words = np.where(is_special, SPECIAL, np.cumsum(starts) - 1)
    return MaskingRow(np.array(ids, "int32"), np.array(segments, "int32"), words)


def select_tokens(words: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Which tokens to predict: (T,) boolean."""
    sizes = np.bincount(words[words != SPECIAL])
    remaining = max(1, round(rate * int(sizes.sum())))
    order = rng.permutation(len(sizes))
    selected = []
    for word in order:
        if sizes[word] <= remaining:
            selected.append(word)
            remaining -= sizes[word]
        if not remaining:
            break
    if selected:
        return np.isin(words, selected)
    positions = rng.choice(np.flatnonzero(words != SPECIAL), remaining, replace=False)
    return np.isin(np.arange(len(words)), positions)


def mask_tokens(row: MaskingRow, rate: float, vocab_size: int, rng: np.random.Generator):
    """The ids (T,) after masking, and the targets (T,): PAD where nothing is predicted."""
    is_selected = select_tokens(row.words, rate, rng)
    uniform = rng.random(len(row.ids))
    others = rng.integers(UNK + 1, vocab_size, len(row.ids))  # any piece, no special id
    mask_id = vocab_size
    masked = np.select([uniform < MASKED, uniform < MASKED + REPLACED], [mask_id, others], row.ids)
    return np.where(is_selected, masked, row.ids), np.where(is_selected, row.ids, PAD)


class MaskedBatches(BucketedBatches):
    """Shuffled batches with other masked tokens in each epoch.

    A batch is `({"tokens": (B, T), "segments": (B, T)}, targets (B, T), weights (B, T))`, with T
    one of a few lengths. The model's vocabulary has `vocab_size` tokens, the last of them the mask.

    Args:
        texts: strings, pairs of strings, or a file with a text in each line. A string that is too
            long becomes several rows; the longer text of a pair is truncated. Empty texts are
            skipped.
        tokenizer: of the texts. The id of the mask is its `vocab_size`.
        token_budget: maximum number of positions of a batch, padding included.
        max_length: maximum number of tokens of a row, START and END included.
        rate: fraction of tokens to select, at least one per row.
        whole_words: select whole words, as many as fit in `rate`, or single tokens if none fits.
            The first piece of a word begins with "▁".
        seed: of the order and the masks. `dataset(0)` is always the same, for validation.
    """

    signature = (
        {name: tf.TensorSpec([None, None], tf.int32) for name in ("tokens", "segments")},
        tf.TensorSpec([None, None], tf.int32, name="targets"),
        tf.TensorSpec([None, None], tf.float32, name="weights"),
    )

    def __init__(
        self,
        texts: str | Path | Sequence[str | tuple[str, str]],
        tokenizer: Tokenizer,
        token_budget: int = 4096,
        max_length: int = 128,
        rate: float = 0.15,
        whole_words: bool = False,
        seed: int = 0,
    ):
        check_positive(max_length=max_length)
        check_above_zero(rate=rate)
        check_rate(rate=rate)
        check_whole(seed=seed)
        if max_length < 5:  # START a1 END b1 END
            raise ValueError(f"max_length must be 5 or more; got {max_length=}")
        name = "texts"
        if isinstance(texts, str | Path):
            name, texts = str(texts), load_text(texts).split("\n")
        self.rows, self.skipped = make_rows(texts, tokenizer, max_length, whole_words)
        if not self.rows:
            raise ValueError(
                f"{name} must have at least one word; got {self.skipped:,} empty texts"
            )
        lengths = np.array([len(row.ids) for row in self.rows])
        super().__init__(lengths, bucket_sizes(max_length, token_budget), seed)
        self.rate, self.mask_id = rate, tokenizer.vocab_size
        self.vocab_size = self.mask_id + 1

    def __str__(self) -> str:
        return (
            f"{len(self.rows):,} rows (skipped: {self.skipped:,} empty texts), "
            f"{self.lengths.sum():,} tokens in {self.steps_per_epoch:,} batches"
        )

    def batch_arrays(self, epoch, step):
        for batch in self.own_batches(epoch, step):
            shape = len(batch.rows), batch.length
            tokens, segments, targets = (np.full(shape, PAD, "int32") for _ in range(3))
            for i, number in enumerate(batch.filled_rows):
                row = self.rows[number]
                span = i, slice(len(row.ids))
                # 1 + number, because [seed, epoch, 0] is the same seed as [seed, epoch]
                rng = np.random.default_rng([self.seed, epoch, 1 + number])
                tokens[span], targets[span] = mask_tokens(row, self.rate, self.mask_id, rng)
                segments[span] = row.segments
            targets[~batch.is_real] = PAD
            weights = (targets != PAD).astype("float32")
            yield {"tokens": tokens, "segments": segments}, targets, weights
