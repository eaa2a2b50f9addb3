"""The model zoo: one paper, one file, one line in MODELS."""

if __name__ != "tfx_transformer.models":
    raise ImportError(f"import this folder as tfx_transformer.models, not as {__name__}")

import inspect

from tfx_transformer.models.attention_cnn import AttentionCNN
from tfx_transformer.models.base import BaseModel
from tfx_transformer.models.bert import BERT
from tfx_transformer.models.bytenet import ByteNet
from tfx_transformer.models.conv_seq2seq import ConvSeq2Seq
from tfx_transformer.models.dalle import DALLE
from tfx_transformer.models.gpt import GPT
from tfx_transformer.models.memory_network import MemoryNetwork
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
        "bytenet": ByteNet,
        "conv_seq2seq": ConvSeq2Seq,
        "dalle": DALLE,
        "gpt": GPT,
        "memory_network": MemoryNetwork,
        "mlp_mixer": MLPMixer,
        "pixel_transformer": PixelTransformer,
        "rnn_seq2seq": RNNSeq2Seq,
        "show_attend_tell": ShowAttendTell,
        "swin": Swin,
        "transformer": Transformer,
        "vit": ViT,
    },
)


def create_model(name: str, /, variant: str | None = None, **overrides) -> BaseModel:
    """Create a built model: `create_model("transformer", "base", vocab_size=32_000)`.

    The arguments are those of `new_model`.
    """
    model = new_model(name, variant, **overrides)
    model.build(model.input_shapes())
    return model


def new_model(name: str, /, variant: str | None = None, **overrides) -> BaseModel:
    """Create a model that has no weights yet; wrong options raise an error.

    Args:
        name: a name in MODELS.
        variant: a name in the model's `variants`; None if the overrides give all sizes.
        overrides: arguments of the model; they win over those of the variant.
    """
    model, _ = MODELS.find(name)
    if variant is not None and variant not in model.variants:
        raise ValueError(f"unknown {name} variant {variant!r}; known: {', '.join(model.variants)}")
    parameters = inspect.signature(model).parameters
    known = {*parameters, "name", "dtype"} - {"kwargs"}
    for option in sorted(overrides.keys() - known):
        raise ValueError(f"{name} has no option {option!r}; known: {', '.join(sorted(known))}")
    options = model.variants.get(variant, {}) | overrides
    required = [p.name for p in parameters.values() if p.default is p.empty and p.name != "kwargs"]
    missing = [option for option in required if option not in options]
    if missing:
        example = f"create_model({name!r}, ..., {missing[0]}=...)"
        in_variants = any(option in model.variants["test"] for option in missing)
        variants = f", or choose a variant: {', '.join(model.variants)}" if in_variants else ""
        raise ValueError(f"{name} needs {', '.join(missing)}: {example}{variants}")
    return model(**options)
