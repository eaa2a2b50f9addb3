"""Batches `(tokens, targets, weights)` of a text for a language model.

    text = load_text("tale.txt")
    tokenizer = language_tokenizer(text)                      characters; or "unigram", "bpe"
    data = LanguageBatches(text, tokenizer, max_length=256)

The text is one sequence of tokens, split into consecutive windows y1 … yT:

    tokens   START y1 … yT-1        targets   y1 … yT        weights   1 … 1

Decoders begin with START too.
"""

import itertools
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_choice, check_positive, check_whole
from tfx_transformer.data.buckets import EMPTY, Batch
from tfx_transformer.data.epochs import EpochBatches
from tfx_transformer.data.text.tokenizer import END, PAD, START, UNK, Tokenizer, train_sentencepiece

MAX_LINE = 8192  # characters; longer lines are split to train a tokenizer
SYMBOLS = ["\n", "\t"]  # pieces of the vocabulary: SentencePiece would change them to spaces


def load_text(path: str | Path) -> str:
    """Reads a UTF-8 file; Windows line endings become line feeds."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")  # sig: a byte order mark
    except UnicodeDecodeError as error:
        before = error.start + len(content) - len(error.object)  # without the mark
        line = content.count(b"\n", 0, before) + 1
        raise ValueError(
            f"{path}, line {line}, byte {before:,}: is not UTF-8 text ({error.reason})"
        ) from error
    if not text.strip():
        raise ValueError(f"{path} has no text: it has {len(content):,} bytes, all white space")
    return text


def language_tokenizer(
    text: str, kind: str = "char", vocab_size: int | None = None, byte_fallback: bool | None = None
) -> Tokenizer:
    """Trains a tokenizer that preserves the text, with all spaces, tabs and line feeds.

    Args:
        text: the training text.
        kind: "char" (all characters of the text), "unigram" or "bpe" (subwords).
        vocab_size: V of subwords, with the special ids and bytes.
        byte_fallback: encode unknown characters as bytes, of which there are 256, instead of UNK;
            by default for subwords only.
    """
    check_choice("char", "unigram", "bpe", kind=kind)
    if (kind == "char") != (vocab_size is None):
        raise ValueError(f"vocab_size is for subwords only; got {kind=}, {vocab_size=}")
    if not text.strip():
        raise ValueError(f"text must not be empty; got {len(text):,} white space characters")
    if byte_fallback is None:
        byte_fallback = kind != "char"
    if vocab_size is None:
        vocab_size = len(set(text)) + UNK + 1 + len(SYMBOLS) + 256 * byte_fallback
    check_positive(vocab_size=vocab_size)
    return train_sentencepiece(
        _split_lines(text),
        vocab_size,
        kind,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,  # no space before each line
        user_defined_symbols=SYMBOLS,
        character_coverage=1.0,
        byte_fallback=byte_fallback,
    )


def _split_lines(text: str):
    """The lines of a text, long ones in parts."""
    for line in text.split("\n"):
        for start in range(0, len(line), MAX_LINE):
            yield line[start : start + MAX_LINE]


def encode_text(text: str, tokenizer: Tokenizer, chunk: int = 8192) -> np.ndarray:
    """Encodes a text line by line → ids (N,).

    If the tokenizer has no piece for a line feed, each line that is not empty ends with END.
    """
    lines = text.split("\n")
    keeps_lines = "\n" in tokenizer.pieces
    if keeps_lines:
        lines = [line + "\n" for line in lines[:-1]] + lines[-1:]
    parts = []
    for start in range(0, len(lines), chunk):
        rows = tokenizer.encode_list(lines[start : start + chunk])
        if not keeps_lines:
            rows = [[*row, END] for row in rows if row]
        parts.append(np.fromiter(itertools.chain.from_iterable(rows), "int32"))
    return np.concatenate(parts)


class LanguageBatches(EpochBatches):
    """Windows of a text in batches.

    Args:
        text: from `load_text`, or a part of it.
        tokenizer: from `language_tokenizer`, or another one; see `encode_text`.
        max_length: T, tokens in a window.
        batch_size: windows in a batch; smaller if there are fewer.
        seed: of the order. In each epoch the windows start at a random offset, so that the rest,
            less than a window, is dropped at the beginning or the end. None is for evaluation:
            every token, in order, with a padded last window.
    """

    def __init__(
        self,
        text: str,
        tokenizer: Tokenizer,
        max_length: int = 256,
        batch_size: int = 32,
        seed: int | None = 0,
    ):
        check_positive(max_length=max_length, batch_size=batch_size)
        if seed is not None:
            check_whole(seed=seed)
        self.ids, self.max_length, self.seed = encode_text(text, tokenizer), max_length, seed
        if len(self.ids) < (1 if seed is None else max_length):
            raise ValueError(
                f"the text must fill one window of {max_length=} tokens; got {len(self.ids):,} "
                f"tokens, {len(text):,} characters"
            )
        windows = len(self.ids) / max_length
        self.num_windows = int(np.ceil(windows) if seed is None else np.floor(windows))
        self.batch_size = min(batch_size, self.num_windows)
        self.steps_per_epoch = -(-self.num_windows // self.batch_size)  # rounded up

    @property
    def signature(self):
        shape = [self.share.size(self.batch_size), self.max_length]
        return tuple(tf.TensorSpec(shape, x) for x in (tf.int32, tf.int32, tf.float32))

    def __str__(self) -> str:
        return (
            f"{len(self.ids):,} tokens, {self.num_windows:,} windows of {self.max_length} in "
            f"{self.steps_per_epoch:,} batches of {self.batch_size}"
        )

    def batch_arrays(self, epoch, step):
        length, count = self.max_length, self.num_windows
        order, spare = np.arange(count), len(self.ids) - count * length
        if self.seed is None:
            text = np.pad(self.ids, (0, -spare), constant_values=PAD)
        else:
            rng = np.random.default_rng([self.seed, epoch])
            order = rng.permutation(order)
            text = self.ids[rng.integers(spare + 1) :]
        missing = self.steps_per_epoch * self.batch_size - count
        order = np.pad(order, (0, missing), constant_values=EMPTY)
        for rows in order.reshape(-1, self.batch_size)[step:]:
            batch = Batch(length, rows).share(self.share)
            targets = text[batch.filled_rows[:, None] * length + np.arange(length)]  # (B, T)
            tokens = np.pad(targets[:, :-1], [(0, 0), (1, 0)], constant_values=START)
            weights = (targets != PAD) & batch.is_real[:, None]
            yield tokens, targets, weights.astype("float32")
