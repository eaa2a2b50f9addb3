"""What experiments on text alone are made of; as in `recipe.py`."""

from dataclasses import dataclass, field
from typing import Literal

from tfx_transformer.train.recipe import Model, Optimizer, Recipe
from tfx_transformer.train.searching import Decoding


@dataclass(frozen=True)
class TextData:
    """A text to learn a language from."""

    train: str = ""
    """A UTF-8 file."""
    validation: str = ""
    """The same; empty takes a twentieth from the end of `train`."""
    test: str = ""
    """The same; empty takes the last twentieth."""

    def __str__(self) -> str:
        return self.train


@dataclass(frozen=True)
class LanguageData(TextData):
    """A text that is to be continued."""

    tokenizer: Literal["char", "unigram", "bpe"] = "char"
    """Characters, or one of two ways to find subwords."""
    vocab_size: int = 8000
    """Subwords; fewer if the text does not have so many."""
    max_length: int = 256
    """Tokens that are read together: the model's positions."""
    batch_size: int = 32


@dataclass(frozen=True)
class LanguageModel(Model):
    """A model that continues texts."""

    name: str = "gpt"


@dataclass(frozen=True)
class LanguageRecipe(Recipe):
    """A language model."""

    label_smoothing: float = 0.0
    data: LanguageData = field(default_factory=LanguageData)
    model: LanguageModel = field(default_factory=LanguageModel)
    decoding: Decoding = field(default_factory=lambda: Decoding("sample"))
    eval_batches: int = 50
    """Of the validation set, at each evaluation."""


@dataclass(frozen=True)
class MaskData(TextData):
    """A text, a sentence in each line, of which some words are hidden."""

    tokenizer: Literal["unigram", "bpe"] = "unigram"
    vocab_size: int = 8000
    """Subwords; fewer if the text does not have so many."""
    max_length: int = 128
    """Of a row, in tokens: a longer line becomes several."""
    lower_case: bool = False
    """Make no difference between small and capital letters."""
    token_budget: int = 4096
    """Positions in a batch."""
    rate: float = 0.15
    """The share of tokens that are asked for."""
    whole_words: bool = False
    """Hide words, not their parts."""


@dataclass(frozen=True)
class EncoderModel(Model):
    """A model that reads texts both ways."""

    name: str = "bert"


@dataclass(frozen=True)
class MaskRecipe(Recipe):
    """A model that learns to fill in blanks, as a start for others."""

    label_smoothing: float = 0.0
    data: MaskData = field(default_factory=MaskData)
    model: EncoderModel = field(default_factory=EncoderModel)
    eval_batches: int = 50
    """Of the validation set, at each evaluation."""


@dataclass(frozen=True)
class ClassifyTextData:
    """What is classified.

    Sources: a file text<TAB>label (.tsv) or with columns text and label (.csv), both may end in
    .gz; `tfds:NAME/CONFIG`; or `embedded:languages`, names of emoji in eight languages.
    """

    train: str = ""
    """A source."""
    validation: str = ""
    """The same; empty takes the split of `train`'s source, or a tenth of it."""
    test: str = ""
    """The same."""
    tokenizer: Literal["unigram", "bpe"] = "unigram"
    vocab_size: int = 8000
    """Subwords; fewer if the text does not have so many."""
    max_length: int = 128
    """In tokens: longer texts are cut."""
    lower_case: bool = False
    """Make no difference between small and capital letters."""
    batch_size: int = 32

    def __str__(self) -> str:
        return self.train


@dataclass(frozen=True)
class ClassifyTextRecipe(Recipe):
    """A classifier of texts."""

    label_smoothing: float = 0.0
    data: ClassifyTextData = field(default_factory=ClassifyTextData)
    model: EncoderModel = field(default_factory=EncoderModel)
    optimizer: Optimizer = field(default_factory=Optimizer)
    weights: str = ""
    """What to start from, with a new head: the folder of a run that filled in blanks, or of a BERT
    of Hugging Face (model.safetensors, vocab.txt, config.json). Sizes and vocabulary are theirs."""
