"""ViT and DeiT: checkpoints of timm, Hugging Face and Google's AugReg.

The options of `ViT` that give their numbers:

    family          activation     norm
    timm            "gelu"         {"kind": "layer", "epsilon": 1e-6}, the default
    Hugging Face    "gelu"         {"kind": "layer", "epsilon": 1e-12}
    AugReg          "gelu_tanh"    {"kind": "layer", "epsilon": 1e-6}

timm's LayerScale needs `layer_scale`, a distilled DeiT `num_tokens=2`, a model without class token
`num_tokens=0`. timm's global_pool="avg" is `pool="mean_first"` if the file has an `fc_norm`, else
`pool="mean"`, with class tokens too. Only AugReg files tell the number of heads: elsewhere a wrong
one goes unseen. Positions learned for images of another size are resized, as the model does.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from keras import ops

from tfx_transformer.convert.layout import FLAX, Layout
from tfx_transformer.layers.position import LearnedPosition


@dataclass(frozen=True)
class ViTLayout(Layout):
    """Positions, of which [tokens] and [patches] are parts; class tokens; in Flax, heads."""

    def adapt(self, weights, model):
        names = dict(self.names)
        if "cls_classifier.weight" in weights:  # beside a distillation_classifier
            names["head_0"] = "cls_classifier.{leaf}"
        normalises_mean = names.pop("norm of the mean", None)
        if model.pool == "mean_first":
            del names["last_norm"]
            if normalises_mean:
                names["last_norm"] = normalises_mean
        return replace(self, names=names)

    def cut(self, name, array, model):
        if f"{name}[patches]" == self.names["place"].format(begin=self.begin):
            return cut_positions(name, array, model)
        return super().cut(name, array, model)

    def sources(self, weight, model):
        if weight != "tokens/tokens":
            return super().sources(weight, model)
        names = [self.names[part] for part in ("token", "second token") if part in self.names]
        return [name.format(begin=self.begin) for name in names[: model.num_tokens]]

    def joined_axis(self, weight):
        return 0 if weight == "tokens/tokens" else super().joined_axis(weight)

    def hint(self, name):
        return '; pool="mean_first" has one' if name.startswith("fc_norm.") else ""

    def stored_shape(self, weight, shape, model):
        heads = model.num_heads
        if weight == "tokens/tokens":
            return 1, *shape
        if self.leaves is FLAX and weight.endswith("self_attention/output/kernel"):
            return heads, shape[0] // heads, shape[1]
        if self.leaves is FLAX and "/self_attention/" in weight and "/output/" not in weight:
            return *shape[:-1], heads, shape[-1] // heads
        return super().stored_shape(weight, shape, model)


TIMM = ViTLayout(
    family="timm",
    mark=r"()blocks\.\d+\.attn\.",
    block="blocks.{i}.",
    head=("head.", "head_dist.", "pre_logits."),
    names={
        "patches": "patch_embed.proj.{leaf}",
        "token": "cls_token",
        "second token": "dist_token",
        "token_place": "pos_embed[tokens]",
        "place": "pos_embed[patches]",
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
        "norm of the mean": "fc_norm.{leaf}",
        "head_0": "head.{leaf}",
        "head_1": "head_dist.{leaf}",
    },
)
HUGGING_FACE = ViTLayout(  # the files of every version
    family="Hugging Face",
    mark=r"(vit\.|deit\.|)encoder\.layer\.\d+\.attention\.",
    block="{begin}encoder.layer.{i}.",
    head=("classifier.", "cls_classifier.", "distillation_classifier."),
    names={
        "patches": "{begin}embeddings.patch_embeddings.projection.{leaf}",
        "token": "{begin}embeddings.cls_token",
        "second token": "{begin}embeddings.distillation_token",
        "token_place": "{begin}embeddings.position_embeddings[tokens]",
        "place": "{begin}embeddings.position_embeddings[patches]",
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
    unused=r"(vit\.|deit\.|)pooler\.",
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
AUGREG = ViTLayout(
    family="AugReg",
    mark=r"()Transformer/encoderblock_\d+/",
    block="Transformer/encoderblock_{i}/",
    head=("head/", "pre_logits/"),
    names={
        "patches": "embedding/{leaf}",
        "token": "cls",
        "token_place": "Transformer/posembed_input/pos_embedding[tokens]",
        "place": "Transformer/posembed_input/pos_embedding[patches]",
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
    leaves=FLAX,
)
LAYOUTS = (TIMM, HUGGING_FACE, HUGGING_FACE_5, AUGREG)


def cut_positions(name, array, model) -> dict[str, np.ndarray]:
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
