"""Generation of images from texts: the options of its recipes."""

from dataclasses import dataclass, field

from tfx_transformer.train.options import DecodingOptions
from tfx_transformer.train.recipe import ModelOptions, Recipe
from tfx_transformer.train.tasks.captioning import CaptioningData


@dataclass(frozen=True)
class ImageGenerationData(CaptioningData):
    """Images with one or more captions each; longer captions are cut, shorter ones padded."""

    batch_size: int = 32
    """Captions in a batch."""


@dataclass(frozen=True)
class ImageTokenizerOptions:
    """The discrete VAE, which is trained first and makes the image tokens."""

    codebook_size: int = 128
    """Number of codes: the vocabulary of image tokens."""
    dim: int = 64
    """Channels of its convolutions."""
    depth: int = 2
    """Residual blocks of its encoder and its decoder."""
    image_size: int = 32
    """Height and width of the images."""
    patch_size: int = 4
    """Height and width of the pixels of a token; a power of two."""
    kl_weight: float = 4.0
    """Last weight of the KL divergence from uniform codes."""
    steps: int = 3000
    """Training steps. In the first quarter the weight of the divergence grows, in the first three
    quarters the temperature falls."""
    batch_size: int = 16
    """Images in a batch."""
    learning_rate: float = 2e-3
    """Highest learning rate, which then falls along a cosine."""


@dataclass(frozen=True)
class ImageGenerationRecipe(Recipe):
    """A text-to-image model."""

    task = "image_generation"
    required = "images"
    set_by_task = {"vocab_size": 100, "text_length": 16, "codebook_size": 128, "grid": (8, 8)}

    label_smoothing: float = 0.0
    data: ImageGenerationData = field(default_factory=ImageGenerationData)
    image_tokenizer: ImageTokenizerOptions = field(default_factory=ImageTokenizerOptions)
    model: ModelOptions = field(default_factory=lambda: ModelOptions("dalle", "small"))
    decoding: DecodingOptions = field(default_factory=lambda: DecodingOptions(kind="sample"))
    text_weight: float = 0.125
    """Weight of the words in the loss; that of the image tokens is the rest of 1."""
    eval_images: int = 100
    """Captions of the validation set to draw at each evaluation, if they are scenes."""
    eval_batches: int = 10
    """Batches of the validation set for the log-probability at each evaluation."""
