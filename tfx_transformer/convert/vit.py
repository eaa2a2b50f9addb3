"""ViT and DeiT checkpoints from timm, Hugging Face, Google's AugReg and keras-hub.

Options of `ViT` that reproduce their outputs:

    family          activation     norm
    timm            "gelu"         {"kind": "layer", "epsilon": 1e-6}, the default
    Hugging Face    "gelu"         {"kind": "layer", "epsilon": 1e-12}
    AugReg          "gelu_tanh"    {"kind": "layer", "epsilon": 1e-6}
    keras-hub       "gelu"         {"kind": "layer", "epsilon": 1e-6}

timm's LayerScale needs `layer_scale`, a distilled DeiT `num_tokens=2`, a model without class token
`num_tokens=0`. timm's global_pool="avg" is `pool="mean_first"` if the file has an `fc_norm`, else
`pool="mean"`, also with class tokens. Only AugReg files contain the number of heads: elsewhere a
wrong `num_heads` is not detected. Learned positions of another image size are resized.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from keras import ops

from tfx_transformer.convert.layout import (
    FLAX,
    HUGGING_FACE_5_BLOCK,
    HUGGING_FACE_BLOCK,
    KERAS,
    QKV,
    TIMM_BLOCK,
    Layout,
)
from tfx_transformer.layers.position import LearnedPosition


@dataclass(frozen=True)
class ViTLayout(Layout):
    """Splits position embeddings into [tokens] and [patches], joins class tokens; heads of Flax."""

    def for_model(self, weights, model):
        names = dict(self.names)
        if "cls_classifier.weight" in weights:  # beside a distillation_classifier
            names["head_0"] = "cls_classifier.{leaf}"
        mean_norm = names.pop("mean_norm", None)
        if model.pool == "mean_first":
            del names["last_norm"]
            if mean_norm:
                names["last_norm"] = mean_norm
        return replace(self, names=names)

    def split(self, name, array, model):
        if f"{name}[patches]" == self.names["position_embedding"].format(prefix=self.prefix):
            return split_positions(name, array, model)
        return super().split(name, array, model)

    def stored_names(self, weight, model):
        if weight != "tokens/tokens":
            return super().stored_names(weight, model)
        names = [
            self.names[part] for part in ("class_token", "distillation_token") if part in self.names
        ]
        return [name.format(prefix=self.prefix) for name in names[: model.num_tokens]]

    def unexpected_hint(self, name):
        return '; pool="mean_first" has one' if name.startswith("fc_norm.") else ""

    def stored_shape(self, weight, shape, model):
        if weight == "tokens/tokens":
            return 1, *shape
        return super().stored_shape(weight, shape, model)


TIMM = ViTLayout(
    family="timm",
    pattern=r"()blocks\.\d+\.attn\.",
    block="blocks.{i}.",
    head=("head.", "head_dist.", "pre_logits."),
    fused={".attn.qkv.": QKV},
    names=TIMM_BLOCK
    | {
        "patches": "patch_embed.proj.{leaf}",
        "class_token": "cls_token",
        "distillation_token": "dist_token",
        "token_position": "pos_embed[tokens]",
        "position_embedding": "pos_embed[patches]",
        "self_scale": "{block}ls1.gamma",
        "mlp_scale": "{block}ls2.gamma",
        "last_norm": "norm.{leaf}",
        "mean_norm": "fc_norm.{leaf}",
        "head_0": "head.{leaf}",
        "head_1": "head_dist.{leaf}",
    },
)
HUGGING_FACE = ViTLayout(  # files of all versions
    family="Hugging Face",
    pattern=r"(vit\.|deit\.|)encoder\.layer\.\d+\.attention\.",
    block="{prefix}encoder.layer.{i}.",
    head=("classifier.", "cls_classifier.", "distillation_classifier."),
    names=HUGGING_FACE_BLOCK
    | {
        "patches": "{prefix}embeddings.patch_embeddings.projection.{leaf}",
        "class_token": "{prefix}embeddings.cls_token",
        "distillation_token": "{prefix}embeddings.distillation_token",
        "token_position": "{prefix}embeddings.position_embeddings[tokens]",
        "position_embedding": "{prefix}embeddings.position_embeddings[patches]",
        "self_attention/qkv": "{block}attention.attention.{part}.{leaf}",
        "last_norm": "{prefix}layernorm.{leaf}",
        "head_0": "classifier.{leaf}",
        "head_1": "distillation_classifier.{leaf}",
    },
    unused=r"(vit\.|deit\.|)pooler\.",
)
HUGGING_FACE_5 = replace(  # state_dict() of version 5
    HUGGING_FACE,
    pattern=r"(vit\.|deit\.|)layers\.\d+\.attention\.",
    block="{prefix}layers.{i}.",
    names=HUGGING_FACE.names | HUGGING_FACE_5_BLOCK,
)
AUGREG = ViTLayout(
    family="AugReg",
    pattern=r"()Transformer/encoderblock_\d+/",
    block="Transformer/encoderblock_{i}/",
    head=("head/", "pre_logits/"),
    names={
        "patches": "embedding/{leaf}",
        "class_token": "cls",
        "token_position": "Transformer/posembed_input/pos_embedding[tokens]",
        "position_embedding": "Transformer/posembed_input/pos_embedding[patches]",
        "self_norm": "{block}LayerNorm_0/{leaf}",
        "self_attention/qkv": "{block}MultiHeadDotProductAttention_1/{part}/{leaf}",
        "self_attention/output": "{block}MultiHeadDotProductAttention_1/out/{leaf}",
        "mlp_norm": "{block}LayerNorm_2/{leaf}",
        "mlp/up": "{block}MlpBlock_3/Dense_0/{leaf}",
        "mlp/down": "{block}MlpBlock_3/Dense_1/{leaf}",
        "last_norm": "Transformer/encoder_norm/{leaf}",
        "head_0": "head/{leaf}",
    },
    leaves=FLAX,
    transposed=False,
    by_head=True,
)
KERAS_HUB = ViTLayout(
    family="keras-hub",
    pattern=r"()layers/vi_t_encoder/",
    block="layers/vi_t_encoder/encoder_layers/vi_t_encoder_block{count}/",
    head=("task/",),
    names={
        "patches": "layers/vi_t_patching_and_embedding/patch_embedding/{leaf}",
        "class_token": "layers/vi_t_patching_and_embedding/vars/0",
        "token_position": "layers/vi_t_patching_and_embedding/position_embedding/vars/0[tokens]",
        "position_embedding": (
            "layers/vi_t_patching_and_embedding/position_embedding/vars/0[patches]"
        ),
        "self_norm": "{block}layer_norm_1/{leaf}",
        "self_attention/qkv": "{block}mha/{part}_dense/{leaf}",
        "self_attention/output": "{block}mha/output_dense/{leaf}",
        "mlp_norm": "{block}layer_norm_2/{leaf}",
        "mlp/up": "{block}mlp/dense_1/{leaf}",
        "mlp/down": "{block}mlp/dense_2/{leaf}",
        "last_norm": "layers/vi_t_encoder/layer_norm/{leaf}",
        "head_0": "task/layers/dense/{leaf}",
    },
    leaves=KERAS,
    transposed=False,
    by_head=True,
)
LAYOUTS = (TIMM, HUGGING_FACE, HUGGING_FACE_5, AUGREG, KERAS_HUB)


def split_positions(name, array, model) -> dict[str, np.ndarray]:
    """(1, tokens + n, D) → [tokens] (tokens, D) and [patches] (N, D), resized to the model's grid.

    The first axis may be missing. With n rows only, as in DeiT III, the tokens have no positions:
    zeros.
    """
    tokens, array = model.num_tokens, array.astype("float32")
    array = array[None] if array.ndim == 2 else array
    length = array.shape[1] if array.ndim == 3 and len(array) == 1 else 0
    for skip in (tokens, 0):
        side = math.isqrt(max(length - skip, 0))
        if side and side * side == length - skip:
            break
    else:
        raise ValueError(
            f"{name} must be (1, N, D) with N a square number, or that plus num_tokens={tokens}; "
            f"got {array.shape}"
        )
    grid = model.grid((None, model.image_size, model.image_size, model.channels))
    patches = LearnedPosition(side * side, (side, side)).resize(array[0, skip:], grid)
    arrays = {f"{name}[patches]": ops.convert_to_numpy(patches)}
    if tokens:
        rows = array[0, :tokens]
        arrays[f"{name}[tokens]"] = rows if skip else np.zeros_like(rows)
    return arrays
