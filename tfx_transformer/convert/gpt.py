"""GPT-2 checkpoints from Hugging Face and keras-hub, whose weights are those of OpenAI.

`GPT` reproduces their outputs with its default options. The files do not contain the number of
heads, except for keras-hub's: a wrong `num_heads` is not detected.
"""

from tfx_transformer.convert.layout import KERAS, KERAS_BLOCK, QKV, Layout

HUGGING_FACE = Layout(
    family="Hugging Face",
    pattern=r"(transformer\.|)h\.\d+\.attn\.c_attn\.",
    block="{prefix}h.{i}.",
    head=(),
    transposed=False,
    fused={".attn.c_attn.": QKV},
    fused_axis=-1,
    tied=("lm_head.weight", "{prefix}wte.weight"),
    names={
        "tokens": "{prefix}wte.weight",
        "position_embedding": "{prefix}wpe.weight",
        "self_norm": "{block}ln_1.{leaf}",
        "self_attention/qkv": "{block}attn.c_attn.{leaf}[{part}]",
        "self_attention/output": "{block}attn.c_proj.{leaf}",
        "mlp_norm": "{block}ln_2.{leaf}",
        "mlp/up": "{block}mlp.c_fc.{leaf}",
        "mlp/down": "{block}mlp.c_proj.{leaf}",
        "last_norm": "{prefix}ln_f.{leaf}",
    },
    unused=r"lm_head\.weight$|.*\.attn\.(masked_)?bias$",  # the causal mask of old files
)
KERAS_HUB = Layout(
    family="keras-hub",
    pattern=r"()layers/transformer_decoder(?:_\d+)?/",
    block="layers/transformer_decoder{count}/",
    head=(),
    names=KERAS_BLOCK
    | {
        "tokens": "layers/reversible_embedding/{leaf}",
        "position_embedding": "layers/position_embedding/{leaf}",
        "last_norm": "layers/layer_normalization/{leaf}",
    },
    leaves=KERAS,
    transposed=False,
    by_head=True,
)
LAYOUTS = (HUGGING_FACE, KERAS_HUB)
