"""Layouts: the names and shapes of our weights in the checkpoints of another library."""

import re
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from keras import ops

KERNEL_AXES = {2: (1, 0), 4: (3, 2, 0, 1)}  # (in, out) and (P, P, C, D) in PyTorch's order
TORCH = {"kernel": "weight", "bias": "bias", "scale": "weight", "offset": "bias"}
QKV = ("query", "key", "value")
PARTS = {"query": ["query"], "key_value": ["key", "value"]}  # of our layers in checkpoints
FLAX = {"kernel": "kernel", "bias": "bias", "scale": "scale", "offset": "bias"}
KERAS = {"kernel": "vars/0", "bias": "vars/1", "scale": "vars/0", "offset": "vars/1"}
KERAS |= {"tokens": "vars/0", "table": "vars/0"}  # single weights of a layer


TIMM_BLOCK = {
    "self_norm": "{block}norm1.{leaf}",
    "self_attention/qkv": "{block}attn.qkv.{leaf}[{part}]",
    "self_attention/output": "{block}attn.proj.{leaf}",
    "mlp_norm": "{block}norm2.{leaf}",
    "mlp/up": "{block}mlp.fc1.{leaf}",
    "mlp/down": "{block}mlp.fc2.{leaf}",
}
HUGGING_FACE_BLOCK = {
    "self_norm": "{block}layernorm_before.{leaf}",
    "self_attention/qkv": "{block}attention.self.{part}.{leaf}",
    "self_attention/output": "{block}attention.output.dense.{leaf}",
    "mlp_norm": "{block}layernorm_after.{leaf}",
    "mlp/up": "{block}intermediate.dense.{leaf}",
    "mlp/down": "{block}output.dense.{leaf}",
}
HUGGING_FACE_5_BLOCK = {
    "self_attention/qkv": "{block}attention.{part[0]}_proj.{leaf}",
    "self_attention/output": "{block}attention.o_proj.{leaf}",
    "mlp/up": "{block}mlp.fc1.{leaf}",
    "mlp/down": "{block}mlp.fc2.{leaf}",
}
KERAS_BLOCK = {  # of keras-hub's TransformerEncoder and TransformerDecoder
    "self_norm": "{block}_self_attention_layer_norm/{leaf}",
    "self_attention/qkv": "{block}_self_attention_layer/{part}_dense/{leaf}",
    "self_attention/output": "{block}_self_attention_layer/output_dense/{leaf}",
    "mlp_norm": "{block}_feedforward_layer_norm/{leaf}",
    "mlp/up": "{block}_feedforward_intermediate_dense/{leaf}",
    "mlp/down": "{block}_feedforward_output_dense/{leaf}",
}


@dataclass(frozen=True)
class Layout:
    """A family of checkpoints; subclasses handle what names alone cannot express.

    Args:
        family: its name.
        pattern: a regular expression that matches the start of at least one name in every such
            checkpoint; its group is the prefix of all names of the encoder.
        block: how the names of block {i} start.
        head: how the names above the encoder start.
        names: our layer → its name, with one of `leaves` as {leaf} and, for query and key_value of
            an attention, or qkv for both, one of `QKV` as {part}.
        leaves: the last part of our weights' names → theirs.
        transposed: whether kernels are stored as (out, in), as in PyTorch.
        by_head: whether weights of attention have an axis of heads, as in Flax and Keras.
        fused: part of the name of an array that holds several weights → the names of these.
        fused_axis: the axis along which they are concatenated.
        tied: the name of an output layer, and of the embedding table that it must be equal to.
        unused: a regular expression of names that the logits do not depend on.
        prefix: what the group of `pattern` matched.
        model_head: how the names of our weights above the encoder start.
    """

    family: str
    pattern: str
    block: str
    head: tuple[str, ...]
    names: dict[str, str]
    leaves: dict[str, str] = field(default_factory=lambda: TORCH)
    transposed: bool = True
    by_head: bool = False
    fused: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fused_axis: int = 0
    tied: tuple[str, str] | None = None
    unused: str = "(?!)"
    prefix: str = ""
    model_head: tuple[str, ...] = ("head", "importance/")

    def for_model(self, weights, model) -> Self:
        """The layout of these weights for this model; refuses an output layer that is not tied."""
        if self.tied:
            output, table = (name.format(prefix=self.prefix) for name in self.tied)
            both = {output, table} <= weights.keys()
            if both and not np.array_equal(weights[output], weights[table]):
                raise ValueError(f"{output} must be equal to {table}, as in our model; it differs")
        return self

    def block_fields(self, kind: str, number: int, model) -> dict[str, Any]:
        """The values of the {fields} in names, for our layer `{kind}_{number}`."""
        return {"kind": kind, "i": number, "count": keras_count(number)}

    def split(self, name: str, array: np.ndarray, model) -> dict[str, np.ndarray]:
        """An array of the checkpoint, or the weights that are fused in it."""
        for part, names in self.fused.items():
            if part in name:
                arrays = np.array_split(array, len(names), self.fused_axis)
                return {f"{name}[{key}]": x for key, x in zip(names, arrays, strict=True)}
        return {name: array}

    def axes(self, weight: str, rank: int) -> tuple[int, ...]:
        """The axes of our weight in the order of the checkpoint."""
        is_transposed = self.transposed and weight.endswith("/kernel")
        return KERNEL_AXES[rank] if is_transposed else tuple(range(rank))

    def stored_shape(self, weight: str, shape: tuple[int, ...], model) -> tuple[int, ...]:
        """The shape in the checkpoint of a weight that has this shape in our model."""
        if self.by_head and "/self_attention/" in weight:
            heads, axis = (
                model.num_heads,
                0 if weight.endswith("/output/kernel") else len(shape) - 1,
            )
            if not weight.endswith("/output/bias"):
                return *shape[:axis], heads, shape[axis] // heads, *shape[axis + 1 :]
        return tuple(shape[axis] for axis in self.axes(weight, len(shape)))

    def unexpected_hint(self, name: str) -> str:
        """Advice for an array without a counterpart in the model."""
        return ""

    def stored_names(self, weight: str, model) -> list[str]:
        """ "block_0/mlp/up/kernel" → ["blocks.0.mlp.fc1.weight"]; [] if the family has none."""
        blocks = r"^(?:(block|merge|encoder|decoder)_(\d+)/)?(.+)"
        kind, number, rest = re.findall(blocks, weight)[0]
        layer, _, leaf = rest.rpartition("/")
        fields = {"prefix": self.prefix, "leaf": self.leaves.get(leaf)}
        if kind:
            fields |= self.block_fields(kind, int(number), model)
            fields["block"] = self.block.format(**fields)
        layer = layer or leaf
        parent, _, last = layer.rpartition("/")
        if last in PARTS and layer not in self.names:
            layer = f"{parent}/qkv"
        if layer not in self.names:
            return []
        return [self.names[layer].format(part=part, **fields) for part in PARTS.get(last, [""])]

    def pop_weight(self, arrays: dict[str, np.ndarray], weight: str, shape, model):
        """Removes the arrays of one of our weights → its value, or None, and a list of problems."""
        names, shape = self.stored_names(weight, model), list(shape)
        if not names:
            return None, [f"{weight} of the model has no counterpart in {self.family} weights"]
        axis = -1 if "key_value" in weight else 0
        shape[axis] //= len(names)
        stored = self.stored_shape(weight, tuple(shape), model)
        parts, problems = [], []
        for name in names:
            array = arrays.pop(name, None)
            if array is None:
                problems.append(f"{name} is missing, must be {stored} for {weight}")
            elif array.shape != stored:
                problems.append(f"{name} must be {stored} for {weight}; got {array.shape}")
            else:
                if array.ndim == len(shape):
                    array = array.transpose(np.argsort(self.axes(weight, array.ndim)))
                parts.append(array.reshape(shape).astype("float32"))
        return None if problems else np.concatenate(parts, axis), problems

    def stored_arrays(self, weights: dict[str, Any], model) -> dict[str, np.ndarray]:
        """Our weights by name → the arrays of a checkpoint, where the family has them."""
        arrays: dict[str, list[np.ndarray]] = {}
        for weight, variable in weights.items():
            value = np.array(ops.convert_to_numpy(variable), "float32")
            value = value.transpose(self.axes(weight, value.ndim))
            names = self.stored_names(weight, model)
            for name, part in zip(names, np.split(value, len(names) or 1), strict=False):
                arrays.setdefault(name.partition("[")[0], []).append(part)  # fused parts in order
        return {name: np.concatenate(parts) for name, parts in arrays.items()}


def keras_count(number: int) -> str:
    """What Keras appends to the name of the nth layer of a class: "", "_1", "_2", …"""
    return f"_{number}" if number else ""
