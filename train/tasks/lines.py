"""Lines of text and files of images as inputs of commands."""

import os
import select
import sys
from collections.abc import Callable, Iterator

from tfx_transformer.checks import check_positive

READ_SIZE = 1 << 18  # bytes of standard input that are read before the first result


def read_chunks(limit: int) -> Iterator[list[str]]:
    """The lines of standard input in lists of at most `limit`: those that wait to be read.

    A line that is written to a pipe comes at once, and the lines of a file come in full lists.
    """
    if sys.stdin.isatty():
        print("one text per line; Ctrl-D ends", file=sys.stderr, flush=True)
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


def one_line(text: str) -> str:
    """A text without line feeds, so that there is a line for each."""
    return text.replace("\n", " ")


def warn_truncated(count: int, advice: str) -> None:
    """Say on standard error how many texts were truncated, if any."""
    if count:
        texts = "1 text was" if count == 1 else f"{count} texts were"
        print(f"{texts} too long and truncated: {advice}", file=sys.stderr)


def answer_images(files: tuple[str, ...], pipeline, batch_size: int, answer: Callable) -> None:
    """Prints a line for each file: its name and `answer(result)`; if that is None, why.

    Raises in the end if there is a file without an answer.
    """
    check_positive(batch_size=batch_size)
    unread = 0
    for start in range(0, len(files), batch_size):
        part = files[start : start + batch_size]
        contents, reasons = zip(*(read_image_file(file, pipeline) for file in part), strict=True)
        results = pipeline.results(contents, batch_size)
        for file, reason, result in zip(part, reasons, results, strict=True):
            text = None if reason else answer(result)
            unread += text is None
            name = file.encode("utf-8", "backslashreplace").decode()  # any bytes may name a file
            print(f"{name}\t{reason or 'unreadable' if text is None else text}", flush=True)
    if unread:
        raise ValueError(f"{unread} of {len(files)} files could not be read")


def check_files(files: tuple[str, ...]) -> None:
    if not files:
        raise ValueError("files must name at least one image")


def read_image_file(path: str, pipeline) -> tuple[bytes, str]:
    """An image file as it is read for training, or b"" and the reason."""
    from tfx_transformer.data.images.files import read_file, read_images
    from tfx_transformer.data.images.options import MAX_PIXELS

    options = getattr(pipeline, "options", {})  # of an export
    options = options if isinstance(options, dict) else pipeline.options()
    limit = options.get("max_pixels", MAX_PIXELS)
    images, reasons = read_images([path], read_file, limit)
    reason = reasons.get(path, "unreadable")
    reason = reason if reason.startswith("unreadable") else f"unreadable ({reason})"
    return (images[path], "") if path in images else (b"", reason)


def read_picture(pipeline, path: str):
    """An image file as pixels for a pipeline: (1, H, W, C), 0 to 255."""
    import tensorflow as tf

    data, reason = read_image_file(path, pipeline)
    images, is_readable = pipeline.read(tf.constant([data]))
    if reason or not is_readable[0]:
        raise ValueError(f"{path} is not an image that can be read: {reason}")
    return images
