"""Options of image files and of their augmentation, without an import of TensorFlow."""

from dataclasses import dataclass
from typing import Any, Literal

from tfx_transformer.checks import (
    check_choice,
    check_fraction,
    check_positive,
    check_rate,
    check_whole,
)

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


@dataclass(frozen=True)
class Augmentation:
    """Random changes of training images, sampled anew in each epoch."""

    crop: Literal["resized", "pad", "none"] = "pad"
    """resized: a random part of the image; pad: a random shift of the image that evaluation
    sees, with a black border; none: the image that evaluation sees."""
    min_area: float = 0.08
    """Smallest area of a resized crop, as a fraction of the image."""
    padding: float = 0.125
    """Padding on each side, as a fraction of the image size."""
    flip: bool = True
    """Flip half of the images left to right."""
    rand_augment: int = 0
    """Number of RandAugment operations per image (arXiv:1909.13719)."""
    magnitude: float = 9.0
    """Magnitude of the RandAugment operations, from 0 to 10."""
    erase: float = 0.0
    """Probability of erasing a random rectangle (arXiv:1708.04896)."""
    mixup: float = 0.0
    """Alpha of mixup's Beta distribution (arXiv:1710.09412); 0 is off."""
    cutmix: float = 0.0
    """Alpha of CutMix's Beta distribution (arXiv:1905.04899); 0 is off. If mixup is on too, each
    batch uses one of them at random."""
    repeats: int = 1
    """Copies of each image in a row, each augmented differently (arXiv:1901.09335)."""

    def __post_init__(self):
        check_choice("resized", "pad", "none", crop=self.crop)
        check_rate(padding=self.padding, min_area=self.min_area)
        check_whole(rand_augment=self.rand_augment)
        check_positive(repeats=self.repeats)
        if not 0 <= self.magnitude <= 10:
            raise ValueError(
                f"magnitude must lie in 0 <= magnitude <= 10; got magnitude={self.magnitude!r}"
            )

    @property
    def changes_images(self) -> bool:
        """Whether single images are changed."""
        return self.crop != "none" or self.flip or self.rand_augment > 0 or self.erase > 0

    @property
    def mixes_images(self) -> bool:
        """Whether images are mixed or repeated."""
        return self.mixup > 0 or self.cutmix > 0 or self.repeats > 1


# a caption describes the whole image, and may say "left"
CAPTION_AUGMENTATION = Augmentation(crop="none", min_area=0.5, flip=False)
