"""What the tasks on text share: splits of a text file, tokenizers, evaluation, plots."""

import abc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.data import Tokenizer, train_tokenizer
from tfx_transformer.data.text.language import load_text
from tfx_transformer.data.text.wordpiece import WordPiece
from tfx_transformer.train.tasks.base import (
    Evaluation,
    Evaluator,
    Task,
    check_one_source,
    layer_index,
    refuse,
    timed,
)
from tfx_transformer.train.tasks.language_model import PlainTextData
from tfx_transformer.training.token_metrics import TokenMetrics

FRACTION = 0.05  # of a file, for each split without a file of its own
TOKENIZER = "tokenizer/text.model"


def read_splits(data: PlainTextData) -> dict[str, str]:
    """The texts of train, validation and test.

    Splits without a file are cut from the end of the training text, the test set last.
    """
    text = load_text(data.train)
    named = {"test": data.test, "validation": data.validation}
    splits, size = {}, max(round(FRACTION * len(text)), 1)
    for name, path in named.items():
        if path:
            splits[name] = load_text(path)
        else:
            text, splits[name] = cut(text, size)
    return {"train": text} | splits


def cut(text: str, size: int) -> tuple[str, str]:
    """A text without its last `size` characters, and these; cut at a line break if possible."""
    index = max(len(text) - size, 0)
    line = text.find("\n", max(index - 1, 0)) + 1
    index = line if 0 < line < len(text) else index
    return text[:index], text[index:]


def stored_tokenizer(folder: Path, make: Callable[[], Tokenizer | WordPiece]) -> Any:
    """The tokenizer of a run folder; made and saved if it is not there yet."""
    path = folder / TOKENIZER
    if not any(path.parent.glob("*")):
        path.parent.mkdir(parents=True, exist_ok=True)
        tokenizer = make()
        tokenizer.save(path if isinstance(tokenizer, Tokenizer) else path.parent)
    return load_tokenizer(folder)


def sentence_tokenizer(data, texts: list[str], folder: Path) -> Tokenizer:
    """A SentencePiece tokenizer with the options of `data`, trained on texts."""
    normalization = "nmt_nfkc_cf" if data.lower_case else "nmt_nfkc"
    options = data.vocab_size, data.tokenizer, normalization
    return stored_tokenizer(folder, lambda: train_tokenizer(texts, *options))


def load_tokenizer(folder: Path) -> Tokenizer | WordPiece:
    """The tokenizer of a run folder: SentencePiece, or the vocabulary of a BERT."""
    path = folder / TOKENIZER
    return Tokenizer.load(path) if path.exists() else WordPiece.load(path.parent)


def plot_heads(run, ids, attention_maps, path: Callable[[str], Path], layer: int, title="") -> Path:
    """The attention of each head in one block, for T token ids and the model's maps of them."""
    from tfx_transformer.visualization import attention

    depth = run.model.depth
    index = layer_index(layer, depth, "block")
    pieces = [run.task.tokenizer.pieces[id] for id in ids]
    weights = np.asarray(attention_maps[f"block_{index}/self"])[0]  # (H, T, T)
    title += f"Which tokens each token attends to, block {index + 1} of {depth}"
    return attention.plot_heads(weights, path("heads"), pieces, pieces, title)


def check_text(text: str) -> None:
    if not text.strip():
        raise ValueError(f"the text must contain a word; got {text!r}")


class PlainTextTask(Task):
    """A task on a text file, whose model is scored token by token."""

    def load_data(self):
        self.texts = read_splits(self.recipe.data)

    def restore(self, folder):
        self.tokenizer = load_tokenizer(folder)

    @abc.abstractmethod
    def evaluation_data(self, text: str) -> Any:
        """All tokens of a text, in batches."""

    def measure(self, run, data, options) -> tuple[dict[str, float], float, str]:
        """The scores of a test set, the seconds that they took, and the text."""
        refuse(self.noun, options)
        check_one_source(self.noun, data)
        text = load_text(*data) if data else read_splits(self.recipe.data)["test"]
        metrics = TokenMetrics(run.model, self.evaluation_data(text), self.workers)
        metrics(1)  # traces
        return *timed(metrics), text


class TokenEvaluator(Evaluator):
    """Log-probability, perplexity and accuracy on the first batches of the validation set.

    `sample` returns samples, of which `shown` are printed.
    """

    def __init__(self, task: PlainTextTask, model, sample: Callable[[], list[str]], shown: int):
        data = task.evaluation_data(task.texts["validation"])
        self.metrics = TokenMetrics(model, data, task.workers)
        self.batches, self.sample, self.shown = task.recipe.eval_batches, sample, shown

    def evaluate(self, whole=False):
        scores = self.metrics(-1 if whole else self.batches)
        scores.pop("tokens")
        summary = f"perplexity {scores['perplexity']:.3f} · accuracy {scores['accuracy']:.2f} %"
        samples = self.sample() if self.metrics.workers.is_chief else []
        return Evaluation(scores, summary, samples)
