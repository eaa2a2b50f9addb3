"""The options of our model that stand in the config.json beside the weights of others.

    read_options("vit", "google/vit-base-patch16-224")      # {"dim": 768, "depth": 12, …}

Hugging Face writes down sizes; timm writes down the name of an architecture, which is one of our
variants. Without a config.json the options are empty.
"""

import json
import re
from pathlib import Path
from typing import Any

from tfx_transformer.models import MODELS

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
IMAGES = {"image_size": "image_size", "patch_size": "patch_size", "channels": "num_channels"}
BLOCKS = {
    "dim": "hidden_size",
    "depth": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "mlp_dim": "intermediate_size",
}
SIZES = {  # of each model_type: its model of ours, and our words for those of Hugging Face
    "bert": (
        "bert",
        BLOCKS
        | {
            "vocab_size": "vocab_size",
            "max_length": "max_position_embeddings",
            "num_segments": "type_vocab_size",
        },
    ),
    "deit": ("vit", BLOCKS | IMAGES),
    "gpt2": (
        "gpt",
        {
            "vocab_size": "vocab_size",
            "dim": "n_embd",
            "depth": "n_layer",
            "num_heads": "n_head",
            "max_length": "n_positions",
        },
    ),
    "swin": (
        "swin",
        IMAGES
        | {
            "dim": "embed_dim",
            "depth": "depths",
            "num_heads": "num_heads",
            "window": "window_size",
        },
    ),
    "vit": ("vit", BLOCKS | IMAGES),
}
BERT_HEADS = {  # by the class that saved the weights
    "BertForMaskedLM": "mlm",
    "BertForPreTraining": "mlm",
    "BertForSequenceClassification": "classify",
}
LETTERS = {"tiny": "ti", "small": "s", "base": "b", "large": "l", "huge": "h"}
TIMM = (  # architectures: what they match, the model of ours, its variant
    (r"(?:vit|deit)_(?P<size>[a-z]+)_patch(?P<patch>\d+)_\d+", "vit", "{letter}{patch}"),
    (r"deit_(?P<size>[a-z]+)_distilled_patch16_\d+", "vit", "deit_{letter}16_distilled"),
    (r"swin_(?P<size>[a-z]+)_patch4_window(?P<window>\d+)_\d+", "swin", "{letter[0]}"),
    (r"mixer_(?P<size>[a-z])(?P<patch>\d+)_\d+", "mlp_mixer", "{letter}{patch}"),
)


def read_options(name: str, checkpoint: str | Path) -> dict[str, Any]:
    """For the model `name` of our zoo.

    Args:
        name: in MODELS.
        checkpoint: the file with the weights.
    """
    path = Path(checkpoint).parent / "config.json"
    if not path.exists():
        return {}
    config = json.loads(path.read_text("utf-8"))
    read = read_timm if "architecture" in config else read_hugging_face
    found, options = read(config, path)
    if found != name:
        raise ValueError(f"{path} describes a model {found!r}; got {name!r}")
    return options


def read_normalisation(checkpoint: str | Path) -> tuple[list[float], list[float]] | None:
    """Mean and deviation of the pixels, from 0 to 1, that the weights were trained on, if told.

    Hugging Face tells them in a preprocessor_config.json, timm in its config.json.

    Args:
        checkpoint: the file with the weights.
    """
    places = (
        ("preprocessor_config.json", "image_mean", "image_std"),
        ("config.json", "mean", "std"),
    )
    for file, mean, deviation in places:
        path = Path(checkpoint).parent / file
        config = json.loads(path.read_text("utf-8")) if path.exists() else {}
        config = config.get("pretrained_cfg") or config
        if mean in config and deviation in config:
            return config[mean], config[deviation]
    return None


def read_hugging_face(config: dict[str, Any], path: Path) -> tuple[str, dict[str, Any]]:
    """The model of ours, and its options."""
    kind = config.get("model_type")
    if kind == "marian":
        raise ValueError(f"{path} is of a Marian, which comes whole: convert.marian.load_marian")
    if kind not in SIZES:
        raise ValueError(f"{path}: model_type must be one of {', '.join(SIZES)}; got {kind!r}")
    name, words = SIZES[kind]
    missing = [theirs for theirs in words.values() if theirs not in config]
    if missing:
        raise ValueError(f"{path} must say {', '.join(missing)}")
    options = {ours: config[theirs] for ours, theirs in words.items()}
    if kind == "swin":
        options["mlp_dim"] = int(options["dim"] * config.get("mlp_ratio", 4))
    if kind == "gpt2":
        options["mlp_dim"] = config.get("n_inner") or 4 * options["dim"]
    activation = config.get("hidden_act") or config.get("activation_function", "gelu_new")
    if activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise ValueError(f"{path}: the activation must be one of {known}; got {activation!r}")
    epsilon = config.get("layer_norm_eps") or config.get("layer_norm_epsilon", 1e-5)
    options |= {
        "activation": ACTIVATIONS[activation],
        "norm": {"kind": "layer", "epsilon": epsilon},
    }
    return name, options | head_options(kind, config)


def head_options(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    """Of what lies above the blocks, by the class that saved the weights."""
    saved = (config.get("architectures") or [""])[0]
    options: dict[str, Any] = {}
    if saved.endswith(("Classification", "WithTeacher")):
        options["num_classes"] = len(config.get("id2label", range(2)))  # two are not written down
    if saved in BERT_HEADS:
        options["head"] = BERT_HEADS[saved]
    if kind == "deit":
        options["num_tokens"] = 2
    return options


def read_timm(config: dict[str, Any], path: Path) -> tuple[str, dict[str, Any]]:
    """The model of ours, and its options."""
    architecture = config["architecture"]
    for pattern, name, variant in TIMM:
        match = re.fullmatch(pattern, architecture)
        if not match or config.get("model_args"):
            continue
        words = match.groupdict()
        letter = LETTERS.get(words["size"], words["size"])
        found = MODELS[name].variants.get(variant.format(letter=letter, **words))
        if found is None:
            continue
        options = dict(found)
        if "window" in words:
            options["window"] = int(words["window"])
        if size := config.get("pretrained_cfg", {}).get("input_size"):
            options["image_size"] = size[-1]
        if config.get("num_classes"):
            options["num_classes"] = config["num_classes"]
        return name, options
    raise ValueError(
        f"{path}: {architecture!r} is no architecture that we know; make the model with "
        "create_model, then load_weights"
    )
