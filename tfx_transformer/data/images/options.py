"""How image files become the input of a model: options, without an import of TensorFlow."""

from dataclasses import dataclass
from typing import Any, Literal

from tfx_transformer.checks import check_choice, check_fraction, check_positive

MAX_PIXELS = 2**26


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """The same in training, evaluation, use and exports."""

    resize: Literal["crop", "squash", "pad"] = "crop"
    """How an image becomes a square: crop cuts the longer side; squash changes the aspect ratio;
    pad adds gray to the shorter side."""
    crop_ratio: float = 1.0
    """The middle of the square that is kept, as a fraction of its side; not with augment.crop
    resized."""
    normalization: Literal["half", "imagenet"] = "half"
    """Mean and standard deviation of pixels: 0.5 and 0.5, or those of ImageNet."""
    max_pixels: int = MAX_PIXELS
    """Images with more pixels are skipped, before they are decoded."""

    def __post_init__(self):
        check_choice("crop", "squash", "pad", resize=self.resize)
        check_choice("half", "imagenet", normalization=self.normalization)
        check_fraction(crop_ratio=self.crop_ratio)
        check_positive(max_pixels=self.max_pixels)

    @property
    def image_options(self) -> dict[str, Any]:
        """These options alone, as arguments of pipelines and batches."""
        return {name: getattr(self, name) for name in ImageOptions.__dataclass_fields__}
