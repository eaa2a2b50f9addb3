"""Lines of text and files of images as inputs of commands."""

import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path

READ_SIZE = 1 << 18  # bytes of standard input that are read before the first result


def read_chunks(limit: int) -> Iterator[list[str]]:
    """The lines of standard input in lists of at most `limit`: those that wait to be read.

    A line that is written to a pipe comes at once, and the lines of a file come in full lists.
    """
    count = 0
    for lines in _waiting_lines(sys.stdin.fileno()):
        chunk: list[str] = []
        for line in lines:
            count += 1
            try:
                chunk.append(line.decode().rstrip("\r"))
            except UnicodeDecodeError as error:
                yield chunk
                message = f"line {count} of standard input is not UTF-8: {error}"
                raise ValueError(message) from error
            if len(chunk) == limit:
                yield chunk
                chunk = []
        yield chunk


def _waiting_lines(file: int) -> Iterator[list[bytes]]:
    """Complete lines of a file descriptor; waits for the first of each list only."""
    rest = b""
    while data := os.read(file, READ_SIZE):
        while len(data) < READ_SIZE and select.select([file], [], [], 0)[0]:
            more = os.read(file, READ_SIZE)
            if not more:
                break
            data += more
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def warn_truncated(count: int, advice: str) -> None:
    """Say on standard error how many texts were truncated, if any."""
    if count:
        texts = "1 text was" if count == 1 else f"{count} texts were"
        print(f"{texts} too long and truncated: {advice}", file=sys.stderr)


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
