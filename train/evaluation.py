"""How good a finished run is."""

import json
from typing import Any

from tfx_transformer.train.captioning import captioning_test
from tfx_transformer.train.classification import classification_test
from tfx_transformer.train.folder import (
    NAMES,
    CaptionRun,
    ClassifyRun,
    ClassifyTextRun,
    LanguageRun,
    MaskRun,
    TranslateRun,
    load_run,
)
from tfx_transformer.train.language import language_test
from tfx_transformer.train.masked_language import masked_language_test
from tfx_transformer.train.searching import Search
from tfx_transformer.train.text_classification import text_classification_test
from tfx_transformer.train.translation import translation_test

SEARCHING: dict[Any, Any] = {TranslateRun: translation_test, CaptionRun: captioning_test}
OTHERS: dict[Any, Any] = {
    ClassifyRun: classification_test,
    ClassifyTextRun: text_classification_test,
    LanguageRun: language_test,
    MaskRun: masked_language_test,
}


def evaluate(folder, data: tuple[str, ...] = (), search: Search | None = None) -> dict[str, Any]:
    """Scores a run on its test set, or on other data.

    What the recipe itself asks for (its test set, its decoder) is also written to `test.json`.

    Args:
        folder: of the run.
        data: another test set: one source, two files of sentences, or pictures, their captions
            and a file of names, without which a hash chooses a tenth of the pictures.
        search: another way to search for sentences than the recipe's.
    """
    run, search = load_run(folder), search or Search()
    kind, name = type(run), NAMES[type(run)]
    if kind in SEARCHING:
        scores = SEARCHING[kind](run, data, search)
    elif search != Search():
        raise ValueError(f"a {name} searches for nothing; got {search}")
    elif len(data) > 1:
        raise ValueError(f"data of a {name} must be one source; got {' '.join(data)}")
    else:
        scores = OTHERS[kind](run, *data)
    if not data and search == Search():
        (run.folder / "test.json").write_text(json.dumps(scores, indent=2) + "\n")
    return scores
