"""The model zoo: one file, one paper. Add a model: its file, its line below, its test."""

if __name__ != "tfx_transformer.models":
    raise ImportError(f"import this folder as tfx_transformer.models, not as {__name__}")

from tfx_transformer.models.transformer import Transformer
from tfx_transformer.models.vit import ViT
from tfx_transformer.registry import Registry

MODELS = Registry("model", {"transformer": Transformer, "vit": ViT})


def create_model(name: str, /, variant: str, **overrides):
    """`create_model("transformer", "base", vocab_size=32_000)`; overrides win over the variant."""
    model, _ = MODELS.find(name)
    if variant not in model.variants:
        known = ", ".join(model.variants)
        raise ValueError(f"unknown {name} variant {variant!r}; known: {known}")
    return model(**model.variants[variant] | overrides)
