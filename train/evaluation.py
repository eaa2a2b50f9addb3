"""How good a finished run is."""

import json
from typing import Any

from tfx_transformer.train.classification import classification_test
from tfx_transformer.train.folder import TranslateRun, load_run
from tfx_transformer.train.recipe import Search
from tfx_transformer.train.translation import translation_test


def evaluate(folder, data: tuple[str, ...] = (), search: Search | None = None) -> dict[str, Any]:
    """Scores a run on its test set, or on other data.

    What the recipe itself asks for (its test set, its decoder) is also written to `test.json`.

    Args:
        folder: of the run.
        data: another test set: one source, or two files of sentences.
        search: another way to search for translations than the recipe's.
    """
    run, search = load_run(folder), search or Search()
    if isinstance(run, TranslateRun):
        scores = translation_test(run, data, search)
    elif search != Search():
        raise ValueError(f"a classifier searches for nothing; got {search}")
    elif len(data) > 1:
        raise ValueError(f"data of a classifier must be one source; got {' '.join(data)}")
    else:
        scores = classification_test(run, *data)
    if not data and search == Search():
        (run.folder / "test.json").write_text(json.dumps(scores, indent=2) + "\n")
    return scores
