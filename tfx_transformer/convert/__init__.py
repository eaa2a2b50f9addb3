"""Pretrained weights from timm, Hugging Face, keras-hub, Marian, CTranslate2, the papers' authors.

    model = load_pretrained("vit", "hf:google/vit-base-patch16-224")
    model = load_pretrained("gpt", "keras_hub:gpt2_base_en")
    model = create_model("vit", "b16", num_classes=1000)
    load_weights(model, "B_16.npz")

A checkpoint without config.json does not contain all options: see the top of `vit.py`, `swin.py`
and `mlp_mixer.py` for those that reproduce its outputs.

Translators are loaded with their tokenizers: `load_marian` in `marian.py`, `load_ctranslate2` in
`ctranslate2.py`; language models of keras-hub by `load_keras_hub` in `keras_hub.py`.
"""

from tfx_transformer.convert.checkpoint import read_weights
from tfx_transformer.convert.hub import find_checkpoint
from tfx_transformer.convert.load import load_pretrained, load_weights
from tfx_transformer.convert.options import read_normalization, read_options

__all__ = [
    "find_checkpoint",
    "load_pretrained",
    "load_weights",
    "read_normalization",
    "read_options",
    "read_weights",
]
