"""Finds pretrained weights: a file, a folder, a model on Hugging Face Hub, a preset of keras-hub.

find_folder("hf:Helsinki-NLP/opus-mt-en-de")        # downloaded once, then cached
find_folder("keras_hub:gpt2_base_en")               # the same
find_checkpoint("bert-base-uncased")                # the file with the weights in a folder
"""

import importlib
import re
from pathlib import Path

from tfx_transformer.checks import import_extra

HUB, KERAS_HUB, KAGGLE = "hf:", "keras_hub:", "kaggle://"
# the first that exists is read
CHECKPOINTS = ("model.safetensors", "pytorch_model.bin", "model.weights.h5")
METADATA = ("*.json", "*.spm", "*.txt", "task.weights.h5")  # options, vocabularies, Keras's heads


def find_checkpoint(weights: str | Path) -> Path:
    """The file with the weights, given one, a folder, `hf:OWNER/NAME[@REVISION]`, `keras_hub:…`."""
    path = find_folder(weights)
    if not path.is_dir():
        return path
    for name in CHECKPOINTS:
        if (path / name).exists():
            return path / name
    raise FileNotFoundError(f"{weights} has neither {' nor '.join(CHECKPOINTS)}")


def find_folder(weights: str | Path) -> Path:
    """A local path unchanged; for `hf:OWNER/NAME` the folder of the downloaded files.

    keras_hub: may precede a folder, the name of a preset, kaggle://… or hf://OWNER/NAME.
    """
    if str(weights).startswith(KERAS_HUB):
        return find_preset(str(weights).removeprefix(KERAS_HUB))
    if not str(weights).startswith(HUB):
        return Path(weights)
    name, _, revision = str(weights).removeprefix(HUB).partition("@")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ValueError(f"weights on the Hub must be hf:OWNER/NAME[@REVISION]; got {weights}")
    for checkpoint in CHECKPOINTS:
        folder = download(name, revision or None, [checkpoint, *METADATA])
        if (folder / checkpoint).exists():
            return folder
    raise FileNotFoundError(f"{weights} has neither {' nor '.join(CHECKPOINTS)}")


def find_preset(preset: str) -> Path:
    """The folder of a preset of keras-hub, which is downloaded unless it is one."""
    if Path(preset).is_dir():
        return Path(preset)
    if preset.startswith("hf://"):
        return find_folder(HUB + preset.removeprefix("hf://"))
    if not preset.startswith(KAGGLE):
        presets = importlib.import_module("keras_hub").models.Backbone.presets
        if preset not in presets:
            raise ValueError(
                f"{KERAS_HUB}{preset} must be a folder, a preset that keras_hub lists, "
                f"{KAGGLE}… or hf://OWNER/NAME"
            )
        preset = presets[preset]["kaggle_handle"]
    kagglehub = importlib.import_module("kagglehub")
    try:
        return Path(kagglehub.model_download(preset.removeprefix(KAGGLE)))
    except Exception as error:  # of its HTTP client, its login, its checks of names
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise OSError(
            f"{preset} cannot be downloaded: {reason}. Without a network, give the path of a "
            "folder written by save_to_preset"
        ) from error


def download(name: str, revision: str | None, files: list[str]) -> Path:
    """Downloads files of a repository, unless they are cached → their folder."""
    hub = import_extra("huggingface_hub", f"{HUB}{name}", "convert")
    try:
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=files))
    except (OSError, hub.errors.HfHubHTTPError) as error:
        reason = str(error).splitlines()[0]
        raise OSError(
            f"{HUB}{name} cannot be downloaded: {reason}. Without a network, copy its "
            f"{CHECKPOINTS[0]} and config.json into a folder and give its path"
        ) from error
