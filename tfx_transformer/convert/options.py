"""Reads the options of our models from the config.json of Hugging Face and timm.

    read_options("vit", "google/vit-base-patch16-224/model.safetensors")   # {"dim": 768, …}

Hugging Face stores sizes; timm stores the name of an architecture, which is one of our variants.
Without a config.json the options are empty.
"""

import json
import re
from pathlib import Path
from typing import Any

from tfx_transformer.models import MODELS

ACTIVATIONS = {  # names of Hugging Face → ours
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
}
# our options → those of Hugging Face
IMAGES = dict(image_size="image_size", patch_size="patch_size", channels="num_channels")
BLOCKS = dict(dim="hidden_size", depth="num_hidden_layers", num_heads="num_attention_heads")
BLOCKS |= dict(mlp_dim="intermediate_size")
BERT = dict(vocab_size="vocab_size", max_length="max_position_embeddings")
BERT |= BLOCKS | dict(num_segments="type_vocab_size")
GPT = dict(vocab_size="vocab_size", dim="n_embd", depth="n_layer", num_heads="n_head")
GPT |= dict(max_length="n_positions")
SWIN = dict(dim="embed_dim", depth="depths", num_heads="num_heads", window="window_size")
SIZES = {  # model_type → our model and its options
    "bert": ("bert", BERT),
    "deit": ("vit", BLOCKS | IMAGES),
    "gpt2": ("gpt", GPT),
    "swin": ("swin", SWIN | IMAGES),
    "vit": ("vit", BLOCKS | IMAGES),
}
BERT_HEADS = {  # by the class that saved the weights
    "BertForMaskedLM": "mlm",
    "BertForPreTraining": "mlm",
    "BertForSequenceClassification": "classify",
}
LETTERS = {"tiny": "ti", "small": "s", "base": "b", "large": "l", "huge": "h"}
TIMM = (  # regular expression of architectures, our model, its variant
    (r"(?:vit|deit)_(?P<size>[a-z]+)_patch(?P<patch>\d+)_\d+", "vit", "{letter}{patch}"),
    (r"deit_(?P<size>[a-z]+)_distilled_patch16_\d+", "vit", "deit_{letter}16_distilled"),
    (r"swin_(?P<size>[a-z]+)_patch4_window(?P<window>\d+)_\d+", "swin", "{letter[0]}"),
    (r"mixer_(?P<size>[a-z])(?P<patch>\d+)_\d+", "mlp_mixer", "{letter}{patch}"),
)


def read_options(name: str, checkpoint: str | Path) -> dict[str, Any]:
    """The options of a model from the config.json beside its weights.

    Args:
        name: a name in MODELS.
        checkpoint: the file with the weights.
    """
    path = Path(checkpoint).parent / "config.json"
    if not path.exists():
        return {}
    config = json.loads(path.read_text("utf-8"))
    read = read_timm if "architecture" in config else read_hugging_face
    kind, options = read(config, path)
    if kind != name:
        raise ValueError(f"model must be {kind!r} for {path}; got {name!r}")
    return options


def read_normalization(checkpoint: str | Path) -> tuple[list[float], list[float]] | None:
    """Mean and standard deviation of pixels from 0 to 1 in training; None if not stored.

    Hugging Face stores them in preprocessor_config.json, timm in config.json.

    Args:
        checkpoint: the file with the weights.
    """
    fields = (
        ("preprocessor_config.json", "image_mean", "image_std"),
        ("config.json", "mean", "std"),
    )
    for file, mean, deviation in fields:
        path = Path(checkpoint).parent / file
        config = json.loads(path.read_text("utf-8")) if path.exists() else {}
        config = config.get("pretrained_cfg") or config
        if mean in config and deviation in config:
            return config[mean], config[deviation]
    return None


def read_hugging_face(config: dict[str, Any], path: Path) -> tuple[str, dict[str, Any]]:
    """The name of our model, and its options."""
    kind = config.get("model_type")
    if kind == "marian":
        raise ValueError(f"{path} is of a Marian translator: use convert.marian.load_marian")
    if kind not in SIZES:
        raise ValueError(f"{path}: model_type must be one of {', '.join(SIZES)}; got {kind!r}")
    name, sizes = SIZES[kind]
    missing = [theirs for theirs in sizes.values() if theirs not in config]
    if missing:
        raise ValueError(f"{path} must contain {', '.join(missing)}")
    options = {ours: config[theirs] for ours, theirs in sizes.items()}
    if kind == "swin":
        options["mlp_dim"] = int(options["dim"] * config.get("mlp_ratio", 4))
    if kind == "gpt2":
        options["mlp_dim"] = config.get("n_inner") or 4 * options["dim"]
    activation = config.get("hidden_act") or config.get("activation_function", "gelu_new")
    epsilon = config.get("layer_norm_eps") or config.get("layer_norm_epsilon", 1e-5)
    options["activation"] = find_activation(activation)
    options["norm"] = {"kind": "layer", "epsilon": epsilon}
    return name, options | head_options(kind, config)


def find_activation(name: str) -> str:
    """Our name of an activation of Hugging Face."""
    if name not in ACTIVATIONS:
        raise ValueError(
            f"the activation in config.json must be one of {', '.join(ACTIVATIONS)}; got {name!r}"
        )
    return ACTIVATIONS[name]


def head_options(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    """Options of the head and the class tokens, by the class that saved the weights."""
    saved_by = (config.get("architectures") or [""])[0]
    options: dict[str, Any] = {}
    if saved_by.endswith(("Classification", "WithTeacher")):
        options["num_classes"] = len(config.get("id2label", range(2)))  # two are not stored
    if saved_by in BERT_HEADS:
        options["head"] = BERT_HEADS[saved_by]
    if kind == "deit":
        options["num_tokens"] = 2
    return options


def read_timm(config: dict[str, Any], path: Path) -> tuple[str, dict[str, Any]]:
    """The name of our model, and its options."""
    architecture = config["architecture"]
    for pattern, name, variant in TIMM:
        match = re.fullmatch(pattern, architecture)
        if not match or config.get("model_args"):
            continue
        groups = match.groupdict()
        letter = LETTERS.get(groups["size"], groups["size"])
        options = MODELS[name].variants.get(variant.format(letter=letter, **groups))
        if options is None:
            continue
        options = dict(options)
        if "window" in groups:
            options["window"] = int(groups["window"])
        if size := config.get("pretrained_cfg", {}).get("input_size"):
            options["image_size"] = size[-1]
        if config.get("num_classes"):
            options["num_classes"] = config["num_classes"]
        return name, options
    raise ValueError(
        f"{path}: unknown architecture {architecture!r}; use create_model with its sizes, then "
        "load_weights"
    )
