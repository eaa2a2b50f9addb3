"""What all data sources share: paths, lines of text, and reports of what was skipped."""

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfx_transformer.files import has_scheme

_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character


def unknown_source(spec, known: str) -> ValueError:
    """The error for a source of an unknown kind."""
    name = str(spec) if isinstance(spec, Path) else spec
    return ValueError(f"unknown source {name!r}; known: {known}")


def check_path(spec, known: str) -> Path:
    """The source as a path; raises for other types and for unknown schemes such as "http:"."""
    if not isinstance(spec, str | Path) or has_scheme(str(spec)):
        raise unknown_source(spec, known)
    return Path(spec)


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, plain or .gz. Only a line feed ends a line, U+2028 does not."""
    return list(stream_lines(path))


def stream_lines(path: Path) -> Iterator[str]:
    """As `read_lines`, one line at a time."""
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                encoding = "utf-8-sig" if number == 1 else "utf-8"  # a byte order mark
                yield line.decode(encoding).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}, line {number}: is not UTF-8 text ({error.reason})") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a valid gzip file ({error})") from error


def read_tsv(path: Path, columns: str) -> Iterator[tuple[str, str]]:
    """The two columns of a file, such as "text<TAB>label"; blank lines are ignored."""
    for number, line in enumerate(stream_lines(path), 1):
        parts = line.split("\t")
        if len(parts) == 2:
            yield parts[0], parts[1]
        elif line.strip():
            raise ValueError(f"{path}, line {number}: must be {columns}; got {len(parts) - 1} tabs")


def describe_counts(skipped: Mapping[str, int]) -> str:
    """{reason: count} as "2 empty source, 1 empty target", or "none"."""
    return ", ".join(f"{count:,} {reason}" for reason, count in skipped.items()) or "none"


def describe_files(skipped: Mapping[str, str], limit: int = 5) -> str:
    """{file: reason} as "6 (a.png: truncated, … and 1 more)" with the first files, or "none"."""
    if not skipped:
        return "none"
    listed = [f"{file}: {reason}" for file, reason in list(skipped.items())[:limit]]
    more = f", … and {len(skipped) - limit:,} more" if len(skipped) > limit else ""
    return f"{len(skipped):,} ({', '.join(listed)}{more})"


def is_text(value) -> bool:
    """Whether UTF-8 can encode it; a file name that is not UTF-8 has half characters."""
    return isinstance(value, str) and not _SURROGATE.search(value)
