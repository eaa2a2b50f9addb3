"""A text → Keras's triples `(tokens, targets, weights)` for a language model.

    text = load_text("tale.txt")
    tokenizer = language_tokenizer(text)                      characters; or "unigram", "bpe"
    data = language_data(text, tokenizer, max_length=256)

The text is one row of tokens, cut into windows y1 … yT that follow each other without a gap:

    tokens   START y1 … yT-1        targets   y1 … yT        weights   1 … 1

START is where the decoders begin too: what they generate begins like a window.
"""

import io
import itertools
from pathlib import Path

import numpy as np
import sentencepiece
import tensorflow as tf

from tfx_transformer.checks import check_choice, check_positive, check_whole
from tfx_transformer.data.buckets import EMPTY
from tfx_transformer.data.epochs import EpochData
from tfx_transformer.data.text import shift
from tfx_transformer.data.tokenizer import END, PAD, START, UNK, Tokenizer

LONGEST_LINE = 8192  # characters from which a vocabulary is learned at once
KEPT = ["\n", "\t"]  # pieces of their own: SentencePiece would take them for spaces or unknown


def load_text(path: str | Path) -> str:
    """Reads a UTF-8 file; a line ends in a line feed, whatever system wrote it."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")  # some editors mark the beginning
    except UnicodeDecodeError as error:
        before = error.start + len(content) - len(error.object)  # the mark is not in the object
        line = content.count(b"\n", 0, before) + 1
        raise ValueError(
            f"{path}, line {line}, byte {before:,}: is not UTF-8 text ({error.reason})"
        ) from error
    if not text.strip():
        raise ValueError(f"{path} holds no text: it has {len(content):,} bytes, all white space")
    return text


def language_tokenizer(
    text: str, kind: str = "char", vocab_size: int | None = None, byte_fallback: bool | None = None
) -> Tokenizer:
    """Learns a vocabulary that keeps the text as it is: spaces, tabs, line feeds and all.

    Args:
        text: to learn from.
        kind: "char" (all characters of the text), "unigram" or "bpe" (subwords).
        vocab_size: V of subwords, the special ids and bytes included.
        byte_fallback: spell unknown characters as bytes, of which there are 256, instead of UNK;
            by default only subwords do.
    """
    check_choice("char", "unigram", "bpe", kind=kind)
    if (kind == "char") != (vocab_size is None):
        raise ValueError(f"vocab_size goes with subwords; got {kind=}, {vocab_size=}")
    if not text.strip():
        raise ValueError(f"text must hold some words; got {len(text):,} white characters")
    if byte_fallback is None:
        byte_fallback = kind != "char"
    if vocab_size is None:
        vocab_size = len(set(text)) + UNK + 1 + len(KEPT) + 256 * byte_fallback
    check_positive(vocab_size=vocab_size)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_pieces(text),
            model_writer=model,
            vocab_size=vocab_size,
            model_type=kind,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=False,  # no space before each line
            user_defined_symbols=KEPT,
            character_coverage=1.0,
            byte_fallback=byte_fallback,
            pad_id=PAD,
            bos_id=START,
            eos_id=END,
            unk_id=UNK,
            hard_vocab_limit=False,  # a smaller vocabulary instead of an error
            max_sentence_length=1 << 16,
            num_threads=1,  # the order of sums, and so the result, depends on it
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2]  # the rest names a line of C++
        raise ValueError(
            f"no {kind} vocabulary of {vocab_size=} can be learned: {reason}"
        ) from error
    return Tokenizer(model.getvalue())


def _pieces(text: str):
    """The lines of a text, long ones in parts."""
    for line in text.split("\n"):
        for start in range(0, len(line), LONGEST_LINE):
            yield line[start : start + LONGEST_LINE]


def encode_text(text: str, tokenizer: Tokenizer, chunk: int = 8192) -> np.ndarray:
    """A text → its ids (N,), line by line.

    A tokenizer that has no piece for a line feed gets END instead, after each line with words.
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


def language_data(
    text: str,
    tokenizer: Tokenizer,
    max_length: int = 256,
    batch_size: int = 32,
    seed: int | None = 0,
) -> "LanguageData":
    """Windows of a text in batches.

    Args:
        text: from `load_text`, or a part of it.
        tokenizer: from `language_tokenizer`, or another one; see `encode_text`.
        max_length: T, tokens in a window.
        batch_size: windows in a batch; fewer where there are fewer.
        seed: of the order. In each epoch every window comes once. What is left over, less than a
            window, is now at the beginning of the text, now at its end. None is for evaluation:
            every token, in order, and the last window is padded.
    """
    check_positive(max_length=max_length, batch_size=batch_size)
    if seed is not None:
        check_whole(seed=seed)
    ids = encode_text(text, tokenizer)
    least = 1 if seed is None else max_length
    if len(ids) < least:
        raise ValueError(
            f"the text must fill one window of {max_length=} tokens; got {len(ids):,} tokens, "
            f"{len(text):,} characters"
        )
    return LanguageData(ids, max_length, batch_size, seed)


class LanguageData(EpochData):
    """The windows of a text and their order; made by `language_data`.

    Args:
        ids: (N,) of the whole text.
        max_length, batch_size, seed: as there.
    """

    def __init__(self, ids: np.ndarray, max_length: int, batch_size: int, seed: int | None):
        self.ids, self.max_length, self.seed = ids, max_length, seed
        windows = len(ids) / max_length
        self.num_windows = int(np.ceil(windows) if seed is None else np.floor(windows))
        self.batch_size = min(batch_size, self.num_windows)
        self.steps_per_epoch = -(-self.num_windows // self.batch_size)  # rounded up
        self.signature = (
            tf.TensorSpec([self.batch_size, max_length], tf.int32, name="windows"),
            tf.TensorSpec([self.batch_size], tf.bool, name="real"),
        )

    def __str__(self) -> str:
        return (
            f"{len(self.ids):,} tokens, {self.num_windows:,} windows of {self.max_length} in "
            f"{self.steps_per_epoch:,} batches of {self.batch_size}"
        )

    def orders(self, epoch, step):
        """For each batch its windows (B, T), and which of them are real (B,)."""
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
            real = rows != EMPTY
            first = np.where(real, rows, rows[0]) * length  # an empty row repeats one, weight 0
            yield text[first[:, None] + np.arange(length)], real

    def triple(self, windows, real):
        tokens, targets = (
            ids.to_tensor(PAD, shape=[self.batch_size, 1 + self.max_length])[:, :-1]
            for ids in shift(tf.RaggedTensor.from_tensor(windows))
        )
        return tokens, targets, tf.cast((targets != PAD) & real[:, None], tf.float32)
