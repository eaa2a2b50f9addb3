"""Image classification: the options of its recipes."""

from dataclasses import dataclass, field
from typing import Literal

from tfx_transformer.data.images.options import Augmentation, ImageOptions
from tfx_transformer.train.recipe import ADAMW, ModelOptions, OptimizerOptions, Recipe


@dataclass(frozen=True)
class ClassificationData(ImageOptions):
    """Images with a class each."""

    source: str = ""
    """A folder (or .zip) with a sub-folder for each class, with or without train, val and test
    above them; a .npz file; `tfds:NAME`; `embedded:mnist`; or `embedded:digits`."""
    batch_size: int = 128
    """Images in a batch."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: in training the images of all classes together have the same weight."""
    cache: str = ""
    """Folder that remembers the checked images of a folder over 1 GB, which runs may share; by
    default that of the run."""

    def __str__(self) -> str:
        return self.source


@dataclass(frozen=True)
class ClassificationRecipe(Recipe):
    """An image classifier."""

    task = "classification"
    required, set_by_task = "source", {"num_classes": 2}

    optimizer: OptimizerOptions = field(default_factory=lambda: ADAMW)
    data: ClassificationData = field(default_factory=ClassificationData)
    augment: Augmentation = field(default_factory=Augmentation)
    model: ModelOptions = field(default_factory=lambda: ModelOptions("vit", "ti16"))
    weights: str = ""
    """Fine-tune from these weights, with a new head for other classes: a run folder, or a
    checkpoint of timm, Hugging Face or AugReg. Sizes come from the run, or from config.json."""
