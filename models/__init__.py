"""The model zoo: one file, one paper. Add a model: its file, its line below, its test."""

if __name__ != "tfx_transformer.models":
    raise ImportError(f"import this folder as tfx_transformer.models, not as {__name__}")

import inspect

from tfx_transformer.models.attention_cnn import AttentionCNN
from tfx_transformer.models.bert import BERT
from tfx_transformer.models.gpt import GPT
from tfx_transformer.models.mlp_mixer import MLPMixer
from tfx_transformer.models.pixel_transformer import PixelTransformer
from tfx_transformer.models.rnn_seq2seq import RNNSeq2Seq
from tfx_transformer.models.show_attend_tell import ShowAttendTell
from tfx_transformer.models.swin import Swin
from tfx_transformer.models.transformer import Transformer
from tfx_transformer.models.vit import ViT
from tfx_transformer.registry import Registry

MODELS = Registry(
    "model",
    {
        "attention_cnn": AttentionCNN,
        "bert": BERT,
        "gpt": GPT,
        "mlp_mixer": MLPMixer,
        "pixel_transformer": PixelTransformer,
        "rnn_seq2seq": RNNSeq2Seq,
        "show_attend_tell": ShowAttendTell,
        "swin": Swin,
        "transformer": Transformer,
        "vit": ViT,
    },
)


def create_model(name: str, /, variant: str | None = None, *, weights=None, **overrides):
    """`create_model("transformer", "base", vocab_size=32_000)`; overrides win over the variant.

    Args:
        name: in MODELS.
        variant: of the model; may be None if the weights say their sizes.
        weights: of others: a file, a folder, or `hf:google/vit-base-patch16-224`. A config.json
            beside them gives the options, which win over the variant. The head stays new if
            `overrides` ask for another one.
        overrides: options of the model.
    """
    model, _ = MODELS.find(name)
    found = {}
    if weights is not None:
        from tfx_transformer.convert import find_checkpoint, load_weights, read_options

        weights = find_checkpoint(weights)
        found = read_options(name, weights)
    if variant not in model.variants and not (variant is None and found):
        raise ValueError(f"unknown {name} variant {variant!r}; known: {', '.join(model.variants)}")
    known = {*inspect.signature(model).parameters, "name", "dtype"}
    for option in sorted(overrides.keys() - known):
        raise ValueError(f"{name} has no option {option!r}; known: {', '.join(sorted(known))}")
    created = model(**model.variants.get(variant, {}) | found | overrides)
    if weights is not None:
        asked = overrides.keys() & {"head", "num_classes"}
        is_new = bool(found) and any(overrides[option] != found.get(option) for option in asked)
        load_weights(created, weights, head=not is_new)
    return created
