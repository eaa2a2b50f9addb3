"""A run's model as a SavedModel, whatever kind it is of, or in the format of others."""

from pathlib import Path

from tfx_transformer.export import (
    export_captioner,
    export_classifier,
    export_generator,
    export_text_classifier,
    export_translator,
)
from tfx_transformer.portable import FORMATS, export_portable
from tfx_transformer.train.folder import (
    NAMES,
    AnyRun,
    CaptionRun,
    ClassifyRun,
    ClassifyTextRun,
    LanguageRun,
    TranslateRun,
)
from tfx_transformer.train.searching import Search


def export_run(
    run: AnyRun,
    to,
    search: Search | None = None,
    ids_only: bool = False,
    jit_compile: bool = False,
    top_k: int | None = None,
    format: str = "saved_model",
) -> Path:
    """Writes the folder `to`, which must not be there yet.

    Args:
        run: from `load_run`.
        to: where to.
        search: another way to search than the recipe's.
        ids_only: of a translator: token ids in and out.
        jit_compile: of a translator or an image classifier: whether XLA compiles it.
        top_k: classes that a classifier names, 5 if None; tokens out of which a language model
            draws, as the recipe has it if None.
        format: "saved_model"; of an image classifier also a name in FORMATS.
    """
    if format in FORMATS and isinstance(run, ClassifyRun):
        return export_portable(run.classifier(), to, format, run.card())
    if format != "saved_model":
        own = "saved_model or ctranslate2" if isinstance(run, TranslateRun) else "saved_model"
        raise ValueError(
            f"{run.folder} holds a {NAMES[type(run)]}, whose format must be {own}; {format} has no "
            "ops for texts and for loops over words"
        )
    if isinstance(run, TranslateRun):
        return export_translator(run.translator(search, jit_compile), to, run.card(), ids_only)
    if isinstance(run, CaptionRun):
        return export_captioner(run.captioner(search), to, run.card())
    if isinstance(run, LanguageRun):
        return export_generator(run.generator(search, top_k), to, run.card())
    if isinstance(run, ClassifyRun):
        return export_classifier(run.classifier(top_k or 5, jit_compile), to, run.card())
    if isinstance(run, ClassifyTextRun):
        return export_text_classifier(run.classifier(top_k or 5), to, run.card())
    raise ValueError(
        f"{run.folder} holds a {NAMES[type(run)]}, which is a start for others: "
        f"tfx-transformer train classify_text --weights {run.folder}"
    )
