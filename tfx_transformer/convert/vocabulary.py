"""Vocabularies of others in our order: PAD, START, END and UNK first, all else behind, as it stood.

Only rows of their tables move, so that the model computes what it did, and everything that knows
our four ids works as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

NEVER = -1e9  # the bias of what is not to come out
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of another library by its ids, and those four.

    Args:
        tokens: all of them.
        pad, start, end, unk: their ids; None where there is none, or none with a vector. One id may
            serve twice, as in Marian, where a sentence starts with padding.
    """

    tokens: Sequence[str]
    pad: int | None
    start: int | None
    end: int
    unk: int

    @property
    def order(self) -> list[int | None]:
        """The id with them of each id with us."""
        special = [self.pad, self.start, self.end, self.unk]
        return special + [i for i in range(len(self.tokens)) if i not in special]

    @property
    def pieces(self) -> list[str]:
        """The tokens in our order; the first four have our names."""
        return [*SPECIAL, *(self.tokens[i] for i in self.order[4:] if i is not None)]

    def rows(self, table: np.ndarray) -> np.ndarray:
        """A table (their V, …) in our order; zeros for what they do not have."""
        places = [len(table) if i is None else i for i in self.order]
        return np.concatenate([table, np.zeros_like(table[:1])])[places]

    def bias(self, bias: np.ndarray, pad_comes: bool = True) -> np.ndarray:
        """(their V,) in our order; NEVER for what they do not have, or have once and we twice.

        Args:
            bias: what is added to each of their logits.
            pad_comes: whether padding takes its share of the probability with them.
        """
        order = self.order
        is_new = np.array([i is not None and i not in order[:n] for n, i in enumerate(order[:4])])
        is_new[0] &= pad_comes
        bias = self.rows(bias)
        return np.concatenate([np.where(is_new, bias[:4], NEVER), bias[4:]]).astype("float32")


@dataclass(frozen=True)
class Tables:
    """The three tables of a translator (their V, D), the bias of its logits, and what they are of.

    As `entries` they are named as the layouts of `marian.py` and `ctranslate2.py` call them.
    """

    source: np.ndarray
    target: np.ndarray
    output: np.ndarray
    bias: np.ndarray
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    pad_comes: bool = True

    @property
    def tie(self) -> str:
        """Which are one, by their numbers."""
        if not np.array_equal(self.output, self.target):
            return "none"
        one_order = self.source_vocabulary.order == self.target_vocabulary.order
        return "all" if one_order and np.array_equal(self.source, self.target) else "output"

    def options(self) -> dict[str, Any]:
        """Of a `Transformer`."""
        sizes = {
            "vocab_size": len(self.target_vocabulary.order),
            "source_vocab_size": len(self.source_vocabulary.order),
        }
        return sizes | {"tie": self.tie, "output_bias": True, "dim": self.target.shape[1]}

    def entries(self) -> dict[str, np.ndarray]:
        """In our order."""
        target = self.target_vocabulary
        found = {
            "target_table": target.rows(self.target),
            "output_bias": target.bias(self.bias, self.pad_comes),
        }
        if self.tie != "all":
            found["source_table"] = self.source_vocabulary.rows(self.source)
        if self.tie == "none":
            found["output_table"] = target.rows(self.output)
        return found


NAMES = {  # our layer → its entry above
    "source_embedding": "source_table",
    "target_embedding": "target_table",
    "head": "output_table",
    "output_bias": "output_bias",
}
