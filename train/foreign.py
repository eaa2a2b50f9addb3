"""Translators that others trained, and the formats of others, for the commands."""

import dataclasses
from pathlib import Path
from typing import Any

from tfx_transformer.convert.marian import is_marian, load_marian, read_config, read_decoder
from tfx_transformer.convert.to_ctranslate2 import export_ctranslate2
from tfx_transformer.export import export_translator
from tfx_transformer.train.folder import load_translate_run
from tfx_transformer.train.searching import Search
from tfx_transformer.translator import Translator


def load_foreign(folder, search: Search | None = None, jit_compile: bool = False) -> Translator:
    """A folder of Hugging Face with a Marian, and another way to search than it says."""
    own = {k: v for k, v in dataclasses.asdict(search or Search()).items() if v is not None}
    max_length = own.pop("max_length", None)
    decoder = change_decoder(read_decoder(read_config(Path(folder))), own)
    return load_marian(folder, decoder, max_length, jit_compile)


def change_decoder(decoder: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Another kind begins anew; of the same kind only what is said changes."""
    if changes.get("n_best", 1) > 1:
        width = max(changes["n_best"], decoder.get("width", 4))
        changes = {"kind": "beam", "width": width} | changes
    if changes.get("kind", decoder["kind"]) != decoder["kind"]:
        return changes
    return decoder | changes


def export_foreign(
    folder, to, format: str, search: Search | None = None, ids_only=False, jit_compile=False
) -> Path:
    """A translator, of a run or of others, as a SavedModel or as a folder of CTranslate2."""
    if format not in ("saved_model", "ctranslate2"):
        raise ValueError(f"a translator's format must be saved_model or ctranslate2; got {format}")
    if is_marian(folder):
        translator, card = load_foreign(folder, search, jit_compile), f"From {Path(folder).name}.\n"
    else:
        run = load_translate_run(folder)
        translator, card = run.translator(search, jit_compile), run.card()
    if format == "ctranslate2":
        return export_ctranslate2(translator, to, card)
    return export_translator(translator, to, card, ids_only)
