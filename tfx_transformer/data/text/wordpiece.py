"""WordPiece tokenizer for BERT checkpoints.

A checkpoint comes with `vocab.txt`, a piece in each line, and often with `tokenizer_config.json`,
whose `do_lower_case` and `strip_accents` are read. tensorflow_text tokenizes in Python and in the
graph: it cleans the text, splits it at spaces, punctuation and Chinese characters, and takes the
longest matching pieces from the left.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
import tensorflow_text

from tfx_transformer.files import read_json, reading, write_file

PAD = 0  # the padding id of all models
FILES = "vocab.txt", "tokenizer_config.json"


class WordPiece(tf.Module):
    """WordPiece tokenizer of BERT, with the interface of `Tokenizer`, but without decoding.

    Args:
        pieces: the V pieces; those inside a word begin with "##".
        lower_case: whether to convert to lower case.
        strip_accents: whether to remove accents; None: if `lower_case`.
    """

    def __init__(
        self, pieces: Sequence[str], lower_case: bool = True, strip_accents: bool | None = None
    ):
        super().__init__(name="wordpiece")
        self.pieces, self.lower_case = list(pieces), lower_case
        self.strip_accents = lower_case if strip_accents is None else strip_accents
        self.vocab_size = len(self.pieces)
        ids = {piece: index for index, piece in enumerate(self.pieces)}
        for piece in ("[UNK]", "[CLS]", "[SEP]"):
            if piece not in ids:
                raise ValueError(f"pieces must include {piece}; got {self.pieces[:5]} …")
        if self.pieces[PAD] != "[PAD]":
            raise ValueError(f"the first piece must be [PAD]; got {self.pieces[PAD]!r}")
        self.start_id, self.end_id, self.unk_id = ids["[CLS]"], ids["[SEP]"], ids["[UNK]"]
        self._split = tensorflow_text.FastBertTokenizer(
            self.pieces,
            token_out_type=tf.int32,
            lower_case_nfd_strip_accents=self.lower_case and self.strip_accents,
        )

    @classmethod
    def load(cls, folder: str | Path) -> "WordPiece":
        """Reads `vocab.txt` and, if it exists, `tokenizer_config.json`."""
        vocab, config = (Path(folder) / name for name in FILES)
        if not vocab.is_file():
            raise FileNotFoundError(f"no such file: {vocab}")
        options = read_json(config) if config.is_file() else {}
        flags = options.get("do_lower_case", True), options.get("strip_accents")
        if not isinstance(flags[0], bool) or flags[1] not in (True, False, None):
            raise ValueError(f"{config}: do_lower_case and strip_accents must be true or false")
        with reading(vocab):
            pieces = vocab.read_text("utf-8").removesuffix("\n").split("\n")
            return cls(pieces, *flags)

    def save(self, folder: str | Path) -> None:
        """Writes both files."""
        vocab, config = (Path(folder) / name for name in FILES)
        write_file(vocab, "\n".join(self.pieces) + "\n")
        flags = {"do_lower_case": self.lower_case, "strip_accents": self.strip_accents}
        write_file(config, json.dumps(flags))

    def with_core_ops(self) -> "WordPiece":
        raise ValueError("tokenizer must be text for WordPiece, which needs tensorflow-text")

    def encode(self, strings) -> tf.RaggedTensor:
        """Strings (B) → ids (B, ragged) int32, without [CLS] and [SEP]."""
        strings = tf.strings.regex_replace(strings, "[\ufffd\\x00]", "")  # as BERT's code does
        if self.strip_accents and not self.lower_case:
            strings = tensorflow_text.normalize_utf8(strings, "NFD")
            strings = tf.strings.regex_replace(strings, r"\p{Mn}", "")
        if self.lower_case and not self.strip_accents:
            strings = tf.strings.regex_replace(strings, "Σ", "σ")  # also at the end of a word
            strings = tf.strings.lower(strings, "utf-8")
        return self._split.tokenize(strings)

    def encode_list(self, strings: Sequence[str]) -> list[list[int]]:
        """`encode` for Python lists."""
        return self.encode(tf.constant(list(strings), tf.string)).to_list()
