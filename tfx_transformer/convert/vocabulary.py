"""Vocabularies of other libraries in our order: PAD, START, END, UNK, then all others as they are.

Only rows of embedding tables move: the model computes the same, and code that uses our four special
ids works unchanged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.data.text.piece_tokenizer import PieceTokenizer
from tfx_transformer.decoding.constraints import MASKED
from tfx_transformer.files import reading

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")


@dataclass(frozen=True)
class Vocabulary:
    """The vocabulary of another library, with the ids of the special tokens.

    Args:
        tokens: all tokens in the order of their ids.
        pad, start, end, unk: ids; None if there is no such token, or no embedding of it. Two may be
            equal, as in Marian, where a sentence starts with padding.
    """

    tokens: Sequence[str]
    pad: int | None
    start: int | None
    end: int
    unk: int

    def __post_init__(self):
        if not all(isinstance(token, str) for token in self.tokens):
            raise ValueError("the tokens of a vocabulary must be strings")
        for index in (self.pad, self.start, self.end, self.unk):
            if index is not None and index not in range(len(self.tokens)):
                raise ValueError(f"special ids must lie in the vocabulary; got {index!r:.80}")

    @property
    def order(self) -> list[int | None]:
        """Their id for each of our ids."""
        special = [self.pad, self.start, self.end, self.unk]
        return special + [i for i in range(len(self.tokens)) if i not in special]

    @property
    def pieces(self) -> list[str]:
        """The tokens in our order; the first four have our names."""
        return [*SPECIAL, *(self.tokens[i] for i in self.order[4:] if i is not None)]

    def tokenizer(self, path: Path, splitter: str = "sentencepiece", **options) -> PieceTokenizer:
        """The tokenizer of these pieces; for the splitter "sentencepiece" with the model `path`."""
        if splitter != "sentencepiece":
            return PieceTokenizer(self.pieces, splitter)
        with reading(path):
            return PieceTokenizer(self.pieces, path.read_bytes(), **options)

    def rows(self, table: np.ndarray) -> np.ndarray:
        """A table (their V, …) in our order; zeros for tokens that they do not have."""
        indices = [len(table) if i is None else i for i in self.order]
        return np.concatenate([table, np.zeros_like(table[:1])])[indices]

    def bias(self, bias: np.ndarray, predicts_pad: bool = True) -> np.ndarray:
        """The bias of their logits (their V,) in our order; MASKED for tokens that they lack or
        share, and for padding if it has no probability in their softmax."""
        order = self.order
        is_new = np.array([i is not None and i not in order[:n] for n, i in enumerate(order[:4])])
        is_new[0] &= predicts_pad
        bias = self.rows(bias)
        return np.concatenate([np.where(is_new, bias[:4], MASKED), bias[4:]]).astype("float32")


@dataclass(frozen=True)
class EmbeddingTables:
    """The embedding tables of a translator (their V, D), its output bias, and its vocabularies."""

    source: np.ndarray
    target: np.ndarray
    output: np.ndarray
    bias: np.ndarray
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    predicts_pad: bool = True

    @property
    def tie(self) -> str:
        """Which tables are equal, as the option of `Transformer`."""
        if not np.array_equal(self.output, self.target):
            return "none"
        same_order = self.source_vocabulary.order == self.target_vocabulary.order
        return "all" if same_order and np.array_equal(self.source, self.target) else "output"

    def options(self) -> dict[str, Any]:
        """Options of `Transformer` that follow from the tables."""
        return {
            "vocab_size": len(self.target_vocabulary.order),
            "source_vocab_size": len(self.source_vocabulary.order),
            "tie": self.tie,
            "output_bias": True,
            "dim": self.target.shape[1],
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The tables in our order, named as in `TABLE_NAMES`."""
        target = self.target_vocabulary
        arrays = {
            "target_table": target.rows(self.target),
            "output_bias": target.bias(self.bias, self.predicts_pad),
        }
        if self.tie != "all":
            arrays["source_table"] = self.source_vocabulary.rows(self.source)
        if self.tie == "none":
            arrays["output_table"] = target.rows(self.output)
        return arrays


TABLE_NAMES = {  # our layer → its array above
    "source_embedding": "source_table",
    "target_embedding": "target_table",
    "head": "output_table",
    "output_bias": "output_bias",
}
