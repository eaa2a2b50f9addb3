"""Masked language modeling: the options of its recipes."""

from dataclasses import dataclass, field
from typing import Literal

from tfx_transformer.train.recipe import ModelOptions, Recipe
from tfx_transformer.train.tasks.language_model import PlainTextData


@dataclass(frozen=True)
class MaskedLanguageModelData(PlainTextData):
    """A text with one sentence in each line."""

    tokenizer: Literal["unigram", "bpe"] = "unigram"
    """SentencePiece model type."""
    vocab_size: int = 8000
    """Number of subwords; fewer if the text has fewer."""
    max_length: int = 128
    """Tokens in a sequence: a longer line is split."""
    lower_case: bool = False
    """Convert the text to lower case."""
    token_budget: int = 4096
    """Maximum number of tokens in a batch, with padding."""
    rate: float = 0.15
    """Fraction of tokens to predict."""
    whole_words: bool = False
    """Mask whole words instead of subwords."""


@dataclass(frozen=True)
class MaskedLanguageModelRecipe(Recipe):
    """A masked language model, to be fine-tuned by other recipes."""

    task = "masked_language_model"
    set_by_task = {
        "vocab_size": 100,
        "max_length": 128,
        "head": "mlm",
        "num_classes": None,
        "next_sentence": False,
    }

    label_smoothing: float = 0.0
    data: MaskedLanguageModelData = field(default_factory=MaskedLanguageModelData)
    model: ModelOptions = field(default_factory=lambda: ModelOptions("bert", "tiny"))
    eval_batches: int = 50
    """Batches of the validation set to use at each evaluation."""
