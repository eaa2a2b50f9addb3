"""How another library names and shapes what we have."""

import re
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

PARTS = {  # ours that others keep apart
    "self_attention/key_value": ("key", "value"),
    "cross_attention/key_value": ("cross_key", "cross_value"),
}
AXES = {2: (1, 0), 4: (3, 2, 0, 1)}  # our kernels (in, out) and (P, P, C, D) in PyTorch's order
TORCH = {"kernel": "weight", "bias": "bias", "scale": "weight", "offset": "bias"}
FLAX = {"kernel": "kernel", "bias": "bias", "scale": "scale", "offset": "bias"}


@dataclass(frozen=True)
class Layout:
    """A family of checkpoints; a model whose weights need more than names has a subclass.

    Args:
        family: its name.
        mark: a pattern that some entry matches; its group is how all of the encoder begins.
        block: how the entries of block {i} begin.
        head: how the entries above the encoder begin.
        names: our layer, or a part of it as in `PARTS` → its entry; the {leaf} is one of `leaves`.
        leaves: the words for kernel, bias, scale and offset; of PyTorch, whose kernels are
            (out, in), or of Flax.
        unused: a pattern of entries on which no class logit depends.
        begin: what was found for the group of `mark`.
    """

    family: str
    mark: str
    block: str
    head: tuple[str, ...]
    names: dict[str, str]
    leaves: dict[str, str] = field(default_factory=lambda: TORCH)
    unused: str = "(?!)"
    begin: str = ""

    def adapt(self, weights, model) -> Self:
        """The layout of these weights for this model."""
        return self

    def words(self, kind: str, number: int, model) -> dict[str, Any]:
        """What the numbers in an entry are; of our layer {kind}_{number}."""
        return {"i": number}

    def cut(self, name: str, array: np.ndarray, model) -> dict[str, np.ndarray]:
        """An entry, or its parts if it holds several of our weights."""
        if ".attn.qkv." not in name:
            return {name: array}
        query, key, value = np.array_split(array, 3)
        return {f"{name}[query]": query, f"{name}[key]": key, f"{name}[value]": value}

    def stored_shape(self, weight: str, shape: tuple[int, ...], model) -> tuple[int, ...]:
        """The shape in a checkpoint of what has this shape with us."""
        if self.is_turned(weight):
            return tuple(shape[i] for i in AXES[len(shape)])
        return shape

    def joined_axis(self, weight: str) -> int:
        """Along which the parts of our weight lie."""
        return -1

    def hint(self, name: str) -> str:
        """What helps if this entry has no place in the model."""
        return ""

    def is_turned(self, weight: str) -> bool:
        """Whether the axes stand in another order."""
        return self.leaves is TORCH and weight.endswith("/kernel")

    def sources(self, weight: str, model) -> list[str]:
        """ "block_0/mlp/up/kernel" → ["blocks.0.mlp.fc1.weight"]; [] where the family has none."""
        blocks = r"^(?:(block|merge|encoder|decoder)_(\d+)/)?(.+)"
        kind, number, rest = re.findall(blocks, weight)[0]
        layer, _, leaf = rest.rpartition("/")
        words = {"begin": self.begin, "leaf": self.leaves.get(leaf)}
        if kind:
            words |= self.words(kind, int(number), model)
            words["block"] = self.block.format(**words)
        parts = PARTS.get(layer or leaf, (layer or leaf,))
        return [self.names[part].format(**words) for part in parts if part in self.names]

    def take(self, entries: dict[str, np.ndarray], weight: str, shape, model):
        """Takes out of the entries what our weight is made of → its value, what is wrong."""
        sources, shape = self.sources(weight, model), list(shape)
        if not sources:
            return None, [f"{weight} of the model has no counterpart in {self.family} weights"]
        axis = self.joined_axis(weight)
        shape[axis] //= len(sources)
        stored = self.stored_shape(weight, tuple(shape), model)
        parts, wrong = [], []
        for source in sources:
            array = entries.pop(source, None)
            if array is None:
                wrong.append(f"{source} is missing, must be {stored} for {weight}")
            elif array.shape != stored:
                wrong.append(f"{source} must be {stored} for {weight}; got {array.shape}")
            else:
                if self.is_turned(weight):
                    array = array.transpose(np.argsort(AXES[array.ndim]))
                parts.append(array.reshape(shape))
        return None if wrong else np.concatenate(parts, axis), wrong
