"""The models that the command `serve` names: NAME=FOLDER, or FOLDER alone."""

from collections.abc import Sequence
from pathlib import Path

SAY_NOTHING = {"export", "exported", "run", "saved_model", "served"}  # names of folders


def name_folders(models: Sequence[str]) -> dict[str, Path]:
    """Folders by the names of their models; a folder alone gives its own name or its parent's."""
    if not models:
        raise ValueError("models must name at least one folder, as FOLDER or NAME=FOLDER")
    folders: dict[str, Path] = {}
    for model in models:
        name, folder = split(model)
        if not folder.is_dir():
            raise FileNotFoundError(f"models must name folders; there is no {folder}")
        if not name or set(name) & set("/:"):
            raise ValueError(f"a model's name must have no / and no :; got {name!r} of {folder}")
        if name in folders:
            raise ValueError(
                f"models must have different names; {folders[name]} and {folder} are both {name}: "
                "write NAME=FOLDER"
            )
        folders[name] = folder
    return folders


def split(model: str) -> tuple[str, Path]:
    """Name and folder; a name such as "served" or a version says nothing, its parent's does."""
    name, is_named, folder = model.partition("=")
    if is_named and not Path(model).exists():
        return name, Path(folder)
    path = Path(model)
    for part in (path.resolve(), *path.resolve().parents):
        if part.name and part.name not in SAY_NOTHING and not part.name.isdecimal():
            return part.name, path
    return "model", path
