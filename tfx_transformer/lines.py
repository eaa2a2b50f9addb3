"""Lines through a translating function: in batches of like length, out in their order."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tfx_transformer.checks import check_positive


@dataclass(frozen=True)
class Translation:
    """What is known of one translated line."""

    text: str
    score: float
    n_best: list[tuple[str, float]]  # texts with their scores, best first
    source_pieces: list[str]  # S subwords
    pieces: list[str]  # T subwords, END included
    alignment: np.ndarray  # (T, S), how much each piece read of each source piece


def translate_lines(
    translate: Callable, lines: Iterable[str], batch_size: int = 64, ahead: int | None = None
) -> Iterator[Translation]:
    """Translates lines one after the other, as they come.

    Args:
        translate: strings (B,) → a dict as of `Translator.translate`, or of its SavedModel.
        lines: any number of them.
        batch_size: lines that are translated together.
        ahead: lines that are read before the first is given back: the more there are, the more
            alike in length a batch is. All, if None.
    """
    check_positive(batch_size=batch_size)
    lines = iter(lines)
    while chunk := list(itertools.islice(lines, ahead)):
        order = sorted(range(len(chunk)), key=lambda i: len(chunk[i]))
        done: dict[int, Translation] = {}
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            found = translate(np.array([chunk[i].encode() for i in rows], dtype=object))
            found = {name: value.numpy() for name, value in found.items()}
            done |= {i: _read(found, row) for row, i in enumerate(rows)}
        yield from (done[i] for i in range(len(chunk)))


def _read(found: dict[str, np.ndarray], row: int) -> Translation:
    """One row of a batch, without its padding."""
    source_pieces = _strings(found["source_pieces"][row])
    pieces = _strings(found["pieces"][row])
    scores = found["n_best_score"][row].tolist()
    return Translation(
        text=found["text"][row].decode(),
        score=float(found["score"][row]),
        n_best=[(t.decode(), s) for t, s in zip(found["n_best"][row], scores, strict=True)],
        source_pieces=source_pieces,
        pieces=pieces,
        alignment=found["alignment"][row, : len(pieces), : len(source_pieces)],
    )


def _strings(padded: np.ndarray) -> list[str]:
    return [piece.decode() for piece in padded if piece]
