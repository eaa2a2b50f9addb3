"""Texts → Keras's triples `(inputs, targets, weights)` for filling in blanks, as BERT learns.

Section 3.1 of arXiv:1810.04805. A row is START x1 … xm END, or for two texts that belong together
START a1 … am END b1 … bn END; segments are 0, and 1 from b1 on. 15 % of the texts' tokens are
chosen; 80 % of these are replaced by the mask, 10 % by another token, and 10 % stay. Targets are
the chosen tokens, and PAD with weight 0 elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_above_zero, check_positive, check_rate, check_whole
from tfx_transformer.data.buckets import EMPTY, Batch, bucket_sizes, epoch_batches
from tfx_transformer.data.epochs import EpochData
from tfx_transformer.data.language import load_text
from tfx_transformer.data.tokenizer import END, PAD, START, UNK, Tokenizer

MASKED, REPLACED = 0.8, 0.1  # of the chosen tokens; the rest stay
SPECIAL = -1  # the word to which START and END belong


@dataclass(frozen=True)
class Row:
    """One example, before anything is hidden."""

    ids: np.ndarray  # (T,)
    segments: np.ndarray  # (T,)
    words: np.ndarray  # (T,) the word to which each token belongs, counted from 0; or SPECIAL


def masked_data(
    texts: str | Path | Sequence[str | tuple[str, str]],
    tokenizer: Tokenizer,
    token_budget: int = 4096,
    max_length: int = 128,
    multiple: int = 1,
    rate: float = 0.15,
    whole_words: bool = False,
    seed: int = 0,
) -> "MaskedData":
    """Shuffled batches in which other tokens are hidden in each epoch.

    Args:
        texts: strings, pairs of strings, or a file with a text in each line. A string that is too
            long becomes several rows; of a pair the longer text is cut. Empty ones are left out.
        tokenizer: of the texts. The mask is one more id, behind its last.
        token_budget: a batch has at most so many positions, padding included.
        max_length: longest row, START and END included.
        multiple: the number of rows in a batch is a multiple of it (replicas).
        rate: the share of tokens that are chosen, at least one in a row.
        whole_words: choose words, not tokens: where a word begins, a piece begins with "▁". They
            are as many as fit in `rate`; where none fits, single tokens.
        seed: of the order and of what is hidden. `dataset(0)` is always the same, for validation.
    """
    check_positive(max_length=max_length)
    check_above_zero(rate=rate)
    check_rate(rate=rate)
    check_whole(seed=seed)
    if max_length < 5:  # START a1 END b1 END
        raise ValueError(f"max_length must be 5 or more; got {max_length=}")
    name = "texts"
    if isinstance(texts, str | Path):
        name, texts = str(texts), load_text(texts).split("\n")
    rows, skipped = make_rows(texts, tokenizer, max_length, whole_words)
    if not rows:
        raise ValueError(f"{name} must hold at least one word; got {skipped:,} empty texts")
    sizes = bucket_sizes(max_length, token_budget, multiple)
    return MaskedData(rows, sizes, tokenizer.vocab_size, rate, seed, skipped)


def make_rows(texts, tokenizer, max_length, whole_words) -> tuple[list[Row], int]:
    """The rows of all texts, and how many texts were empty."""
    starts_word = np.array([piece.startswith("▁") for piece in tokenizer.pieces])
    pairs = [(text,) if isinstance(text, str) else text for text in texts]
    for number, pair in enumerate(pairs):
        is_pair = isinstance(pair, list | tuple) and 0 < len(pair) < 3
        if not is_pair or not all(isinstance(text, str) for text in pair):
            raise ValueError(f"a text must be a string or two; got text {number}: {pair!r:.80}")
    flat = iter(tokenizer.encode_list([text for pair in pairs for text in pair]))
    rows, skipped = [], 0
    for pair in pairs:
        parts = [next(flat) for _ in pair]
        if not all(parts):
            skipped += 1
        elif len(parts) == 1:
            room = max_length - 2
            for start in range(0, len(parts[0]), room):
                rows.append(make_row([parts[0][start : start + room]], starts_word, whole_words))
        else:
            first, second = cut_pair(len(parts[0]), len(parts[1]), max_length - 3)
            parts = [parts[0][:first], parts[1][:second]]
            rows.append(make_row(parts, starts_word, whole_words))
    return rows, skipped


def cut_pair(first: int, second: int, room: int) -> tuple[int, int]:
    """The lengths that remain of two texts when the longer one loses what does not fit."""
    if first + second <= room:
        return first, second
    shorter = min(first, second, room // 2)
    return (room - shorter, shorter) if first > second else (shorter, room - shorter)


def make_row(parts: list[list[int]], starts_word: np.ndarray, whole_words: bool) -> Row:
    """START, and the ids of each text with its END."""
    ids, segments, starts = [START], [0], [False]
    for segment, part in enumerate(parts):
        ids += [*part, END]
        segments += [segment] * (len(part) + 1)
        inner = starts_word[part[1:]] if whole_words else [True] * (len(part) - 1)
        starts += [True, *inner, False]  # the first token always begins a word
    is_special = np.isin(ids, [START, END])
    words = np.where(is_special, SPECIAL, np.cumsum(starts) - 1)
    return Row(np.array(ids, "int32"), np.array(segments, "int32"), words)


def choose(words: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Which tokens are asked for: (T,) boolean."""
    sizes = np.bincount(words[words != SPECIAL])
    left = max(1, round(rate * int(sizes.sum())))
    order = rng.permutation(len(sizes))
    chosen = []
    for word in order:
        if sizes[word] <= left:
            chosen.append(word)
            left -= sizes[word]
        if not left:
            break
    if chosen:
        return np.isin(words, chosen)
    places = rng.choice(np.flatnonzero(words != SPECIAL), left, replace=False)
    return np.isin(np.arange(len(words)), places)


def hide(row: Row, rate: float, vocab_size: int, rng: np.random.Generator):
    """The ids (T,) with the chosen ones hidden, and what is asked for: (T,), PAD elsewhere."""
    chosen = choose(row.words, rate, rng)
    chance = rng.random(len(row.ids))
    others = rng.integers(UNK + 1, vocab_size, len(row.ids))  # any piece, no special id
    mask_id = vocab_size
    hidden = np.select([chance < MASKED, chance < MASKED + REPLACED], [mask_id, others], row.ids)
    return np.where(chosen, hidden, row.ids), np.where(chosen, row.ids, PAD)


class MaskedData(EpochData):
    """Rows and the order of their batches; made by `masked_data`.

    A batch is `({"tokens": (B, T), "segments": (B, T)}, targets (B, T), weights (B, T))` with T out
    of few lengths. The model needs `vocab_size` tokens; the last, `mask_id`, is the mask.
    """

    signature = (
        {name: tf.TensorSpec([None, None], tf.int32) for name in ("tokens", "segments")},
        tf.TensorSpec([None, None], tf.int32, name="targets"),
        tf.TensorSpec([None, None], tf.float32, name="weights"),
    )

    def __init__(self, rows: list[Row], sizes, mask_id: int, rate: float, seed: int, skipped=0):
        self.rows, self.sizes, self.mask_id, self.rate = rows, sizes, mask_id, rate
        self.seed, self.skipped, self.vocab_size = seed, skipped, mask_id + 1
        self.lengths = np.array([len(row.ids) for row in rows])
        self.steps_per_epoch = len(self.epoch_batches())

    def __str__(self) -> str:
        return (
            f"{len(self.rows):,} rows (skipped: {self.skipped:,} empty texts), "
            f"{self.lengths.sum():,} tokens in {self.steps_per_epoch:,} batches"
        )

    def epoch_batches(self, epoch: int = 0) -> list[Batch]:
        """The rows in each batch of an epoch, in order."""
        return epoch_batches(self.lengths, self.sizes, self.seed, epoch)

    def orders(self, epoch, step):
        for batch in self.epoch_batches(epoch)[step:]:
            shape = len(batch.rows), batch.length
            tokens, segments, targets = (np.full(shape, PAD, "int32") for _ in range(3))
            for i, number in enumerate(batch.rows):
                number = batch.rows[0] if number == EMPTY else number
                row = self.rows[number]
                here = i, slice(len(row.ids))
                # not the number itself: a 0 behind them is no other seed than [seed, epoch]
                rng = np.random.default_rng([self.seed, epoch, 1 + number])
                tokens[here], targets[here] = hide(row, self.rate, self.mask_id, rng)
                segments[here] = row.segments
            # an empty row repeats the first one: attention must find something to look at
            targets[batch.rows == EMPTY] = PAD
            weights = (targets != PAD).astype("float32")
            yield {"tokens": tokens, "segments": segments}, targets, weights
