"""Finds pretrained weights: a file, a folder of save_pretrained, or a model on Hugging Face Hub.

find_folder("hf:Helsinki-NLP/opus-mt-en-de")        # downloaded once, then cached
find_checkpoint("bert-base-uncased")                # the file with the weights in a folder
"""

import re
from pathlib import Path

from tfx_transformer.checks import import_extra

HUB = "hf:"
CHECKPOINTS = ("model.safetensors", "pytorch_model.bin")  # the first that exists is read
METADATA = ("*.json", "*.spm", "*.txt")  # options and vocabularies


def find_checkpoint(weights: str | Path) -> Path:
    """The file with the weights, given a file, a folder, or `hf:OWNER/NAME[@REVISION]`."""
    path = find_folder(weights)
    if not path.is_dir():
        return path
    for name in CHECKPOINTS:
        if (path / name).exists():
            return path / name
    raise FileNotFoundError(f"{weights} has neither {' nor '.join(CHECKPOINTS)}")


def find_folder(weights: str | Path) -> Path:
    """A local path unchanged; for `hf:OWNER/NAME` the folder of the downloaded files."""
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
