"""MLP-Mixer checkpoints from timm and Google. Options of `MLPMixer` that reproduce their outputs:

    family    activation     norm
    timm      "gelu"         {"kind": "layer", "epsilon": 1e-6}, the default
    Google    "gelu_tanh"    {"kind": "layer", "epsilon": 1e-6}

The weights depend on the number of patches: another image size needs another checkpoint.
"""

from tfx_transformer.convert.layout import FLAX, Layout

TIMM = Layout(
    family="timm",
    pattern=r"()blocks\.\d+\.mlp_tokens\.",
    block="blocks.{i}.",
    head=("head.",),
    names={
        "patches": "stem.proj.{leaf}",
        "self_norm": "{block}norm1.{leaf}",
        "token_mlp/up": "{block}mlp_tokens.fc1.{leaf}",
        "token_mlp/down": "{block}mlp_tokens.fc2.{leaf}",
        "mlp_norm": "{block}norm2.{leaf}",
        "mlp/up": "{block}mlp_channels.fc1.{leaf}",
        "mlp/down": "{block}mlp_channels.fc2.{leaf}",
        "last_norm": "norm.{leaf}",
        "head": "head.{leaf}",
    },
)
GOOGLE = Layout(
    family="Google",
    pattern=r"()MixerBlock_\d+/",
    block="MixerBlock_{i}/",
    head=("head/",),
    names={
        "patches": "stem/{leaf}",
        "self_norm": "{block}LayerNorm_0/{leaf}",
        "token_mlp/up": "{block}token_mixing/Dense_0/{leaf}",
        "token_mlp/down": "{block}token_mixing/Dense_1/{leaf}",
        "mlp_norm": "{block}LayerNorm_1/{leaf}",
        "mlp/up": "{block}channel_mixing/Dense_0/{leaf}",
        "mlp/down": "{block}channel_mixing/Dense_1/{leaf}",
        "last_norm": "pre_head_layer_norm/{leaf}",
        "head": "head/{leaf}",
    },
    leaves=FLAX,
    transposed=False,
)
LAYOUTS = (TIMM, GOOGLE)
