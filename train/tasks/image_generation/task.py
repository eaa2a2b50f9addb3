"""Generation of images from texts as a task: data, models, evaluation and pipeline.

A run has two stages: the image tokenizer, a discrete VAE, is made in `prepare`, like that of the
texts; then the model of the tokens is trained as in every other task.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_transformer.data import Captions, train_tokenizer
from tfx_transformer.data.captions.scene_check import ATTRIBUTES, judge_scene
from tfx_transformer.data.captions.scenes import SOURCE
from tfx_transformer.data.captions.token_batches import TextImageBatches
from tfx_transformer.data.images.pixels import decode_batch
from tfx_transformer.data.text.pair_batches import encode_all
from tfx_transformer.data.text.tokenizer import PAD
from tfx_transformer.pipelines import TextToImage
from tfx_transformer.runtime import graph
from tfx_transformer.train.options import decoder_spec
from tfx_transformer.train.run_folder import write_skipped
from tfx_transformer.train.tasks.base import SPLITS, Evaluation, Evaluator, Task, timed
from tfx_transformer.train.tasks.captioning.task import load_split
from tfx_transformer.train.tasks.image_generation.image_tokenizer import (
    encode_images,
    load_image_tokenizer,
    make_image_tokenizer,
    reconstruct_images,
    stored_image_tokenizer,
)
from tfx_transformer.train.tasks.text import load_tokenizer, stored_tokenizer
from tfx_transformer.training.token_metrics import TokenMetrics
from tfx_transformer.training.workers import Workers

BATCH_SIZE = 50  # texts that are drawn together, and images that are read together


class ImageGenerationTask(Task):
    """Drawing of images from texts."""

    noun, kind = "text-to-image model", "text_to_image"
    metric, unit = "log_prob", "tokens"

    def check(self):
        super().check()
        make_image_tokenizer(self.recipe.image_tokenizer)
        if self.recipe.data.normalization != "half":
            raise ValueError(
                'data.normalization must be "half", the range of the image tokenizer; '
                f"got {self.recipe.data.normalization!r}"
            )
        self.recipe.data.check_splits()

    def load_data(self):
        self.captions = {split: load_split(self.recipe.data, split) for split in SPLITS}

    def prepare(self, folder):
        data, captions = self.recipe.data, self.captions
        texts = [text for texts in captions["train"].texts for text in texts]
        self.tokenizer = stored_tokenizer(
            folder, lambda: train_tokenizer(texts, data.vocab_size, byte_fallback=False)
        )
        pixels = self.read_images(captions["train"])
        own = self.recipe.image_tokenizer
        self.image_model = stored_image_tokenizer(folder, own, pixels, self.recipe.seed)
        weight = self.recipe.text_weight
        self.data = self.batches_of(captions["train"], pixels, weight, self.recipe.seed)
        self.units_per_batch = self.data.batch_size * self.data.images.shape[1]
        if self.workers.is_chief:
            write_skipped(folder, captions)
        print(*captions.values(), self.data, sep="\n")
        if captions["validation"].name.startswith(SOURCE):
            share = self.reconstructed(captions["validation"])
            print(f"images of the tokens of validation images: {share:.1f} % right")

    def reconstructed(self, captions: Captions) -> float:
        """In percent, how many pictures of scenes are still right after the image tokenizer."""
        images = reconstruct_images(self.image_model, self.read_images(captions))
        scores, _ = judge_all(list(images), [texts[0] for texts in captions.texts])
        return scores["right"]

    def restore(self, folder):
        self.tokenizer, self.image_model = load_tokenizer(folder), load_image_tokenizer(folder)

    def read_images(self, captions: Captions) -> np.ndarray:
        """The images as they are learned: (N, h, w, 3), uint8."""
        options, size = self.recipe.data, self.recipe.image_tokenizer.image_size
        how = (size, options.crop_ratio, options.resize, options.max_pixels)
        encoded = tf.TensorSpec([None], tf.string)
        read = graph(lambda files: decode_batch(files, *how), encoded)  # traced once
        images = np.empty((len(captions), size, size, 3), "uint8")
        for start in range(0, len(captions), BATCH_SIZE):
            rows = range(start, min(start + BATCH_SIZE, len(captions)))
            pixels, is_readable = read(tf.constant([captions.items[i] for i in rows]))
            broken = [captions.files[i] for i, ok in zip(rows, is_readable, strict=True) if not ok]
            if broken:
                raise ValueError(f"{captions.name}: images that cannot be read: {broken}")
            images[start : start + BATCH_SIZE] = np.round(pixels)
        return images

    def batches_of(
        self, captions: Captions, pixels: np.ndarray, text_weight: float, seed: int | None = None
    ) -> TextImageBatches:
        """All texts with the tokens of their images."""
        length, size = self.recipe.data.max_length, self.recipe.data.batch_size
        ids = encode_all(self.tokenizer, [text for texts in captions.texts for text in texts])
        ids = ids[:, :length].to_tensor(PAD, shape=[None, length]).numpy()
        padding = self.tokenizer.vocab_size + np.arange(length)
        first = self.tokenizer.vocab_size + length
        return TextImageBatches(
            np.where(ids != PAD, ids, padding),
            ids != PAD,
            first + encode_images(self.image_model, pixels),
            np.repeat(np.arange(len(captions)), [len(texts) for texts in captions.texts]),
            size,
            text_weight,
            seed,
        )

    def make_model(self):
        return self.create_model(
            vocab_size=self.tokenizer.vocab_size,
            text_length=self.recipe.data.max_length,
            codebook_size=self.recipe.image_tokenizer.codebook_size,
            grid=make_image_tokenizer(self.recipe.image_tokenizer).grid,
        )

    def evaluator(self, model):
        captions = self.captions["validation"]
        data = self.batches_of(captions, self.read_images(captions), 0.0)
        metrics = TokenMetrics(model, data, self.workers)
        drawer = self.pipeline(model, seed=self.recipe.seed, kind="sample")
        counts = self.recipe.eval_images, self.recipe.eval_batches
        return DrawingEvaluator(metrics, drawer, captions, *counts, self.workers)

    def pipeline(self, model, **decoding):
        spec = decoder_spec(self.recipe.decoding, **decoding)
        return TextToImage(model, self.image_model, self.tokenizer, spec)

    def test(self, run, data, **options):
        """Other data: images, their captions and, if given, a file of image names."""
        own = self.recipe.data.with_test(data)
        captions = load_split(own)
        print(captions)
        options = {"seed": self.recipe.seed} | options
        drawer = run.pipeline(**options)
        batches = self.batches_of(captions, self.read_images(captions), 0.0)
        metrics = TokenMetrics(run.model, batches, self.workers)()
        found = {"log_prob": metrics["log_prob"], "images": len(captions)}
        if not own.images.startswith(SOURCE):
            return found
        texts = [texts[0] for texts in captions.texts]
        drawn, seconds = timed(lambda: draw_all(drawer, texts, self.workers))
        scores, _ = judge_all(drawn, texts)
        found |= {"reconstructed": self.reconstructed(captions)} | scores
        return found | {"images_per_second": len(texts) / seconds}


TASK = ImageGenerationTask


def draw_all(drawer: TextToImage, texts: list[str], workers: Workers) -> list[np.ndarray]:
    """The most likely image of each text, (h, w, 3) of uint8."""

    def draw(own):
        rows = []
        for start in range(0, len(own), BATCH_SIZE):
            tokens, _ = drawer.sample(tf.constant(own[start : start + BATCH_SIZE]))
            rows += drawer.pixels(tokens[:, 0]).numpy().tolist()
        return rows

    return [np.array(image, "uint8") for image in workers.divide(draw, texts, to_json=True)]


def judge_all(images: list[np.ndarray], texts: list[str]) -> tuple[dict[str, float], list[str]]:
    """In percent, how many pictures of scenes are right, and for how many each attribute is.

    Also a line for each picture: its text and what is wrong.
    """
    judged = [judge_scene(image, text) for image, text in zip(images, texts, strict=True)]
    shares = {"right": [all(x.values()) for x in judged]}
    shares |= {name: [x[name] for x in judged] for name in ATTRIBUTES}
    wrong = [", ".join(name for name, is_right in x.items() if not is_right) for x in judged]
    lines = [f"{text}: {names or 'right'}" for text, names in zip(texts, wrong, strict=True)]
    return {name: 100 * float(np.mean(values)) for name, values in shares.items()}, lines


@dataclass
class DrawingEvaluator(Evaluator):
    """The log-probability of image tokens; of scenes also how many drawings are right."""

    metrics: TokenMetrics
    drawer: TextToImage
    captions: Captions
    count: int  # images to draw at each evaluation
    batches: int  # for the log-probability
    workers: Workers = field(default_factory=Workers)

    def evaluate(self, whole=False):
        samples: list[str] = []
        scores: dict[str, Any] = self.metrics(-1 if whole else self.batches)
        scores = {name: scores[name] for name in ("log_prob", "accuracy")}
        if self.captions.name.startswith(SOURCE):
            texts = [texts[0] for texts in self.captions.texts[: self.count]]
            judged, samples = judge_all(draw_all(self.drawer, texts, self.workers), texts)
            scores |= judged
        summary = " · ".join(f"{name} {score:.3g}" for name, score in scores.items())
        return Evaluation(scores, summary, samples)
