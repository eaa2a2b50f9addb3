"""Commands on pictures. Each imports TensorFlow only when it runs."""

from pathlib import Path

import tyro

from tfx_transformer.train.start import start_tensorflow


def classify(
    model: tyro.conf.Positional[str],
    files: tyro.conf.Positional[tuple[str, ...]],
    top_k: int = 1,
    batch_size: int = 32,
) -> None:
    """Name what pictures show: a line for each, with the class and its share.

    Args:
        model: a run's folder, or an exported one.
        files: JPEG, PNG, GIF or BMP.
        top_k: above 1, so many classes for each, the likeliest first.
        batch_size: pictures that are classified together.
    """
    start_tensorflow()
    from tfx_transformer.train.serving import load_classify

    contents = read_files(files)
    function = load_classify(model, top_k)
    for i in range(0, len(files), batch_size):
        found = function(contents[i : i + batch_size])
        for j, file in enumerate(files[i : i + batch_size]):
            pairs = zip(found["labels"][j].numpy(), found["scores"][j].numpy(), strict=True)
            best = [f"{label.decode()} {score:.3f}" for label, score in pairs][:top_k]
            print("\t".join([file, *(best if found["is_readable"][j] else ["unreadable"])]))


def caption(
    model: tyro.conf.Positional[str],
    files: tyro.conf.Positional[tuple[str, ...]],
    batch_size: int = 32,
) -> None:
    """Say what pictures show: a line for each, with its caption.

    Args:
        model: a run's folder, or an exported one.
        files: JPEG, PNG, GIF or BMP.
        batch_size: pictures that are described together.
    """
    start_tensorflow()
    from tfx_transformer.train.serving import load_caption

    contents = read_files(files)
    function = load_caption(model)
    for i in range(0, len(files), batch_size):
        found = function(contents[i : i + batch_size])
        for j, file in enumerate(files[i : i + batch_size]):
            text = found["text"][j].numpy().decode()
            print(f"{file}\t{text if found['is_readable'][j] else 'unreadable'}")


def read_files(files: tuple[str, ...]) -> list[bytes]:
    """All of them, before any answer: a missing one is told first."""
    if not files:
        raise ValueError("files must name at least one picture")
    return [read_file(file) for file in files]


def read_file(path: str) -> bytes:
    """A picture as it is read for training: upright, on white; one that cannot be, as it is."""
    from tfx_transformer.data.pictures import read_pictures

    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    data = file.read_bytes()
    pictures, _ = read_pictures([path], lambda _: data)
    return pictures.get(path, data)
