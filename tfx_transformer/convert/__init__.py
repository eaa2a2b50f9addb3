"""Loads models that others trained: checkpoints of timm, Hugging Face and the papers' authors.

    model = create_model("vit", weights="hf:google/vit-base-patch16-224")
    model = create_model("vit", "b16", num_classes=1000)
    load_weights(model, "B_16.npz")

A checkpoint without a config.json does not say how it is computed: the options of our model that
give the same numbers stand at the top of `vit.py`, `swin.py` and `mlp_mixer.py`.

Translators come whole, with their texts: `load_marian` in `marian.py`, `load_ctranslate2` in
`ctranslate2.py`; and go out by `export_ctranslate2` in `to_ctranslate2.py`.
"""

from tfx_transformer.convert.checkpoint import read_weights
from tfx_transformer.convert.hub import find_checkpoint
from tfx_transformer.convert.load import load_weights
from tfx_transformer.convert.options import read_normalisation, read_options

__all__ = [
    "find_checkpoint",
    "load_weights",
    "read_normalisation",
    "read_options",
    "read_weights",
]
