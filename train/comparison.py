"""Translators side by side: what each costs, how good it is, and on which sentences."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from tfx_transformer.callbacks import Record
from tfx_transformer.curve_plots import plot_by_length
from tfx_transformer.data import Pairs
from tfx_transformer.lines import translate_lines
from tfx_transformer.metrics import translation_scores
from tfx_transformer.train.folder import TranslateRun, load_translate_run
from tfx_transformer.train.translation import load_split, perplexity_meter

GROUPS = 5  # of sentences, from short to long


def compare(folders: Sequence[str], to) -> tuple[str, Path]:
    """Scores runs on their common test set, one after the other, on this machine.

    Args:
        folders: of the runs; each is called by its folder's name.
        to: where the table, `comparison.md`, and the picture, `bleu_by_length.png`, go.

    Returns:
        The table, as Markdown, and where the picture is.
    """
    runs = [load_translate_run(folder) for folder in folders]
    if not runs:
        raise ValueError("folders must name at least one run")
    names = [run.folder.resolve().name for run in runs]
    if len(set(names)) < len(names):
        raise ValueError(f"runs must have folders of different names; got {' '.join(names)}")
    sources = [" ".join(run.recipe.data.test or run.recipe.data.train) for run in runs]
    for run, source in zip(runs, sources, strict=True):
        if source != sources[0]:
            raise ValueError(
                f"all runs must have one test set; {runs[0].folder} has {sources[0]}, "
                f"{run.folder} has {source}"
            )
    pairs = load_split(runs[0].recipe.data)
    groups = by_length(pairs)
    measured = {name: measure(run, pairs, groups) for name, run in zip(names, runs, strict=True)}

    to = Path(to)
    to.mkdir(parents=True, exist_ok=True)
    words = [np.mean([len(pairs.source[i].split()) for i in group]) for group in groups]
    scores = {name: columns.pop("groups") for name, columns in measured.items()}
    title = " ".join(Path(source).name for source in pairs.name.split(","))
    picture = plot_by_length(words, scores, to / "bleu_by_length.png", title)
    for name, columns in measured.items():
        named = zip(group_names(pairs, groups), scores[name], strict=True)
        columns |= {group: f"{score:.1f}" for group, score in named}
    table = make_table(measured)
    (to / "comparison.md").write_text(table)
    return table, picture


def by_length(pairs: Pairs, count: int = GROUPS) -> list[np.ndarray]:
    """The numbers of the pairs in about equal groups of growing source length, in words.

    Sentences of one length stay together.
    """
    lengths = np.array([len(text.split()) for text in pairs.source])
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, count + 1)[1:-1], method="lower"))
    places = np.searchsorted(edges, lengths)
    return [np.flatnonzero(places == place) for place in np.unique(places)]


def group_names(pairs: Pairs, groups) -> list[str]:
    """How many words the sources of each group have: "BLEU, 8–10 words"."""
    spans = [[len(pairs.source[i].split()) for i in group] for group in groups]
    ends = [sorted({min(span), max(span)}) for span in spans]
    return [f"BLEU, {'–'.join(map(str, end))} words" for end in ends]


def measure(run: TranslateRun, pairs: Pairs, groups) -> dict:
    """The row of one run, without its name."""
    translate = run.translator().translate
    list(translate_lines(translate, pairs.source[:2]))  # traced
    lines = tqdm(
        translate_lines(translate, pairs.source), run.folder.name, len(pairs), disable=None
    )
    start = time.perf_counter()
    found = list(lines)
    seconds = time.perf_counter() - start
    said = [translation.text for translation in found]
    scores = translation_scores(said, pairs.target)
    perplexity = perplexity_meter(run.model, run.recipe.data, run.tokenizers)(pairs)
    records = Record(run.folder / "metrics.jsonl").read()
    return {
        "parameters": f"{run.model.count_params():,}",
        "updates": f"{records[-1]['step']:,}",
        "BLEU": f"{scores['bleu']:.1f}",
        "chrF": f"{scores['chrf']:.1f}",
        "perplexity": f"{perplexity:.2f}",
        "training tokens/s": f"{np.median([r['tokens_per_second'] for r in records]):,.0f}",
        "decoding tokens/s": f"{sum(len(one.pieces) for one in found) / seconds:,.0f}",
        "groups": [
            translation_scores([said[i] for i in group], [pairs.target[i] for i in group])["bleu"]
            for group in groups
        ],
    }


def make_table(rows: dict[str, dict[str, str]]) -> str:
    """Markdown: a line for each row, its name first."""
    columns = list(next(iter(rows.values())))
    lines = [["model", *columns], ["---", *["---:" for _ in columns]]]
    lines += [[name, *row.values()] for name, row in rows.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
