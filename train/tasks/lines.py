"""Lines of text and files of images as inputs of commands."""

import sys
from collections.abc import Iterator
from pathlib import Path


def read_lines() -> Iterator[str]:
    """The lines of standard input."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"line {number} of standard input is not UTF-8: {error}") from error


def read_image_files(files: tuple[str, ...]) -> list[bytes]:
    """All files, before the first result, so that a missing one is reported at once."""
    if not files:
        raise ValueError("files must name at least one image")
    return [read_image_file(file) for file in files]


def read_image_file(path: str) -> bytes:
    """An image file as it is read for training: upright, on white; unreadable ones unchanged."""
    from tfx_transformer.data.images.files import read_images

    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    data = file.read_bytes()
    images, _ = read_images([path], lambda _: data)
    return images.get(path, data)


def read_picture(pipeline, path: str):
    """An image file as pixels for a pipeline: (1, H, W, C), 0 to 255."""
    import tensorflow as tf

    images, is_readable = pipeline.read(tf.constant([read_image_file(path)]))
    if not is_readable[0]:
        raise ValueError(f"{path} is not an image that can be read")
    return images
