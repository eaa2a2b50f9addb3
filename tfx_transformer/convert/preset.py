"""Reads the options of our models from the presets of keras-hub: folders of `save_to_preset`.

config.json has the sizes of the backbone, task.json its head, image_converter.json the range of
pixels. Only their numbers and names are read: no class that they name is created.
"""

from pathlib import Path
from typing import Any

from tfx_transformer.checks import check_above_zero, check_positive
from tfx_transformer.files import read_json, reading

TEXT = dict(vocab_size="vocabulary_size", dim="hidden_dim", depth="num_layers")
TEXT |= dict(num_heads="num_heads", mlp_dim="intermediate_dim", max_length="max_sequence_length")
VIT = dict(dim="hidden_dim", depth="num_layers", num_heads="num_heads", mlp_dim="mlp_dim")
SWIN = dict(dim="embed_dim", depth="depths", num_heads="num_heads", window="window_size")
BACKBONES: dict[str, tuple[str, dict[str, str]]] = {  # class → our model and its options
    "BertBackbone": ("bert", TEXT | {"num_segments": "num_segments"}),
    "GPT2Backbone": ("gpt", TEXT),
    "SwinTransformerBackbone": ("swin", SWIN),
    "ViTBackbone": ("vit", VIT),
}
FIXED: dict[str, dict[str, Any]] = {  # in the code of keras-hub, not in its files
    "bert": dict(activation="gelu_tanh", norm={"kind": "layer", "epsilon": 1e-12}),
    "gpt": dict(activation="gelu_tanh", norm={"kind": "layer", "epsilon": 1e-5}),
    "swin": dict(activation="gelu", norm={"kind": "layer", "epsilon": 1e-5}),
    "vit": dict(activation="gelu"),
}
ONLY = {  # key → its only value in our models
    "data_format": "channels_last",
    "patch_norm": True,
    "qkv_bias": True,
    "use_mha_bias": True,
    "use_mlp_bias": True,
    "use_patch_bias": True,
}
CLASSIFIERS = ("BertTextClassifier", "SwinTransformerImageClassifier", "ViTImageClassifier")


def is_preset(config: dict[str, Any]) -> bool:
    """Whether a config.json is of keras-hub."""
    return "class_name" in config and isinstance(config.get("config"), dict)


def read_preset(config: dict[str, Any], path: Path) -> tuple[str, dict[str, Any]]:
    """The name of our model, and its options."""
    kind, sizes = config["class_name"], config["config"]
    if kind not in BACKBONES:
        raise ValueError(f"{path}: class_name must be one of {', '.join(BACKBONES)}; got {kind!r}")
    name, names = BACKBONES[kind]
    for key, value in ONLY.items():
        if sizes.get(key) not in (value, None):
            raise ValueError(f"{path}: {key} must be {value}; got {sizes[key]!r}")
    options = {ours: sizes[theirs] for ours, theirs in names.items()} | FIXED[name]
    if "image_shape" in sizes:
        options |= read_images(sizes)
    if name == "vit":
        check_above_zero(layer_norm_epsilon=sizes["layer_norm_epsilon"])
        options["norm"] = {"kind": "layer", "epsilon": sizes["layer_norm_epsilon"]}
        options["num_tokens"] = int(sizes.get("use_class_token", True))
    if name == "swin":
        options["mlp_dim"] = int(options["dim"] * sizes["mlp_ratio"])
    return name, options | read_task(name, options, path.parent / "task.json")


def read_images(sizes: dict[str, Any]) -> dict[str, int]:
    """Sizes of images and patches, which must be square."""
    height, width, channels = sizes["image_shape"]
    patch = sizes["patch_size"]
    patch = patch if isinstance(patch, list) else [patch, patch]
    check_positive(height=height, width=width)
    if height != width or len(set(patch)) != 1:
        raise ValueError(f"images and patches must be square; got {sizes['image_shape']}, {patch}")
    return {"image_size": height, "channels": channels, "patch_size": patch[0]}


def read_task(name: str, options: dict[str, Any], path: Path) -> dict[str, Any]:
    """Options of the head: of classifiers; without a head, or with another, of features."""
    task = read_json(path) if path.exists() else {}
    with reading(path):
        config = task.get("config") or {}
        if task.get("class_name") not in CLASSIFIERS:
            return {"num_classes": 0} if name in ("swin", "vit") else {}
        if config.get("intermediate_dim") is not None:
            raise ValueError("intermediate_dim must be null: our head is one layer")
        if name == "vit" and (config["pooling"] == "token") != bool(options["num_tokens"]):
            raise ValueError(f"pooling must be that of the class token; got {config['pooling']!r}")
        check_positive(num_classes=config["num_classes"])
        head = {"head": "classify"} if name == "bert" else {}
        return head | {"num_classes": config["num_classes"]}


def read_range(folder: Path) -> tuple[list[float], list[float]] | None:
    """Mean and deviation of pixels from 0 to 1, from image_converter.json; None without one."""
    path = folder / "image_converter.json"
    if not path.exists():
        return None
    config = read_json(path)
    with reading(path):
        scale, offset = (
            values if isinstance(values, list) else [values] * 3
            for values in (config["config"].get("scale"), config["config"].get("offset"))
        )
        if None in (*scale, *offset):
            return None
        check_above_zero(**{f"scale[{i}]": value for i, value in enumerate(scale)})
        deviation = [1 / (255 * value) for value in scale]
        mean = [-a * b for a, b in zip(offset, deviation, strict=True)]
        return mean, deviation
