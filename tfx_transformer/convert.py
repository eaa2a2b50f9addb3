"""Loads a ViT that others trained: checkpoints of timm, Hugging Face and Google's AugReg.

    model = create_model("vit", "b16", num_classes=1000)
    load_vit_weights(model, "model.safetensors")

A checkpoint does not say how it is computed. The numbers are the same with these options of `ViT`:

    family          activation     norm
    timm            "gelu"         {"kind": "layer", "epsilon": 1e-6}, the default
    Hugging Face    "gelu"         {"kind": "layer", "epsilon": 1e-12}
    AugReg          "gelu_tanh"    {"kind": "layer", "epsilon": 1e-6}

timm's LayerScale needs `layer_scale`, its mean over patches `num_tokens=0`, a distilled DeiT
`num_tokens=2`. Only AugReg files tell the number of heads: elsewhere a wrong one goes unseen.
"""

import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from tfx_transformer.layers.position import LearnedPosition

PICKLED = (".bin", ".ckpt", ".pkl", ".pt", ".pth", ".tar")
MOST_LINES = 8  # of an error
HEAD = ("head_", "importance/")  # how our weights above the encoder begin
PARTS = {"tokens": ("token", "second token"), "self_attention/key_value": ("key", "value")}
AXES = {2: (1, 0), 4: (3, 2, 0, 1)}  # our kernels (in, out) and (P, P, C, D) in PyTorch's order


@dataclass(frozen=True)
class Layout:
    """How a family names what we have.

    Args:
        family: its name.
        mark: a pattern that some entry matches; its group is how all of the encoder begins.
        block: how the entries of block {i} begin.
        head: how the entries above the encoder begin.
        position: the position table, of which [tokens] and [patches] are parts.
        names: our layer, or a part of it as in `PARTS` → its entry; the {leaf} is one of `leaves`.
        leaves: the words for kernel, bias, scale and offset.
        unused: how entries begin on which no class logit depends.
        torch: whether kernels are (out, in) and heads lie side by side, or (in, H, K) as in Flax.
        begin: what was found for the group of `mark`.
    """

    family: str
    mark: str
    block: str
    head: tuple[str, ...]
    position: str
    names: dict[str, str]
    leaves: dict[str, str]
    unused: tuple[str, ...] = ()
    torch: bool = True
    begin: str = ""

    def entries(self, weight: str) -> list[str]:
        """ "block_0/mlp/up/kernel" → ["blocks.0.mlp.fc1.weight"]; [] where the family has none."""
        number, rest = re.findall(r"^(?:block_(\d+)/)?(.+)", weight)[0]
        layer, _, leaf = rest.rpartition("/")
        words = {
            "begin": self.begin,
            "block": self.block.format(begin=self.begin, i=number),
            "leaf": self.leaves.get(leaf),
            "position": self.position.format(begin=self.begin),
        }
        parts = PARTS.get(layer or leaf, (layer or leaf,))
        names = {"token_place": "{position}[tokens]", "place": "{position}[patches]"} | self.names
        return [names[part].format(**words) for part in parts if part in names]


TIMM = Layout(
    family="timm",
    mark=r"()blocks\.\d+\.attn\.",
    block="blocks.{i}.",
    head=("head.", "head_dist.", "pre_logits."),
    position="pos_embed",
    names={
        "patches": "patch_embed.proj.{leaf}",
        "token": "cls_token",
        "second token": "dist_token",
        "self_norm": "{block}norm1.{leaf}",
        "self_attention/query": "{block}attn.qkv.{leaf}[query]",
        "key": "{block}attn.qkv.{leaf}[key]",
        "value": "{block}attn.qkv.{leaf}[value]",
        "self_attention/output": "{block}attn.proj.{leaf}",
        "self_scale": "{block}ls1.gamma",
        "mlp_norm": "{block}norm2.{leaf}",
        "mlp/up": "{block}mlp.fc1.{leaf}",
        "mlp/down": "{block}mlp.fc2.{leaf}",
        "mlp_scale": "{block}ls2.gamma",
        "last_norm": "norm.{leaf}",
        "head_0": "head.{leaf}",
        "head_1": "head_dist.{leaf}",
    },
    leaves={"kernel": "weight", "bias": "bias", "scale": "weight", "offset": "bias"},
)
HUGGING_FACE = Layout(  # the files of every version
    family="Hugging Face",
    mark=r"(vit\.|deit\.|)encoder\.layer\.\d+\.attention\.",
    block="{begin}encoder.layer.{i}.",
    head=("classifier.", "cls_classifier.", "distillation_classifier."),
    position="{begin}embeddings.position_embeddings",
    names={
        "patches": "{begin}embeddings.patch_embeddings.projection.{leaf}",
        "token": "{begin}embeddings.cls_token",
        "second token": "{begin}embeddings.distillation_token",
        "self_norm": "{block}layernorm_before.{leaf}",
        "self_attention/query": "{block}attention.attention.query.{leaf}",
        "key": "{block}attention.attention.key.{leaf}",
        "value": "{block}attention.attention.value.{leaf}",
        "self_attention/output": "{block}attention.output.dense.{leaf}",
        "mlp_norm": "{block}layernorm_after.{leaf}",
        "mlp/up": "{block}intermediate.dense.{leaf}",
        "mlp/down": "{block}output.dense.{leaf}",
        "last_norm": "{begin}layernorm.{leaf}",
        "head_0": "classifier.{leaf}",
        "head_1": "distillation_classifier.{leaf}",
    },
    leaves=TIMM.leaves,
    unused=("vit.pooler.", "deit.pooler.", "pooler."),
)
HUGGING_FACE_5 = replace(  # the state dict of version 5
    HUGGING_FACE,
    mark=r"(vit\.|deit\.|)layers\.\d+\.attention\.",
    block="{begin}layers.{i}.",
    names=HUGGING_FACE.names
    | {
        "self_attention/query": "{block}attention.q_proj.{leaf}",
        "key": "{block}attention.k_proj.{leaf}",
        "value": "{block}attention.v_proj.{leaf}",
        "self_attention/output": "{block}attention.o_proj.{leaf}",
        "mlp/up": "{block}mlp.fc1.{leaf}",
        "mlp/down": "{block}mlp.fc2.{leaf}",
    },
)
AUGREG = Layout(
    family="AugReg",
    mark=r"()Transformer/encoderblock_\d+/",
    block="Transformer/encoderblock_{i}/",
    head=("head/", "pre_logits/"),
    position="Transformer/posembed_input/pos_embedding",
    names={
        "patches": "embedding/{leaf}",
        "token": "cls",
        "self_norm": "{block}LayerNorm_0/{leaf}",
        "self_attention/query": "{block}MultiHeadDotProductAttention_1/query/{leaf}",
        "key": "{block}MultiHeadDotProductAttention_1/key/{leaf}",
        "value": "{block}MultiHeadDotProductAttention_1/value/{leaf}",
        "self_attention/output": "{block}MultiHeadDotProductAttention_1/out/{leaf}",
        "mlp_norm": "{block}LayerNorm_2/{leaf}",
        "mlp/up": "{block}MlpBlock_3/Dense_0/{leaf}",
        "mlp/down": "{block}MlpBlock_3/Dense_1/{leaf}",
        "last_norm": "Transformer/encoder_norm/{leaf}",
        "head_0": "head/{leaf}",
    },
    leaves={"kernel": "kernel", "bias": "bias", "scale": "scale", "offset": "bias"},
    torch=False,
)
LAYOUTS = (TIMM, HUGGING_FACE, HUGGING_FACE_5, AUGREG)


def read_weights(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a `.safetensors` or `.npz` file by name; no code in a file is ever run."""
    path = Path(path)
    if path.suffix in PICKLED:
        raise ValueError(
            f"{path} may be a pickle, which can run any code when it is read. Where you trust it: "
            f"safetensors.torch.save_file(torch.load({path.name!r}, weights_only=True), "
            f"{path.with_suffix('.safetensors').name!r})"
        )
    if path.suffix not in (".safetensors", ".npz"):
        raise ValueError(f"weights must be a .safetensors or .npz file; got {path}")
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    if path.suffix == ".npz":
        with np.load(path) as file:
            return dict(file)
    from safetensors.numpy import load_file

    return load_file(path)


def load_vit_weights(
    model: Any, weights: str | Path | Mapping[str, np.ndarray], head: bool = True
) -> list[str]:
    """Fills a `ViT` from a checkpoint, whole or not at all.

    Positions learned for images of another size are resized, as the model does by itself.

    Args:
        model: the ViT, with the checkpoint's sizes; see the top of this file.
        weights: a file for `read_weights`, or the arrays by name.
        head: whether to load the head too; False for another number of classes.

    Returns:
        The names of the model's weights that were left as they were.
    """
    if not isinstance(weights, Mapping):
        weights = read_weights(weights)
    if not model.built:
        model.build((None, model.image_size, model.image_size, model.channels))
    layout = _find_layout(weights)
    ignored = layout.unused if head else layout.unused + layout.head
    entries = _cut({k: v for k, v in weights.items() if not k.startswith(ignored)}, layout, model)
    ready, left, problems = [], [], []
    root = posixpath.commonpath([weight.path for weight in model.weights])
    for weight in model.weights:
        name = posixpath.relpath(weight.path, root)
        above = name.startswith(HEAD)
        if above and not head:
            left.append(name)
            continue
        array, wrong = _take(entries, layout, name, weight.shape, model.num_heads)
        ready.append((weight, array))
        problems += [f"{line}; head=False leaves it" if above else line for line in wrong]
    for name, array in entries.items():
        line = f"{name} {array.shape} has no place in the model"
        if name.startswith("fc_norm."):
            line += ", which normalises before the mean over patches, not after it"
        problems.append(line)
    if problems:
        more = len(problems) - MOST_LINES
        raise ValueError(
            f"the {layout.family} weights do not fit the model:\n  "
            + "\n  ".join(problems[:MOST_LINES])
            + (f"\n  and {more} more" if more > 0 else "")
        )
    for weight, array in ready:
        weight.assign(array)
    return left


def _find_layout(weights) -> Layout:
    for layout in LAYOUTS:
        for name in weights:
            if match := re.match(layout.mark, name):
                names = layout.names
                if "cls_classifier.weight" in weights:  # beside a distillation_classifier
                    names = names | {"head_0": "cls_classifier.{leaf}"}
                return replace(layout, begin=match[1], names=names)
    known = ", ".join(dict.fromkeys(layout.family for layout in LAYOUTS))
    raise ValueError(f"unknown ViT weights; known: {known}; got {', '.join(list(weights)[:3])}, …")


def _cut(weights, layout, model) -> dict[str, np.ndarray]:
    """The entries in float32, those cut apart that hold several of our weights."""
    entries: dict[str, np.ndarray] = {}
    for name, array in weights.items():
        array = np.asarray(array, "float32")
        if name == layout.position.format(begin=layout.begin):
            entries |= _cut_positions(name, array, model)
        elif ".attn.qkv." in name:
            query, key, value = np.array_split(array, 3)
            entries |= {f"{name}[query]": query, f"{name}[key]": key, f"{name}[value]": value}
        else:
            entries[name] = array
    return entries


def _cut_positions(name, array, model) -> dict[str, np.ndarray]:
    """(1, tokens + n, D) → of the tokens (tokens, D), of the patches (N, D) in the model's grid.

    Where there are only n, as in DeiT III, the tokens have no positions: zeros.
    """
    tokens = model.num_tokens
    length = array.shape[1] if array.ndim == 3 and len(array) == 1 else 0
    for skip in (tokens, 0):
        side = math.isqrt(max(length - skip, 0))
        if side and side * side == length - skip:
            break
    else:
        raise ValueError(
            f"{name} must be (1, N, D) with a square of patches, after num_tokens={tokens} rows or "
            f"alone; got {array.shape}"
        )
    grid = model.grid((None, model.image_size, model.image_size, model.channels))
    patches = LearnedPosition(side * side, (side, side)).resize(array[0, skip:], grid)
    entries = {f"{name}[patches]": ops.convert_to_numpy(patches)}
    if tokens:
        places = array[0, :tokens]
        entries[f"{name}[tokens]"] = places if skip else np.zeros_like(places)
    return entries


def _take(entries, layout, name, shape, num_heads):
    """Takes out of the entries what our weight is made of → the weight's value, what is wrong."""
    sources, axis, shape = layout.entries(name), -1, list(shape)
    if name == "tokens/tokens":
        sources, axis = sources[: shape[0]], 0
    if not sources:
        return None, [f"{name} of the model has no counterpart in {layout.family} weights"]
    shape[axis] //= len(sources)
    stored = _stored_shape(layout, name, tuple(shape), num_heads)
    parts, wrong = [], []
    for source in sources:
        array = entries.pop(source, None)
        if array is None:
            wrong.append(f"{source} is missing, must be {stored} for {name}")
        elif array.shape != stored:
            wrong.append(f"{source} must be {stored} for {name}; got {array.shape}")
        else:
            if layout.torch and name.endswith("/kernel"):
                array = array.transpose(np.argsort(AXES[array.ndim]))
            parts.append(array.reshape(shape))
    return None if wrong else np.concatenate(parts, axis), wrong


def _stored_shape(layout, name, shape, num_heads):
    """The shape in a checkpoint of what has this shape with us."""
    if name == "tokens/tokens":
        return (1, *shape)
    if layout.torch:
        return tuple(shape[i] for i in AXES[len(shape)]) if name.endswith("/kernel") else shape
    if name.endswith("self_attention/output/kernel"):
        return (num_heads, shape[0] // num_heads, shape[1])
    if "/self_attention/" in name and "/output/" not in name:
        return (*shape[:-1], num_heads, shape[-1] // num_heads)
    return shape
