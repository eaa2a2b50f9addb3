"""Language modeling: the options of its recipes."""

from dataclasses import dataclass, field
from typing import Literal

from tfx_transformer.train.options import DecodingOptions
from tfx_transformer.train.recipe import ModelOptions, Recipe


@dataclass(frozen=True)
class PlainTextData:
    """A text file."""

    train: str = ""
    """A UTF-8 file."""
    validation: str = ""
    """A UTF-8 file; empty takes 5 % from the end of `train`."""
    test: str = ""
    """A UTF-8 file; empty takes the last 5 % of `train`."""

    def __str__(self) -> str:
        return self.train


@dataclass(frozen=True)
class LanguageModelData(PlainTextData):
    """A text to learn to continue."""

    tokenizer: Literal["char", "unigram", "bpe"] = "char"
    """Characters, or a SentencePiece model type."""
    vocab_size: int = 8000
    """Number of subwords; fewer if the text has fewer. Not used for characters."""
    max_length: int = 256
    """Context length in tokens: the number of positions of the model."""
    batch_size: int = 32
    """Sequences in a batch."""


@dataclass(frozen=True)
class LanguageModelRecipe(Recipe):
    """A language model."""

    task = "language_model"
    set_by_task = {"vocab_size": 100, "max_length": 128}

    label_smoothing: float = 0.0
    data: LanguageModelData = field(default_factory=LanguageModelData)
    model: ModelOptions = field(default_factory=lambda: ModelOptions("gpt", "small"))
    decoding: DecodingOptions = field(default_factory=lambda: DecodingOptions(kind="sample"))
    eval_batches: int = 50
    """Batches of the validation set to use at each evaluation."""
