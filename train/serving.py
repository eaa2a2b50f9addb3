"""A trained model, from its run folder or from an export, as one function."""

from collections.abc import Callable
from pathlib import Path

from tfx_transformer.export import load_classifier, load_export
from tfx_transformer.train.folder import load_classify_run, load_translate_run
from tfx_transformer.train.recipe import Search


def load_translate(folder, n_best: int = 1) -> Callable:
    """Strings (B,) → a dict of tensors: the text, its score, `n_best` others, the alignment.

    Args:
        folder: of a run, or of an export, whose number of translations is fixed.
        n_best: how many translations of each string are needed.
    """
    if (Path(folder) / "saved_model.pb").exists():
        return load_export(folder, n_best)
    run = load_translate_run(folder)
    beam = run.recipe.decoding
    search = Search(n_best=n_best, width=max(n_best, beam.width)) if n_best > 1 else Search()
    return run.translator(search).translate


def load_classify(folder, top_k: int = 5) -> Callable:
    """Bytes of pictures (B,) → a dict of tensors: the label, its score, and the `top_k` likeliest.

    Args:
        folder: of a run, or of an export, whose number of classes is fixed.
        top_k: how many classes are named.
    """
    if (Path(folder) / "saved_model.pb").exists():
        return load_classifier(folder)
    return load_classify_run(folder).classifier(top_k).classify
