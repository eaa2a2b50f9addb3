"""Where the weights of others are: a file, a folder of save_pretrained, or the Hugging Face Hub.

find_folder("hf:Helsinki-NLP/opus-mt-en-de")        # downloaded once, and kept
find_checkpoint("bert-base-uncased")                # the file with the weights in a folder
"""

import re
from pathlib import Path

HUB = "hf:"
CHECKPOINTS = ("model.safetensors", "pytorch_model.bin")  # the first that is there is read
BESIDE = ("*.json", "*.spm", "*.txt")  # sizes and vocabularies


def find_checkpoint(weights: str | Path) -> Path:
    """The file of weights that are a file, a folder, or `hf:OWNER/NAME[@REVISION]`."""
    place = find_folder(weights)
    if not place.is_dir():
        return place
    for name in CHECKPOINTS:
        if (place / name).exists():
            return place / name
    raise FileNotFoundError(f"{weights} has neither {' nor '.join(CHECKPOINTS)}")


def find_folder(place: str | Path) -> Path:
    """A path as it is; of `hf:OWNER/NAME` a copy of what is needed on this machine."""
    if not str(place).startswith(HUB):
        return Path(place)
    name, _, revision = str(place).removeprefix(HUB).partition("@")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ValueError(f"weights of the Hub must be hf:OWNER/NAME[@REVISION]; got {place}")
    for checkpoint in CHECKPOINTS:
        folder = download(name, revision or None, [checkpoint, *BESIDE])
        if (folder / checkpoint).exists():
            return folder
    raise FileNotFoundError(f"{place} has neither {' nor '.join(CHECKPOINTS)}")


def download(name: str, revision: str | None, files: list[str]) -> Path:
    """The folder of those files of a repository, which are only loaded if they are new."""
    try:
        import huggingface_hub as hub
    except ImportError as error:
        raise ImportError(
            f'{HUB}{name} needs huggingface_hub: pip install "tfx-transformer[convert]"'
        ) from error
    try:
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=files))
    except (OSError, hub.errors.HfHubHTTPError) as error:
        reason = str(error).splitlines()[0]
        raise OSError(
            f"{HUB}{name} cannot be loaded: {reason}. Where there is no network, copy its "
            f"{CHECKPOINTS[0]} and config.json into a folder and name that"
        ) from error
