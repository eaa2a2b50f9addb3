"""Tasks: what differs between translation, classification and so on, one folder for each.

A folder holds the recipe (`__init__.py`), the task itself (`task.py`), its plots (`plots.py`) and,
if a trained model is used by a command of its own, that command (`command.py`). This module and the
recipes and commands import no TensorFlow.
"""

import importlib
import importlib.util
from typing import Any

from tfx_transformer.train.recipe import Recipe
from tfx_transformer.train.tasks.captioning import CaptioningRecipe
from tfx_transformer.train.tasks.classification import ClassificationRecipe
from tfx_transformer.train.tasks.image_generation import ImageGenerationRecipe
from tfx_transformer.train.tasks.language_model import LanguageModelRecipe
from tfx_transformer.train.tasks.masked_language_model import MaskedLanguageModelRecipe
from tfx_transformer.train.tasks.question_answering import QuestionAnsweringRecipe
from tfx_transformer.train.tasks.text_classification import TextClassificationRecipe
from tfx_transformer.train.tasks.translation import TranslationRecipe

TASKS: dict[str, type[Recipe]] = {
    "captioning": CaptioningRecipe,
    "classification": ClassificationRecipe,
    "image_generation": ImageGenerationRecipe,
    "language_model": LanguageModelRecipe,
    "masked_language_model": MaskedLanguageModelRecipe,
    "question_answering": QuestionAnsweringRecipe,
    "text_classification": TextClassificationRecipe,
    "translation": TranslationRecipe,
}


def load_task(name: str) -> Any:
    """The task class in train/tasks/<name>/task.py; imports TensorFlow."""
    return importlib.import_module(f"{__name__}.{name}.task").TASK


def load_commands() -> dict[str, Any]:
    """The commands of all tasks by name: {"translate": translate, …}."""
    commands = {}
    for name in TASKS:
        if importlib.util.find_spec(f"{__name__}.{name}.command"):
            command = importlib.import_module(f"{__name__}.{name}.command").COMMAND
            commands[command.__name__.replace("_", "-")] = command
    return commands
