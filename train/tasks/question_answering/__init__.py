"""Question answering about stories: the options of its recipes."""

from dataclasses import dataclass, field

from tfx_transformer.train.recipe import ModelOptions, Recipe


@dataclass(frozen=True)
class QuestionAnsweringData:
    """Stories with questions.

    Sources: a file in the format of bAbI (.txt, also .gz), a folder of files …_train.txt and
    …_test.txt, or `embedded:stories`, or some kinds of it: `embedded:stories/one_fact-two_facts`.
    """

    train: str = ""
    """A source."""
    validation: str = ""
    """A source; empty takes the split of `train`'s source, or a tenth of its stories."""
    test: str = ""
    """A source; empty takes the split of `train`'s source, or a tenth of its stories."""
    batch_size: int = 32
    """Questions in a batch."""

    def __str__(self) -> str:
        return self.train


@dataclass(frozen=True)
class QuestionAnsweringRecipe(Recipe):
    """A memory network."""

    task = "question_answering"
    set_by_task = {"vocab_size": 100}

    label_smoothing: float = 0.0
    data: QuestionAnsweringData = field(default_factory=QuestionAnsweringData)
    model: ModelOptions = field(default_factory=lambda: ModelOptions("memory_network", "joint"))
