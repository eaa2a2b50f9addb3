"""A trained model, from its run folder or from an export, as one function."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from tfx_transformer.convert.hub import find_folder
from tfx_transformer.convert.marian import is_marian
from tfx_transformer.export import (
    load_captioner,
    load_classifier,
    load_export,
    load_generator,
    load_text_classifier,
)
from tfx_transformer.train.folder import (
    load_caption_run,
    load_classify_run,
    load_classify_text_run,
    load_language_run,
    load_translate_run,
)
from tfx_transformer.train.foreign import load_foreign
from tfx_transformer.train.searching import Search


def load_translate(folder, n_best: int = 1) -> Callable:
    """Strings (B,) → a dict of tensors: the text, its score, `n_best` others, the alignment.

    Args:
        folder: of a run; of an export, whose number of translations is fixed; or of Hugging Face,
            with a Marian, also as hf:OWNER/NAME.
        n_best: how many translations of each string are needed.
    """
    folder = find_folder(folder)
    if (folder / "saved_model.pb").exists():
        return load_export(folder, n_best)
    if is_marian(folder):
        return load_foreign(folder, Search(n_best=n_best) if n_best > 1 else None).translate
    run = load_translate_run(folder)
    beam = run.recipe.decoding
    search = Search(n_best=n_best, width=max(n_best, beam.width)) if n_best > 1 else Search()
    return run.translator(search).translate


def load_classify(folder, top_k: int = 1) -> Callable:
    """Bytes of pictures (B,) → a dict of tensors: the label, its score, and the `top_k` likeliest.

    Args:
        folder: of a run, or of an export, whose number of classes is fixed.
        top_k: how many classes are named.
    """
    if (Path(folder) / "saved_model.pb").exists():
        return check_top_k(folder, top_k, load_classifier(folder))
    return load_classify_run(folder).classifier(top_k).classify


def load_caption(folder) -> Callable:
    """Bytes of pictures (B,) → a dict of tensors: the text, its score, the weights of regions.

    Args:
        folder: of a run, or of an export.
    """
    if (Path(folder) / "saved_model.pb").exists():
        return load_captioner(folder)
    return load_caption_run(folder).captioner().caption


def load_classify_text(folder, top_k: int = 1) -> Callable:
    """Strings (B,) → a dict of tensors: the label, its score, and the `top_k` likeliest.

    Args:
        folder: of a run, or of an export, whose number of classes is fixed.
        top_k: how many classes are named.
    """
    if (Path(folder) / "saved_model.pb").exists():
        return check_top_k(folder, top_k, load_text_classifier(folder))
    return load_classify_text_run(folder).classifier(top_k).classify


def check_top_k(folder, top_k: int, function: Callable) -> Callable:
    """The function of an export, whose answers must have as many classes."""

    def checked(inputs):
        found = function(inputs)
        count = found["labels"].shape[1]
        if top_k > count:
            raise ValueError(
                f"top_k must be at most {count}, with which {folder} was exported; got {top_k}"
            )
        return found

    return checked


def load_generate(folder, temperature=None, top_k=None, top_p=None, seed=None) -> Callable:
    """A prompt and a largest number of tokens → the parts of what follows, as they come.

    Args:
        folder: of a run, or of an export, which gives all at once and draws as it was made to.
        temperature, top_k, top_p: as of "sample", where they are not None; a temperature of 0 is
            "greedy".
        seed: of what is drawn.
    """
    changes = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    changes = {name: value for name, value in changes.items() if value is not None}
    if (Path(folder) / "saved_model.pb").exists():
        if changes or seed is not None:
            raise ValueError(f"{folder} is an export, whose way to draw is fixed; got {changes}")
        function = load_generator(folder)
        return lambda prompt, length: iter([function([prompt], length)["text"][0].numpy().decode()])
    run = load_language_run(folder)
    kind = "greedy" if temperature == 0 else "sample"
    if run.recipe.decoding.kind == "greedy" and not changes:
        kind = "greedy"
    return run.stream(dataclasses.replace(run.recipe.decoding, **changes, kind=kind), seed)
