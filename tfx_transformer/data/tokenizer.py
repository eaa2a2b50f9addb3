"""Text ↔ subword ids by SentencePiece (Kudo & Richardson 2018, arXiv:1808.06226).

`sentencepiece` learns the vocabulary; `tensorflow_text` runs it inside the graph, so that a
SavedModel takes and gives strings. Its two oldest ops are called directly, so that servers built
with an older tensorflow_text can load the result. tensorflow_text's SentencepieceTokenizer, and
keras_hub's around it, call the same ops, but in a graph both lose their model at the next
`keras.utils.set_random_seed` or `clear_session` (tensorflow/text issue 570); this one does not.
"""

import hashlib
import io
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece
import tensorflow as tf
from tensorflow_text.python.ops.sentencepiece_tokenizer import gen_sentencepiece_tokenizer as _ops

from tfx_transformer.checks import check_choice, check_positive

PAD, START, END, UNK = 0, 1, 2, 3

_log = logging.getLogger(__name__)


class _Model(tf.saved_model.experimental.TrackableResource):
    """A SentencePiece model inside TensorFlow, tracked and saved by the module that holds it.

    A resource without a name belongs to one cached kernel and dies when a new random seed empties
    that cache. The name is a hash, so that other models never share it.
    """

    def __init__(self, model: bytes):
        super().__init__()
        self._model = model
        _ = self.resource_handle  # made now, not inside the first graph that asks for it

    def _create_resource(self):
        name = hashlib.sha256(self._model).hexdigest()
        return _ops.sentencepiece_op(model=self._model, shared_name=name)


class Tokenizer(tf.Module):
    """A trained SentencePiece model: strings to ids and back, in Python and in the graph.

    As a `tf.Module` it is tracked by whatever module holds it, and saved along with it.

    Args:
        model: the content of a `.model` file whose special ids are PAD, START, END and UNK.
    """

    start_id, end_id = START, END

    def __init__(self, model: bytes):
        super().__init__(name="tokenizer")
        try:
            self._python = sentencepiece.SentencePieceProcessor(model_proto=model)
            found = [getattr(self._python, f"{name}_id")() for name in ("pad", "bos", "eos", "unk")]
        except RuntimeError as error:
            raise ValueError(f"model is not a SentencePiece model ({len(model)} bytes)") from error
        if found != [PAD, START, END, UNK]:
            raise ValueError(
                "a SentencePiece model must have the ids pad, bos, eos, unk = "
                f"{[PAD, START, END, UNK]}; got {found}"
            )
        self.model = model
        self._graph = _Model(model)

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Reads a `.model` file."""
        return cls(Path(path).read_bytes())

    def save(self, path: str | Path) -> None:
        """Writes a `.model` file, which every SentencePiece library reads."""
        Path(path).write_bytes(self.model)

    @property
    def vocab_size(self) -> int:
        """V, the special ids and the byte pieces included."""
        return self._python.vocab_size()

    @property
    def pieces(self) -> list[str]:
        """The V pieces; "▁" stands for the space before a word."""
        return [self.id_to_piece(index) for index in range(self.vocab_size)]

    @property
    def can_sample(self) -> bool:
        """Whether a text has several segmentations, best first: unigram models only."""
        try:
            self._python.nbest_encode_as_ids("", 1)
        except RuntimeError:
            return False
        return True

    def id_to_piece(self, index: int) -> str:
        return self._python.id_to_piece(int(index))

    def normalise(self, text: str) -> str:
        """The text as the tokenizer sees it: what decoding an encoded text gives back."""
        return self._python.normalize(text).replace("▁", " ").strip(" ")

    def encode(self, strings) -> tf.RaggedTensor:
        """Strings (B) → ids (B, ragged) int32, without START and END."""
        return self._segment(tf.convert_to_tensor(strings, tf.string))

    def decode(self, ids) -> tf.Tensor:
        """Ids (…, T), dense or ragged → strings (…). Reads up to END; drops PAD and START."""
        if isinstance(ids, tf.RaggedTensor):
            ids = ids.to_tensor(PAD)
        ids = tf.cast(ids, tf.int32)
        shape = tf.shape(ids)
        rows = tf.reshape(ids, [tf.reduce_prod(shape[:-1]), shape[-1]])
        unended = tf.cumsum(tf.cast(rows == END, tf.int32), axis=1) == 0
        kept = tf.ragged.boolean_mask(rows, unended & (rows != PAD) & (rows != START))
        strings = _ops.sentencepiece_detokenize_op(
            self._graph.resource_handle,
            kept.values,
            kept.row_splits,
            add_bos=False,
            add_eos=False,
            reverse=False,
        )
        return tf.reshape(strings, shape[:-1])

    def to_pieces(self, ids) -> tf.Tensor:
        """Ids of any shape → their pieces, strings of that shape; "" for PAD."""
        flat = tf.reshape(ids, [-1])
        pieces = _ops.sentencepiece_id_to_string_op(self._graph.resource_handle, flat)
        return tf.where(ids == PAD, "", tf.reshape(pieces, tf.shape(ids)))

    def encode_list(self, strings: Sequence[str]) -> list[list[int]]:
        """`encode` for Python lists, without TensorFlow."""
        return self._python.encode(list(strings))

    def decode_list(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """`decode` for rows of whole numbers (lists or arrays), without TensorFlow."""
        rows = [[int(index) for index in row] for row in ids]
        rows = [row[: row.index(END)] if END in row else row for row in rows]
        return self._python.decode([[i for i in row if i not in (PAD, START)] for row in rows])

    def sample(self, strings, draws, nbest: int = 16, alpha: float = 0.1, max_tokens=None):
        """Subword regularisation (Kudo 2018, arXiv:1804.10959): another segmentation every time.

        One of the `nbest` best segmentations is chosen with P ∝ P(segmentation)^alpha. The chance
        is in `draws` alone, so the result is a pure function of the arguments and does not depend
        on how strings are batched. Needs a unigram model.

        Args:
            strings: (B).
            draws: (B) numbers, evenly distributed in 0 ≤ draw < 1.
            nbest: segmentations to choose from.
            alpha: 0 chooses evenly, 1 by the model's probability, large values the best.
            max_tokens: choose only the best segmentation or one of at most so many tokens.

        Returns:
            Ids (B, ragged) int32.
        """
        check_positive(nbest=nbest)
        if not self.can_sample:
            raise ValueError("only a unigram tokenizer can be sampled; this one is of another kind")
        ids, first, count = self._segmentations(strings, nbest)
        # log P of a segmentation is the sum over its pieces.
        scores = tf.constant([self._python.get_score(i) for i in range(self.vocab_size)])
        scores = tf.reduce_sum(tf.gather(scores, ids), axis=1)

        rank = tf.range(nbest, dtype=tf.int64)
        row = tf.where(rank < count[:, None], first[:, None] + rank, 0)  # (B, nbest)
        allowed = rank < count[:, None]
        if max_tokens is not None:
            fits = tf.gather(ids.row_lengths(), row) <= tf.cast(max_tokens, tf.int64)
            allowed &= fits | (rank == 0)
        logits = tf.where(allowed, alpha * tf.gather(scores, row), float("-inf"))
        edges = tf.cumsum(tf.nn.softmax(logits), axis=1)
        passed = edges <= tf.convert_to_tensor(draws, tf.float32)[:, None] * edges[:, -1:]
        chosen = tf.reduce_sum(tf.cast(passed, tf.int64), axis=1)
        return tf.gather(ids, first + chosen)

    def _segmentations(self, strings, nbest):
        """All candidates (R, ragged), best first, and each string's first row (B) and count (B).

        A short string has fewer than `nbest`, and the op does not say how many. So an empty string
        is put behind each: its only segmentation is an empty row, which shows where one ends.
        """
        strings = tf.convert_to_tensor(strings, tf.string)
        spaced = tf.reshape(tf.stack([strings, tf.zeros_like(strings)], axis=1), [-1])
        ids = self._segment(spaced, nbest_size=nbest, return_nbest=True)

        blank = tf.where(ids.row_lengths() == 0)[:, 0]
        itself_blank = tf.cast(self._segment(strings).row_lengths() == 0, tf.int64)
        end = tf.gather(blank, tf.cumsum(1 + itself_blank) - 1)  # (B)
        first = tf.concat([[0], end + 1], axis=0)[:-1]
        return ids, first, end - first

    def _segment(self, strings, nbest_size=1, return_nbest=False) -> tf.RaggedTensor:
        values, row_splits = _ops.sentencepiece_tokenize_op(
            self._graph.resource_handle,
            strings,
            nbest_size=nbest_size,
            alpha=1.0,
            add_bos=False,
            add_eos=False,
            reverse=False,
            return_nbest=return_nbest,
        )
        return tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)


def train_tokenizer(
    texts: Iterable[str],
    vocab_size: int,
    kind: str = "unigram",
    normalisation: str = "nmt_nfkc",
    character_coverage: float = 0.9995,
    byte_fallback: bool = True,
    max_sentences: int = 1_000_000,
) -> Tokenizer:
    """Learns a vocabulary from texts; the same texts always give the same one.

    For a vocabulary shared by both languages, give it the texts of both. A text that does not
    support so many pieces gives a smaller vocabulary and a note in the log.

    Args:
        texts: sentences.
        vocab_size: V, the 4 special ids and, with `byte_fallback`, 256 bytes included.
        kind: "unigram" (can be sampled) or "bpe".
        normalisation: "nmt_nfkc", "nfkc", "nmt_nfkc_cf" or "nfkc_cf" (these fold case), "identity".
        character_coverage: the share of the text, 0.98 to 1, whose characters get a piece of
            their own; the rarest are left to `byte_fallback`.
        byte_fallback: spell unknown characters as bytes, so that no text is lost, instead of UNK.
        max_sentences: learn from so many sentences, evenly spaced, when there are more.
    """
    check_positive(vocab_size=vocab_size, max_sentences=max_sentences)
    check_choice("unigram", "bpe", kind=kind)
    check_choice(
        "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity", normalisation=normalisation
    )
    if not 0.98 <= character_coverage <= 1:
        raise ValueError(f"character_coverage must lie in 0.98 … 1; got {character_coverage=}")
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise ValueError("texts must hold at least one sentence; got none")
    step = -(-len(texts) // max_sentences)  # rounded up
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts[::step]),
            model_writer=model,
            vocab_size=vocab_size,
            model_type=kind,
            normalization_rule_name=normalisation,
            character_coverage=character_coverage,
            byte_fallback=byte_fallback,
            pad_id=PAD,
            bos_id=START,
            eos_id=END,
            unk_id=UNK,
            hard_vocab_limit=False,  # a smaller vocabulary instead of an error
            max_sentence_length=1 << 16,  # in bytes; longer ones are left out silently
            num_threads=1,  # the order of sums, and so the result, depends on it
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2]  # the rest names a line of C++
        raise ValueError(
            f"no {kind} vocabulary of vocab_size={vocab_size} can be learned from "
            f"{len(texts):,} sentences: {reason}"
        ) from error
    tokenizer = Tokenizer(model.getvalue())
    if tokenizer.vocab_size < vocab_size:
        _log.warning(
            "the text supports a vocabulary of %s pieces only, not %s",
            f"{tokenizer.vocab_size:,}",
            f"{vocab_size:,}",
        )
    return tokenizer
