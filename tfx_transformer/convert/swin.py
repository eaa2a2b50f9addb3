"""Swin checkpoints from timm, Hugging Face, keras-hub and Microsoft, the paper's authors.

All use the options of our variants: exact "gelu" and {"kind": "layer", "epsilon": 1e-5}. `window`
must be that of the checkpoint. Where windows do not divide the grid the outputs differ slightly:
these libraries also attend to the zero padding.
"""

from dataclasses import dataclass, replace

from tfx_transformer.convert.layout import (
    HUGGING_FACE_5_BLOCK,
    HUGGING_FACE_BLOCK,
    KERAS,
    QKV,
    TIMM_BLOCK,
    Layout,
    keras_count,
)


@dataclass(frozen=True)
class SwinLayout(Layout):
    """Numbers blocks and merges within their stage; ours are numbered through."""

    def block_fields(self, kind, number, model):
        if kind == "merge":  # before this stage
            counts = {"stage_count": keras_count(number), "before_count": keras_count(number - 1)}
            return {"stage": number, "before": number - 1, "i": 0, "count": ""} | counts
        stage = 0
        while number >= model.depth[stage]:
            number -= model.depth[stage]
            stage += 1
        counts = {"stage_count": keras_count(stage), "count": keras_count(number)}
        return {"stage": stage, "i": number} | counts


TIMM = SwinLayout(
    family="timm",
    pattern=r"()layers\.\d+\.blocks\.\d+\.attn\.",
    block="layers.{stage}.blocks.{i}.",
    head=("head.",),
    fused={".attn.qkv.": QKV},
    names=TIMM_BLOCK
    | {
        "patches": "patch_embed.proj.{leaf}",
        "patch_norm": "patch_embed.norm.{leaf}",
        "merge_norm": "layers.{stage}.downsample.norm.{leaf}",
        "reduction": "layers.{stage}.downsample.reduction.{leaf}",
        "self_attention": "{block}attn.relative_position_bias_table",
        "last_norm": "norm.{leaf}",
        "head": "head.fc.{leaf}",
    },
    unused=r".*\.(relative_position_index|attn_mask)$",
)
MICROSOFT = replace(  # there a merge ends its stage
    TIMM,
    family="Microsoft",
    pattern=r"()layers\.0\.downsample\.",
    names=TIMM.names
    | {
        "merge_norm": "layers.{before}.downsample.norm.{leaf}",
        "reduction": "layers.{before}.downsample.reduction.{leaf}",
        "head": "head.{leaf}",
    },
)
HUGGING_FACE = SwinLayout(  # files of all versions
    family="Hugging Face",
    pattern=r"(swin\.|)encoder\.layers\.\d+\.blocks\.\d+\.attention\.self\.",
    block="{prefix}encoder.layers.{stage}.blocks.{i}.",
    head=("classifier.",),
    names=HUGGING_FACE_BLOCK
    | {
        "patches": "{prefix}embeddings.patch_embeddings.projection.{leaf}",
        "patch_norm": "{prefix}embeddings.norm.{leaf}",
        "merge_norm": "{prefix}encoder.layers.{before}.downsample.norm.{leaf}",
        "reduction": "{prefix}encoder.layers.{before}.downsample.reduction.{leaf}",
        "self_attention": "{block}attention.self.relative_position_bias_table",
        "last_norm": "{prefix}layernorm.{leaf}",
        "head": "classifier.{leaf}",
    },
    unused=TIMM.unused,
)
HUGGING_FACE_5 = replace(  # state_dict() of version 5
    HUGGING_FACE,
    pattern=r"(swin\.|)encoder\.layers\.\d+\.blocks\.\d+\.attention\.q_proj\.",
    names=HUGGING_FACE.names
    | HUGGING_FACE_5_BLOCK
    | {"self_attention": "{block}attention.relative_position_bias.relative_position_bias_table"},
)
STAGE = "layers/swin_transformer_stage"
KERAS_HUB = SwinLayout(
    family="keras-hub",
    pattern=rf"(){STAGE}/",
    block=STAGE + "{stage_count}/blocks/swin_transformer_block{count}/",
    head=("task/",),
    fused={"/attn/qkv/": QKV},
    fused_axis=-1,
    names={
        "patches": "layers/patch_embedding/proj/{leaf}",
        "patch_norm": "layers/patch_embedding/norm/{leaf}",
        "merge_norm": STAGE + "{before_count}/downsample/norm/{leaf}",
        "reduction": STAGE + "{before_count}/downsample/reduction/{leaf}",
        "self_norm": "{block}norm1/{leaf}",
        "self_attention": "{block}attn/{leaf}",
        "self_attention/qkv": "{block}attn/qkv/{leaf}[{part}]",
        "self_attention/output": "{block}attn/proj/{leaf}",
        "mlp_norm": "{block}norm2/{leaf}",
        "mlp/up": "{block}mlp/fc1/{leaf}",
        "mlp/down": "{block}mlp/fc2/{leaf}",
        "last_norm": "layers/layer_normalization/{leaf}",
        "head": "task/layers/dense/{leaf}",
    },
    leaves=KERAS,
    transposed=False,
)
LAYOUTS = (MICROSOFT, TIMM, HUGGING_FACE, HUGGING_FACE_5, KERAS_HUB)
