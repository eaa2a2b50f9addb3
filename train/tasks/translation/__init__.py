"""Translation: the options of its recipes."""

from dataclasses import dataclass, field
from typing import Literal

from tfx_transformer.train.options import DecodingOptions
from tfx_transformer.train.recipe import ModelOptions, Recipe


@dataclass(frozen=True)
class TranslationData:
    """Sentence pairs.

    Sources: two line-aligned files, a .tsv file (both may end in .gz), `tfds:NAME/CONFIG`, or
    `embedded:cldr/en-ko` (or any other pair of languages). The last two have train, validation and
    test splits of their own.
    """

    train: tuple[str, ...] = ()
    """One source, or two files."""
    validation: tuple[str, ...] = ()
    """One source, or two files; empty takes the split of `train`'s source."""
    test: tuple[str, ...] = ()
    """One source, or two files; empty takes the split of `train`'s source."""
    vocab_size: int = 8000
    """Number of subwords; fewer if the text has fewer."""
    tokenizer: Literal["unigram", "bpe"] = "unigram"
    """SentencePiece model type."""
    character_coverage: float = 0.9995
    """Fraction of the text whose characters become subwords; the others are written as bytes. 1 is
    better for a small text in a language of many characters."""
    joint: bool = True
    """Use one vocabulary for both languages."""
    max_length: int = 128
    """In tokens: longer pairs are not trained on, longer sources are truncated when translating."""
    token_budget: int = 4096
    """Maximum number of tokens in a batch on each side, with padding."""
    n_best: int = 1
    """Above 1: subword regularization that samples from this many segmentations."""
    noise: float = 0.0
    """Fraction of the training sources that lose tokens at their end or in between, or have them in
    another order; not with n_best above 1."""
    cache: str = ""
    """Folder for the stored pairs and tokens of files, which runs may share; by default that of the
    run."""

    def __str__(self) -> str:
        return " ".join(self.train)


@dataclass(frozen=True)
class TranslationRecipe(Recipe):
    """A translator."""

    task = "translation"
    set_by_task = {"vocab_size": 100, "source_vocab_size": 100}

    data: TranslationData = field(default_factory=TranslationData)
    model: ModelOptions = field(default_factory=lambda: ModelOptions("transformer", "small"))
    decoding: DecodingOptions = field(default_factory=lambda: DecodingOptions(kind="beam"))
    eval_sentences: int = 500
    """Sentences of the validation set to translate at each evaluation, with greedy decoding."""
