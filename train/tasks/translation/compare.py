"""Comparison of translators on one test set: cost, quality, and quality by sentence length."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tfx_transformer.data import Pairs
from tfx_transformer.files import write_file
from tfx_transformer.train.run_folder import Run
from tfx_transformer.train.tasks.base import timed
from tfx_transformer.train.tasks.translation.task import load_split
from tfx_transformer.training.callbacks import MetricsLog
from tfx_transformer.training.metrics import translation_scores
from tfx_transformer.visualization.curves import plot_by_length

GROUPS = 5  # of sentences, from short to long


def compare(runs: Sequence[Run], to) -> tuple[str, Path]:
    """Scores runs on their common test set, one after the other, on this machine.

    Writes comparison.md and bleu_by_length.png → the table, as Markdown, and the picture's path.
    """
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
    lengths = np.array([len(text.split()) for text in pairs.source])
    groups = group_by_length(lengths)
    measured = {name: measure(run, pairs, groups) for name, run in zip(names, runs, strict=True)}

    to = Path(to)
    to.mkdir(parents=True, exist_ok=True)
    words = [lengths[group].mean() for group in groups]
    scores = {name: columns.pop("groups") for name, columns in measured.items()}
    title = f"BLEU of {len(pairs):,} test sentences, by the length of the source"
    picture = plot_by_length(words, scores, to / "bleu_by_length.png", title)
    for name, columns in measured.items():
        for group, score in zip(groups, scores[name], strict=True):
            ends = sorted({lengths[group].min(), lengths[group].max()})
            columns[f"BLEU, {'–'.join(map(str, ends))} words"] = f"{score:.1f}"
    table = make_table(measured)
    write_file(to / "comparison.md", table)
    return table, picture


def group_by_length(lengths: np.ndarray) -> list[np.ndarray]:
    """Indices in groups of about equal size and increasing length; one length is in one group."""
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, GROUPS + 1)[1:-1], method="lower"))
    groups = np.searchsorted(edges, lengths)
    return [np.flatnonzero(groups == group) for group in np.unique(groups)]


def measure(run: Run, pairs: Pairs, groups) -> dict:
    """The columns of one run."""
    translator = run.pipeline()
    translator.results(pairs.source[:2])  # traces
    results, seconds = timed(lambda: translator.results(pairs.source, progress=run.folder.name))
    texts = [result.text for result in results]
    scores = translation_scores(texts, pairs.target)
    perplexity = run.task.token_metrics(run.model, pairs)()["perplexity"]
    records = MetricsLog(run.folder / "metrics.jsonl").read()
    return {
        "parameters": f"{run.model.count_params():,}",
        "steps": f"{records[-1]['step']:,}",
        "BLEU": f"{scores['bleu']:.1f}",
        "chrF": f"{scores['chrf']:.1f}",
        "perplexity": f"{perplexity:.2f}",
        "training tokens/s": f"{np.median([r['tokens_per_second'] for r in records]):,.0f}",
        "decoding tokens/s": f"{sum(len(result.pieces) for result in results) / seconds:,.0f}",
        "groups": [
            translation_scores([texts[i] for i in group], [pairs.target[i] for i in group])["bleu"]
            for group in groups
        ],
    }


def make_table(rows: dict[str, dict[str, str]]) -> str:
    """A Markdown table with one line for each row, its name first."""
    columns = list(next(iter(rows.values())))
    lines = [["model", *columns], ["---", *["---:" for _ in columns]]]
    lines += [[name, *row.values()] for name, row in rows.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
