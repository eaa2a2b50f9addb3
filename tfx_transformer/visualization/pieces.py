"""Subwords as labels that one can read: without `▁`, `##`, `</s>` and the like."""

import unicodedata
from collections.abc import Iterable

NAMES = {
    "<s>": "(start)",
    "</s>": "(end)",
    "<pad>": "(padding)",
    "<unk>": "(unknown)",
    "[CLS]": "(start)",
    "[SEP]": "(end)",
    "[PAD]": "(padding)",
    "[UNK]": "(unknown)",
    "[MASK]": "(mask)",
    "\n": "(line break)",
    "\t": "(tab)",
    "▁": "(space)",
}
WITHOUT_SPACES = ("CJK", "HIRAGANA", "KATAKANA")  # names of letters; words are not separated
JOINT = "·"  # before a piece that continues a word
RIGHT_TO_LEFT = "\u200f"  # invisible; puts a joint to the right of Arabic and Hebrew letters


def readable(pieces: Iterable) -> list[str]:
    """`["▁ani", "mal", "</s>"]` → `["ani", "·mal", "(end)"]`; labels that are no subwords stay.

    Subwords are recognized by `▁` at the beginning of words (SentencePiece) or `##` inside them
    (WordPiece); single characters with `▁` between the words get no dots. A byte of SentencePiece
    is its character.
    """
    pieces = [_character(str(piece)) for piece in pieces]
    has_starts = any(piece.startswith("▁") and piece != "▁" for piece in pieces)
    labels, before = [], ""
    for piece in pieces:
        if piece in NAMES:
            labels.append(NAMES[piece])
        elif piece.startswith("##") and len(piece) > 2:
            labels.append(JOINT + piece[2:])
        elif piece.startswith("▁"):
            labels.append(_spaced(piece))
        else:
            is_joined = has_starts and before not in NAMES and _continues(before, piece)
            from_right = unicodedata.bidirectional(piece[:1] or " ") in ("R", "AL")
            joint = RIGHT_TO_LEFT * from_right + JOINT
            labels.append(joint * is_joined + _spaced(piece))
        before = piece
    return labels


def _spaced(piece: str) -> str:
    return piece.replace("▁", " ").strip() or piece


def _character(piece: str) -> str:
    """`<0x3A>` → `:`; other bytes than ASCII are parts of a character and keep their number."""
    if len(piece) != 6 or not piece.startswith("<0x") or not piece.endswith(">"):
        return piece
    byte = int(piece[3:5], 16)
    return chr(byte) if 32 < byte < 127 else NAMES.get(chr(byte), f"(byte {piece[3:5]})")


def _continues(before: str, piece: str) -> bool:
    """Whether two neighbors are letters or digits of one word."""
    if not (before[-1:].isalnum() and piece[:1].isalnum()):
        return False
    return not unicodedata.name(piece[0], "").startswith(WITHOUT_SPACES)
