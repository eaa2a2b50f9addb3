"""Words as tokens: a vocabulary for texts of few different words."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import tensorflow as tf

from tfx_transformer.files import reading, write_file

SPECIAL = ("[PAD]", "[UNK]")
PAD, UNK = 0, 1
BETWEEN = r"[^\pL\pM\pN'’]+"  # anything but letters, digits and apostrophes


class Words(tf.Module):
    """Words of a vocabulary as ids, in small letters and without punctuation.

    Args:
        pieces: the V pieces: "[PAD]", "[UNK]", then words; also answers such as "apple,milk", which
            no sentence contains.
    """

    unk_id = UNK

    def __init__(self, pieces: Sequence[str]):
        super().__init__(name="words")
        self.pieces = list(pieces)
        self.vocab_size = len(self.pieces)
        if tuple(self.pieces[:2]) != SPECIAL or len({*self.pieces}) != self.vocab_size:
            raise ValueError(f"pieces must be {', '.join(SPECIAL)}, then different words")
        self._ids = {piece: index for index, piece in enumerate(self.pieces)}
        values = tf.range(self.vocab_size, dtype=tf.int32)
        pairs = tf.lookup.KeyValueTensorInitializer(tf.constant(self.pieces), values)
        self._table = tf.lookup.StaticHashTable(pairs, UNK)

    @classmethod
    def of(cls, texts: Iterable[str], answers: Iterable[str]) -> "Words":
        """The vocabulary of texts and answers."""
        different = list(dict.fromkeys(texts))
        found = {word.decode() for word in split_words(different).flat_values.numpy()}
        return cls([*SPECIAL, *sorted(found | set(map(normalize_answer, answers)))])

    @classmethod
    def load(cls, path: Path) -> "Words":
        with reading(path):
            pieces = json.loads(path.read_text("utf-8"))
            if not isinstance(pieces, list) or not all(isinstance(x, str) for x in pieces):
                raise ValueError("it must contain a list of words")
            return cls(pieces)

    def save(self, path: Path) -> None:
        write_file(path, json.dumps(self.pieces, ensure_ascii=False))

    def with_core_ops(self) -> "Words":
        """Itself: it has no op of tensorflow-text."""
        return self

    def encode(self, strings) -> tf.RaggedTensor:
        """Strings (B) → ids (B, ragged); also in a graph."""
        words = split_words(strings)
        return words.with_flat_values(self._table.lookup(words.flat_values))

    def encode_list(self, strings: Sequence[str]) -> list[list[int]]:
        """`encode` for Python lists."""
        return self.encode(tf.constant(list(strings), tf.string)).to_list()

    def answer_id(self, answer: str) -> int:
        """The id of a whole answer; UNK if it is not in the vocabulary."""
        return self._ids.get(normalize_answer(answer), UNK)


def normalize_answer(answer: str) -> str:
    """Small letters, without spaces at the commas."""
    return ",".join(part.strip() for part in answer.lower().split(","))


def split_words(strings) -> tf.RaggedTensor:
    """Strings (B) → their words (B, ragged) in small letters; anything else is left out."""
    lower = tf.strings.lower(tf.convert_to_tensor(strings, tf.string), "utf-8")
    return tf.strings.split(tf.strings.regex_replace(lower, BETWEEN, " "))
