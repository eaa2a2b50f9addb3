"""Reads the options of our models from the config.json of Hugging Face, timm and keras-hub.

    read_options("vit", "google/vit-base-patch16-224/model.safetensors")   # {"dim": 768, …}

Hugging Face stores sizes, keras-hub too (`preset.py`); timm stores the name of an architecture,
which is one of our variants.
Without a config.json the options are empty.
"""

import math
import re
from pathlib import Path
from typing import Any

from tfx_transformer.checks import check_above_zero, check_positive, check_whole
from tfx_transformer.convert.preset import is_preset, read_preset, read_range
from tfx_transformer.files import read_json, reading
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
NORM: dict[str, Any] = {"hidden_act": "gelu", "layer_norm_eps": 1e-12}  # defaults of Hugging Face
SIZES = {  # model_type → our model, its options, and the defaults of activation and epsilon
    "bert": ("bert", BERT, NORM),
    "deit": ("vit", BLOCKS | IMAGES, NORM),
    "gpt2": ("gpt", GPT, {"activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}),
    "swin": ("swin", SWIN | IMAGES, NORM | {"layer_norm_eps": 1e-5}),
    "vit": ("vit", BLOCKS | IMAGES, NORM),
}
UNSUPPORTED = {"is_decoder": False, "scale_attn_weights": True}  # key → its only value
UNSUPPORTED |= {"scale_attn_by_inverse_layer_idx": False}
NUMBERS = {*BERT, *GPT, *SWIN, *IMAGES, "decoder_depth"}  # options above zero
MAX_IMAGE_SIZE = 2**13  # pixels
MAX_STAGES = 8  # of a Swin
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
    """The options of a model in MODELS, from the config.json beside its weights."""
    path = Path(checkpoint).parent / "config.json"
    if not path.exists():
        return {}
    config = read_json(path)
    with reading(path):
        read = read_timm if "architecture" in config else read_hugging_face
        read = read_preset if is_preset(config) else read
        kind, options = read(config, path)
        if kind != name:
            raise ValueError(f"model must be {kind!r} for {path}; got {name!r}")
        check_sizes(options, Path(checkpoint))
    return options


def check_sizes(options: dict[str, Any], checkpoint: Path) -> None:
    """Raises if the sizes are not whole numbers, or need more weights than the file can contain."""
    for name in NUMBERS & options.keys():
        value = options[name]
        values = value if isinstance(value, list | tuple) else [value]
        for size in values:
            check_positive(**{name: size})
        if not 0 < len(values) <= MAX_STAGES:
            raise ValueError(f"{name} must have 1 … {MAX_STAGES} values; got {len(values)}")
    check_whole(num_classes=options.get("num_classes", 0))
    if options.get("image_size", 1) > MAX_IMAGE_SIZE:
        raise ValueError(f"image_size must not exceed {MAX_IMAGE_SIZE} pixels")
    count, size = (
        count_weights(options),
        checkpoint.stat().st_size if checkpoint.is_file() else None,
    )
    if size is not None and count > size:
        raise ValueError(
            f"its sizes need {count:,} weights or more; {checkpoint.name} has only {size:,} bytes"
        )


def count_weights(options: dict[str, Any]) -> int:
    """A lower bound of the number of weights: those of dense layers and tables alone."""
    get = dict(patch_size=1, channels=0, image_size=1, mlp_dim=0, decoder_depth=0) | options
    is_swin, depth = isinstance(get["depth"], list | tuple), get["depth"]
    stages = depth if is_swin else [depth + get["decoder_depth"]]
    # a stage of a Swin has twice the width of the one before
    count = sum(n * 4**i * (2 * get["dim"] + 2 * get["mlp_dim"]) for i, n in enumerate(stages))
    count += get["channels"] * get["patch_size"] ** 2
    count += sum(get.get(name, 0) for name in ("vocab_size", "num_segments", "num_classes"))
    if not is_swin and "position" not in get:  # a table of positions
        count += get.get("max_length", (get["image_size"] // get["patch_size"]) ** 2)
    return get["dim"] * count


def read_normalization(checkpoint: str | Path) -> tuple[list[float], list[float]] | None:
    """Mean and standard deviation of pixels from 0 to 1 in training; None if not stored.

    Hugging Face stores them in preprocessor_config.json, timm in config.json, keras-hub in
    image_converter.json, beside the weights.
    """
    fields = (
        ("preprocessor_config.json", "image_mean", "image_std"),
        ("config.json", "mean", "std"),
    )
    for file, mean, deviation in fields:
        path = Path(checkpoint).parent / file
        config = read_json(path) if path.exists() else {}
        with reading(path):
            config = config.get("pretrained_cfg") or config
            if mean in config and deviation in config:
                pair = [[float(x) for x in config[name]] for name in (mean, deviation)]
                if not all(map(math.isfinite, sum(pair, []))) or list(map(len, pair)) != [3, 3]:
                    raise ValueError(f"{mean} and {deviation} must be three numbers each")
                return pair[0], pair[1]
    return read_range(Path(checkpoint).parent)


def read_hugging_face(config: dict[str, Any], path: Path) -> tuple[str, dict[str, Any]]:
    """The name of our model, and its options."""
    kind = config.get("model_type")
    if kind == "marian":
        raise ValueError(f"{path} is of a Marian translator: use convert.marian.load_marian")
    if not isinstance(kind, str) or kind not in SIZES:
        raise ValueError(f"{path}: model_type must be one of {', '.join(SIZES)}; got {kind!r}")
    name, sizes, defaults = SIZES[kind]
    missing = [theirs for theirs in sizes.values() if theirs not in config]
    if missing:
        raise ValueError(f"{path} must contain {', '.join(missing)}")
    options = {ours: config[theirs] for ours, theirs in sizes.items()}
    for key, value in UNSUPPORTED.items():
        if config.get(key, value) is not value:
            raise ValueError(f"{path}: {key} must be {value}; got {config[key]!r}")
    if kind == "swin":
        options["mlp_dim"] = int(options["dim"] * config.get("mlp_ratio", 4))
    if kind == "gpt2":
        options["mlp_dim"] = config.get("n_inner") or 4 * options["dim"]
    given = {key: value for key, value in config.items() if key in defaults and value is not None}
    activation, epsilon = (defaults | given).values()
    check_above_zero(epsilon=epsilon)
    options["activation"] = find_activation(activation)
    options["norm"] = {"kind": "layer", "epsilon": epsilon}
    return name, options | head_options(kind, config)


def find_activation(name: str) -> str:
    """Our name of an activation of Hugging Face."""
    if not isinstance(name, str) or name not in ACTIVATIONS:
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
