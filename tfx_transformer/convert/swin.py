"""Swin: checkpoints of timm, Hugging Face and Microsoft, the paper's authors.

All compute with the variants' options: exact "gelu" and {"kind": "layer", "epsilon": 1e-5}. The
window must be theirs. Where windows do not fill the grid the numbers differ a little: others let
attention see the zeros that fill it up.
"""

from dataclasses import dataclass, replace

from tfx_transformer.convert.layout import Layout


@dataclass(frozen=True)
class SwinLayout(Layout):
    """Blocks and merges are counted by stage; ours are counted through."""

    def words(self, kind, number, model):
        if kind == "merge":  # in front of this stage
            return {"stage": number, "before": number - 1, "i": 0}
        stage = 0
        while number >= model.depth[stage]:
            number -= model.depth[stage]
            stage += 1
        return {"stage": stage, "i": number}


TIMM = SwinLayout(
    family="timm",
    mark=r"()layers\.\d+\.blocks\.\d+\.attn\.",
    block="layers.{stage}.blocks.{i}.",
    head=("head.",),
    names={
        "patches": "patch_embed.proj.{leaf}",
        "patch_norm": "patch_embed.norm.{leaf}",
        "merge_norm": "layers.{stage}.downsample.norm.{leaf}",
        "reduction": "layers.{stage}.downsample.reduction.{leaf}",
        "self_norm": "{block}norm1.{leaf}",
        "self_attention": "{block}attn.relative_position_bias_table",
        "self_attention/query": "{block}attn.qkv.{leaf}[query]",
        "key": "{block}attn.qkv.{leaf}[key]",
        "value": "{block}attn.qkv.{leaf}[value]",
        "self_attention/output": "{block}attn.proj.{leaf}",
        "mlp_norm": "{block}norm2.{leaf}",
        "mlp/up": "{block}mlp.fc1.{leaf}",
        "mlp/down": "{block}mlp.fc2.{leaf}",
        "last_norm": "norm.{leaf}",
        "head": "head.fc.{leaf}",
    },
    unused=r".*\.(relative_position_index|attn_mask)$",
)
MICROSOFT = replace(  # a stage ends with a merge there
    TIMM,
    family="Microsoft",
    mark=r"()layers\.0\.downsample\.",
    names=TIMM.names
    | {
        "merge_norm": "layers.{before}.downsample.norm.{leaf}",
        "reduction": "layers.{before}.downsample.reduction.{leaf}",
        "head": "head.{leaf}",
    },
)
HUGGING_FACE = SwinLayout(  # the files of every version
    family="Hugging Face",
    mark=r"(swin\.|)encoder\.layers\.\d+\.blocks\.\d+\.attention\.self\.",
    block="{begin}encoder.layers.{stage}.blocks.{i}.",
    head=("classifier.",),
    names={
        "patches": "{begin}embeddings.patch_embeddings.projection.{leaf}",
        "patch_norm": "{begin}embeddings.norm.{leaf}",
        "merge_norm": "{begin}encoder.layers.{before}.downsample.norm.{leaf}",
        "reduction": "{begin}encoder.layers.{before}.downsample.reduction.{leaf}",
        "self_norm": "{block}layernorm_before.{leaf}",
        "self_attention": "{block}attention.self.relative_position_bias_table",
        "self_attention/query": "{block}attention.self.query.{leaf}",
        "key": "{block}attention.self.key.{leaf}",
        "value": "{block}attention.self.value.{leaf}",
        "self_attention/output": "{block}attention.output.dense.{leaf}",
        "mlp_norm": "{block}layernorm_after.{leaf}",
        "mlp/up": "{block}intermediate.dense.{leaf}",
        "mlp/down": "{block}output.dense.{leaf}",
        "last_norm": "{begin}layernorm.{leaf}",
        "head": "classifier.{leaf}",
    },
    unused=TIMM.unused,
)
HUGGING_FACE_5 = replace(  # the state dict of version 5
    HUGGING_FACE,
    mark=r"(swin\.|)encoder\.layers\.\d+\.blocks\.\d+\.attention\.q_proj\.",
    names=HUGGING_FACE.names
    | {
        "self_attention": "{block}attention.relative_position_bias.relative_position_bias_table",
        "self_attention/query": "{block}attention.q_proj.{leaf}",
        "key": "{block}attention.k_proj.{leaf}",
        "value": "{block}attention.v_proj.{leaf}",
        "self_attention/output": "{block}attention.o_proj.{leaf}",
        "mlp/up": "{block}mlp.fc1.{leaf}",
        "mlp/down": "{block}mlp.fc2.{leaf}",
    },
)
LAYOUTS = (MICROSOFT, TIMM, HUGGING_FACE, HUGGING_FACE_5)
