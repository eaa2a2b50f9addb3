"""Swin checkpoints from timm, Hugging Face and Microsoft, the paper's authors.

All use the options of our variants: exact "gelu" and {"kind": "layer", "epsilon": 1e-5}. `window`
must be that of the checkpoint. Where windows do not divide the grid the outputs differ slightly:
these libraries also attend to the zero padding.
"""

from dataclasses import dataclass, replace

from tfx_transformer.convert.layout import (
    HUGGING_FACE_5_BLOCK,
    HUGGING_FACE_BLOCK,
    QKV,
    TIMM_BLOCK,
    Layout,
)


@dataclass(frozen=True)
class SwinLayout(Layout):
    """Numbers blocks and merges within their stage; ours are numbered through."""

    def block_fields(self, kind, number, model):
        if kind == "merge":  # before this stage
            return {"stage": number, "before": number - 1, "i": 0}
        stage = 0
        while number >= model.depth[stage]:
            number -= model.depth[stage]
            stage += 1
        return {"stage": stage, "i": number}


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
LAYOUTS = (MICROSOFT, TIMM, HUGGING_FACE, HUGGING_FACE_5)
