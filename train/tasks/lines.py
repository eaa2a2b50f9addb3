"""Lines of text and files of images as inputs of commands."""

import os
import select
import sys
from collections.abc import Callable, Iterator
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


def answer_images(files: tuple[str, ...], pipeline, batch_size: int, answer: Callable) -> None:
    """Prints a line for each file: its name and `answer(result)`, or why it was not read.

    Raises in the end if there is a file without an answer.
    """
    unread: dict[int, str] = {}

    def read(number: int) -> bytes:
        data, reason = read_image_file(files[number], pipeline)
        if reason:
            unread[number] = reason
        return data

    results = pipeline.results(map(read, range(len(files))), batch_size, read_ahead=batch_size)
    for number, (file, result) in enumerate(zip(files, results, strict=True)):
        text = answer(result)
        if number in unread or not text:
            reason = unread.setdefault(number, "not an image")
            text = reason if reason.startswith("unreadable") else f"unreadable ({reason})"
        print(f"{file}\t{text}")
    if unread:
        raise ValueError(f"{len(unread)} of {len(files)} files could not be read")


def check_files(files: tuple[str, ...]) -> None:
    if not files:
        raise ValueError("files must name at least one image")


def read_image_file(path: str, pipeline) -> tuple[bytes, str]:
    """An image file as it is read for training, or b"" and the reason."""
    from tfx_transformer.data.images.files import read_images
    from tfx_transformer.data.images.options import MAX_PIXELS

    options = getattr(pipeline, "options", {})  # of an export
    options = options if isinstance(options, dict) else pipeline.options()
    limit = options.get("max_pixels", MAX_PIXELS)
    images, reasons = read_images([path], lambda _: Path(path).read_bytes(), limit)
    return images.get(path, b""), reasons.get(path, "")


def read_picture(pipeline, path: str):
    """An image file as pixels for a pipeline: (1, H, W, C), 0 to 255."""
    import tensorflow as tf

    data, reason = read_image_file(path, pipeline)
    images, is_readable = pipeline.read(tf.constant([data]))
    if reason or not is_readable[0]:
        raise ValueError(f"{path} is not an image that can be read: {reason}")
    return images
