"""Text classification: the options of its recipes."""

from dataclasses import dataclass, field
from typing import Literal

from tfx_transformer.train.recipe import ModelOptions, Recipe


@dataclass(frozen=True)
class TextClassificationData:
    """Texts with a class each.

    Sources: a file text<TAB>label (.tsv) or with columns text and label (.csv), both may end in
    .gz; `tfds:NAME/CONFIG`; or `embedded:languages`, names of emoji in eight languages.
    """

    train: str = ""
    """A source."""
    validation: str = ""
    """A source; empty takes the split of `train`'s source, or a tenth of it."""
    test: str = ""
    """A source; empty takes the split of `train`'s source, or a tenth of it."""
    tokenizer: Literal["unigram", "bpe"] = "unigram"
    """SentencePiece model type."""
    vocab_size: int = 8000
    """Number of subwords; fewer if the text has fewer."""
    max_length: int = 128
    """In tokens: longer texts are truncated."""
    lower_case: bool = False
    """Convert the texts to lower case."""
    batch_size: int = 32
    """Texts in a batch."""

    def __str__(self) -> str:
        return self.train


@dataclass(frozen=True)
class TextClassificationRecipe(Recipe):
    """A text classifier."""

    task = "text_classification"
    set_by_task = {
        "vocab_size": 100,
        "max_length": 128,
        "head": "classify",
        "num_classes": 2,
        "next_sentence": False,
    }

    label_smoothing: float = 0.0
    data: TextClassificationData = field(default_factory=TextClassificationData)
    model: ModelOptions = field(default_factory=lambda: ModelOptions("bert", "tiny"))
    weights: str = ""
    """Fine-tune from these weights, with a new head: the run folder of a masked language model, or
    a folder of a Hugging Face BERT (model.safetensors, vocab.txt, config.json). They also give the
    vocabulary and the sizes."""
