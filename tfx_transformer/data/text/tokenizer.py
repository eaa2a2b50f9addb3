"""Subword tokenizer: text ↔ ids by SentencePiece (Kudo & Richardson 2018, arXiv:1808.06226).

`sentencepiece` trains the vocabulary; `SentencePieceModel` runs it inside the graph, so that a
SavedModel takes and returns strings.
"""

import io
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece
import tensorflow as tf

from tfx_transformer.checks import check_choice, check_positive
from tfx_transformer.data.text.core.sentencepiece import CoreSentencePiece
from tfx_transformer.data.text.sentencepiece_model import (
    END,
    PAD,
    REPLACEMENT,
    START,
    UNK,
    SentencePieceModel,
    decode_rows,
)
from tfx_transformer.files import reading, write_file

MAX_SENTENCES = 200_000  # that a vocabulary is trained on: below 1 GB of memory

_log = logging.getLogger(__name__)


class Tokenizer(tf.Module):
    """SentencePiece tokenizer: strings to ids and back, in Python and in the graph.

    As a `tf.Module` it is saved with the module that owns it.

    Args:
        model: the content of a `.model` file with the special ids PAD, START, END and UNK.
        core: whether the graph uses ops of TensorFlow alone: slower, without `sample`, and not for
            every model.
    """

    start_id, end_id, unk_id = START, END, UNK

    def __init__(self, model: bytes, core: bool = False):
        super().__init__(name="tokenizer")
        try:
            self._python = sentencepiece.SentencePieceProcessor(model_proto=model)
            ids = [getattr(self._python, f"{name}_id")() for name in ("pad", "bos", "eos", "unk")]
        except RuntimeError as error:
            raise ValueError(f"model is not a SentencePiece model ({len(model)} bytes)") from error
        if ids != [PAD, START, END, UNK]:
            raise ValueError(
                "a SentencePiece model must have the ids pad, bos, eos, unk = "
                f"{[PAD, START, END, UNK]}; got {ids}"
            )
        self.model, self.vocab_size = model, self._python.vocab_size()
        self._graph = CoreSentencePiece(model) if core else SentencePieceModel(model)

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Reads a `.model` file."""
        with reading(path):
            return cls(Path(path).read_bytes())

    def save(self, path: str | Path) -> None:
        """Writes a `.model` file for any SentencePiece library."""
        write_file(path, self.model)

    def with_core_ops(self) -> "Tokenizer":
        """The same tokenizer without ops of tensorflow-text."""
        return Tokenizer(self.model, core=True)

    @property
    def pieces(self) -> list[str]:
        """The V pieces; "▁" is the space before a word."""
        return self._python.id_to_piece(list(range(self.vocab_size)))

    @property
    def can_sample(self) -> bool:
        """Whether `sample` works: for unigram models only."""
        try:
            self._python.nbest_encode_as_ids("", 1)
        except RuntimeError:
            return False
        return True

    def normalize(self, text: str) -> str:
        """The normalized text, which is what decoding an encoded text returns."""
        return self._python.normalize(text).replace("▁", " ").replace(REPLACEMENT, "").strip(" ")

    def encode(self, strings) -> tf.RaggedTensor:
        """Strings (B) → ids (B, ragged) int32, without START and END."""
        return self._graph.tokenize(tf.convert_to_tensor(strings, tf.string))

    def decode(self, ids) -> tf.Tensor:
        """Ids (…, T), dense or ragged → strings (…), always of valid UTF-8.

        Stops at END; drops PAD, START and bytes that are no complete character.
        """

        def decode(rows, is_before_end):
            is_text = is_before_end & (rows != PAD) & (rows != START)
            return self._graph.detokenize(tf.ragged.boolean_mask(rows, is_text))

        return decode_rows(ids, decode)

    def to_pieces(self, ids) -> tf.Tensor:
        """Ids of any shape → their pieces, strings of that shape; "" for PAD."""
        pieces = self._graph.id_to_piece(tf.reshape(ids, [-1]))
        return tf.where(ids == PAD, "", tf.reshape(pieces, tf.shape(ids)))

    def encode_list(self, strings: Sequence[str]) -> list[list[int]]:
        """`encode` for Python lists, without TensorFlow."""
        return self._python.encode(list(strings))

    def decode_list(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """`decode` for rows of whole numbers (lists or arrays), without TensorFlow."""
        rows = [[int(index) for index in row] for row in ids]
        rows = [row[: row.index(END)] if END in row else row for row in rows]
        texts = self._python.decode([[i for i in row if i not in (PAD, START)] for row in rows])
        return [text.replace(REPLACEMENT, "") for text in texts]

    def sample(self, strings, uniform, n_best: int = 16, alpha: float = 0.1, max_tokens=None):
        """Subword regularization (Kudo 2018, arXiv:1804.10959): samples a segmentation.

        One of the `n_best` best segmentations is sampled with P ∝ P(segmentation)^alpha. The result
        is a pure function of the arguments and does not depend on how strings are batched. Needs a
        unigram model.

        Args:
            strings: (B).
            uniform: (B) random numbers in 0 ≤ x < 1.
            n_best: segmentations to sample from.
            alpha: 0 samples evenly, 1 by the probability of the model, large values the best.
            max_tokens: sample only the best segmentation or those with at most this many tokens.

        Returns:
            Ids (B, ragged) int32.
        """
        check_positive(n_best=n_best)
        if not self.can_sample:
            raise ValueError("only a unigram tokenizer can be sampled; this one is of another kind")
        ids, first, count = self._segmentations(strings, n_best)
        # the log-probability of a segmentation is the sum over its pieces
        scores = tf.constant([self._python.get_score(i) for i in range(self.vocab_size)])
        scores = tf.reduce_sum(tf.gather(scores, ids), axis=1)

        rank = tf.range(n_best, dtype=tf.int64)
        row = tf.where(rank < count[:, None], first[:, None] + rank, 0)  # (B, n_best)
        allowed = rank < count[:, None]
        if max_tokens is not None:
            fits = tf.gather(ids.row_lengths(), row) <= tf.cast(max_tokens, tf.int64)
            allowed &= fits | (rank == 0)
        logits = tf.where(allowed, alpha * tf.gather(scores, row), float("-inf"))
        edges = tf.cumsum(tf.nn.softmax(logits), axis=1)
        is_passed = edges <= tf.convert_to_tensor(uniform, tf.float32)[:, None] * edges[:, -1:]
        sampled = tf.reduce_sum(tf.cast(is_passed, tf.int64), axis=1)
        return tf.gather(ids, first + sampled)

    def _segmentations(self, strings, n_best):
        """All candidates (R, ragged), best first, and each string's first row (B) and count (B).

        A short string has fewer than `n_best` candidates, and the op does not return their number.
        So an empty string is put after each: its only segmentation, an empty row, marks the end.
        """
        strings = tf.convert_to_tensor(strings, tf.string)
        spaced = tf.reshape(tf.stack([strings, tf.zeros_like(strings)], axis=1), [-1])
        ids = self._graph.tokenize(spaced, n_best=n_best)

        empty = tf.where(ids.row_lengths() == 0)[:, 0]
        is_empty = tf.cast(self._graph.tokenize(strings).row_lengths() == 0, tf.int64)
        end = tf.gather(empty, tf.cumsum(1 + is_empty) - 1)  # (B)
        first = tf.concat([[0], end + 1], axis=0)[:-1]
        return ids, first, end - first


def train_tokenizer(
    texts: Iterable[str],
    vocab_size: int,
    kind: str = "unigram",
    normalization: str = "nmt_nfkc",
    character_coverage: float = 0.9995,
    byte_fallback: bool = True,
    max_sentences: int = MAX_SENTENCES,
) -> Tokenizer:
    """Trains a tokenizer; the same texts always give the same one.

    For a joint vocabulary, pass the texts of both languages. If the texts do not have that many
    pieces, the vocabulary is smaller, with a warning in the log.

    Args:
        texts: sentences.
        vocab_size: V, with the 4 special ids and, with `byte_fallback`, 256 bytes.
        kind: "unigram" (can be sampled) or "bpe".
        normalization: "nmt_nfkc", "nfkc", "nmt_nfkc_cf" or "nfkc_cf" (these fold case), "identity".
        character_coverage: fraction of the text, 0.98 to 1, whose characters become pieces; the
            rarest characters are left to `byte_fallback`.
        byte_fallback: encode unknown characters as bytes instead of UNK, so that no text is lost.
        max_sentences: train on this many sentences, evenly spaced, if there are more.
    """
    check_positive(vocab_size=vocab_size, max_sentences=max_sentences)
    check_choice("unigram", "bpe", kind=kind)
    check_choice(
        "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity", normalization=normalization
    )
    if not 0.98 <= character_coverage <= 1:
        raise ValueError(f"character_coverage must lie in 0.98 … 1; got {character_coverage=}")
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise ValueError("texts must have at least one sentence; got none")
    tokenizer = train_sentencepiece(
        evenly_spaced(texts, max_sentences),
        vocab_size,
        kind,
        normalization_rule_name=normalization,
        character_coverage=character_coverage,
        byte_fallback=byte_fallback,
    )
    if tokenizer.vocab_size < vocab_size:
        _log.warning(
            "the text supports a vocabulary of %s pieces only, not %s",
            f"{tokenizer.vocab_size:,}",
            f"{vocab_size:,}",
        )
    return tokenizer


def evenly_spaced(texts: Sequence[str], most: int) -> list[str]:
    """At most so many of the texts."""
    return list(texts[:: max(-(-len(texts) // most), 1)])  # rounded up


def train_sentencepiece(texts: Iterable[str], vocab_size: int, kind: str, **options) -> Tokenizer:
    """A tokenizer from SentencePiece's trainer and its `options`, with our special ids.

    V is smaller than `vocab_size` if the texts do not have that many pieces.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            vocab_size=vocab_size,
            model_type=kind,
            pad_id=PAD,
            bos_id=START,
            eos_id=END,
            unk_id=UNK,
            hard_vocab_limit=False,  # a smaller vocabulary instead of an error
            max_sentence_length=1 << 16,  # in bytes; longer ones are skipped silently
            num_threads=1,  # the result depends on the order of sums
            minloglevel=2,
            **options,
        )
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2]  # the rest is a line of C++
        raise ValueError(
            f"no {kind} vocabulary of {vocab_size=} can be trained: {reason}"
        ) from error
    return Tokenizer(model.getvalue())
