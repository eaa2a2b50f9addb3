"""Captioning as a task: its data, its model, and how good it is."""

import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from tfx_transformer.captioner import Captioner
from tfx_transformer.checks import check_choice
from tfx_transformer.convert import load_weights
from tfx_transformer.data import Captions, Tokenizer, load_captions, train_tokenizer
from tfx_transformer.data.caption_batches import training_captions
from tfx_transformer.losses import TokenCrossentropy
from tfx_transformer.metrics import caption_scores
from tfx_transformer.models import MODELS, create_model
from tfx_transformer.models.efficientnet_lite import load_efficientnet_lite0
from tfx_transformer.models.regions import BACKBONES
from tfx_transformer.strategy import check_replicas
from tfx_transformer.train.folder import CaptionRun, stored_tokenizer, tell_skipped
from tfx_transformer.train.recipe import CaptionData, CaptionModel, CaptionRecipe
from tfx_transformer.train.searching import Search

BATCH = 32  # pictures that are looked at together
PACKAGE = "package"  # in place of a file of weights
# what may stand behind the / of an encoder's name
PARTS: dict[str, Any] = {"efficientnet_lite0": ("stage", int), "vit": ("variant", str)}


class Captioning:
    """What `train` asks of a task; made from a recipe, it reads the data.

    Args:
        recipe: of the run.
    """

    metric, unit = "bleu_4", "tokens"

    def __init__(self, recipe: CaptionRecipe):
        own, (encoder, weights) = recipe.model, find_encoder(recipe)
        options = variant_options(own) | own.overrides()
        if options.get("freeze") and not weights and "weights" not in encoder:
            raise ValueError("model.freeze keeps an encoder as it is: weights must name its file")
        kind, pixels = encoder["kind"], recipe.data.normalisation
        if pixels != "half" and kind in ("efficientnet_lite0", "keras"):
            raise ValueError(
                f'data.normalisation of the encoder {kind} must be "half"; got {pixels!r}'
            )
        self.recipe, data = recipe, recipe.data
        splits = ("train", "validation", "test")
        named = [split for split in splits if getattr(data, split)]
        if len(named) in (1, 2):  # the others would be cut from all pictures, also from these
            raise ValueError(
                "data.train, data.validation and data.test must all name a file, or none of them; "
                f"got {' and '.join(named)}"
            )
        self.captions = {split: load_split(recipe.data, split) for split in splits}
        self.loss = TokenCrossentropy(recipe.label_smoothing)

    def prepare(self, folder: Path, replicas: int) -> None:
        """Trains the tokenizer, or reads it from the folder, and makes the batches."""
        recipe, data = self.recipe, self.recipe.data
        check_replicas(replicas, data.batch_size)
        self.tokenizer = make_tokenizer(data, self.captions["train"], folder / "tokenizer")
        model, features = make_model(recipe, self.tokenizer), None
        if model.freeze:
            features = look_at(self.captioner(model), self.captions["train"])
        self.data = training_captions(
            self.captions["train"],
            self.tokenizer,
            model.image_size,
            data.batch_size,
            data.max_length,
            data.normalisation,
            data.flip,
            data.crop,
            seed=recipe.seed,
            features=features,
        )
        self.units_per_batch = self.data.report.tokens / self.data.steps_per_epoch
        tell_skipped(folder, self.captions)
        print(*self.captions.values(), self.data.report, sep="\n")

    def make_model(self):
        return make_model(self.recipe, self.tokenizer)

    def captioner(self, model) -> Captioner:
        data = self.recipe.data
        length = data.max_length
        return Captioner(model, self.tokenizer, "greedy", length, normalisation=data.normalisation)

    def batches(self, done: int) -> tf.data.Dataset:
        """The batches from number `done` on."""
        return self.data.stream(*divmod(done, self.data.steps_per_epoch))

    def judge(self, model) -> "Judge":
        count = self.recipe.eval_pictures
        return Judge(self.captioner(model), self.captions["validation"], count)


def load_split(data: CaptionData, split: str = "test") -> Captions:
    """One of train, validation and test."""
    if not data.images:
        raise ValueError("data.images must name pictures; see --help")
    return load_captions(data.images, data.captions, getattr(data, split) or None, split)


def make_tokenizer(data: CaptionData, captions: Captions, folder: Path) -> Tokenizer:
    """Trained at the first call, read from the folder later."""
    texts = [text for own in captions.texts for text in own]
    return stored_tokenizer(
        folder / "target.model", lambda: train_tokenizer(texts, data.vocab_size)
    )


def make_model(recipe: CaptionRecipe, tokenizer: Tokenizer):
    """The recipe's model, built, with the weights of its encoder."""
    own, (encoder, weights) = recipe.model, find_encoder(recipe)
    options = ({"freeze": True} if weights else {}) | own.overrides() | {"encoder": encoder}
    model = create_model(own.name, own.variant, **options, vocab_size=tokenizer.vocab_size)
    model.build({"image": (None, model.image_size, model.image_size, 3), "target": (None, None)})
    if weights and encoder["kind"] == "vit":
        load_weights(model.regions.network, weights, head=False)
    elif weights and encoder["kind"] != "keras":  # which takes them as an option
        load_efficientnet_lite0(model.regions, None if weights == PACKAGE else weights)
    return model


def variant_options(own: CaptionModel) -> dict[str, Any]:
    """Those of the recipe's variant; of one that is not known, `create_model` will tell."""
    return MODELS.find(own.name)[0].variants.get(own.variant, {})


def find_encoder(recipe: CaptionRecipe) -> tuple[dict[str, Any], str]:
    """The options of the recipe's encoder, and where its weights are; "" if it has none."""
    own, weights = recipe.model, recipe.weights
    spec = own.encoder or variant_options(own).get("encoder")
    options = dict(spec) if isinstance(spec, dict) else encoder_options(str(spec))
    if weights == PACKAGE and options["kind"] != "efficientnet_lite0":
        weights = ""  # the package holds no others
    if weights and options["kind"] == "keras":
        options["weights"] = weights
    return options, weights


def encoder_options(name: str) -> dict[str, Any]:
    """Those of "VGG19", "small", "vit", "vit/b16" or "efficientnet_lite0/6"."""
    kind, _, part = name.partition("/")
    if name in BACKBONES:
        return {"kind": "keras", "backbone": name}
    if not part:
        return {"kind": kind}
    check_choice(*PARTS, encoder=kind)
    option, convert = PARTS[kind]
    return {"kind": kind, option: convert(part)}


def look_at(captioner: Captioner, captions: Captions) -> np.ndarray:
    """What the encoder makes of each picture: (N, S, C), float16 to take less room."""
    model = captioner.model
    found = np.empty((len(captions), math.prod(model.grid()), model.regions.dim), "float16")
    for i in tqdm(range(0, len(captions), BATCH), "looking", disable=None, leave=False):
        places = range(i, min(i + BATCH, len(captions)))
        images, is_readable = captioner.read(tf.constant([captions.items[j] for j in places]))
        if not all(is_readable):  # of TFDS, whose pictures nobody has looked at yet
            broken = [
                captions.files[j] for j, ok in zip(places, is_readable, strict=True) if not ok
            ]
            raise ValueError(f"{captions.name}: pictures that cannot be read: {', '.join(broken)}")
        found[i : i + BATCH] = captioner.look(images)
    return found


def describe(captioner: Captioner, features: np.ndarray) -> list[str]:
    """A caption for each picture, from what was seen of it."""
    said = []
    for i in tqdm(range(0, len(features), BATCH), "describing", disable=None, leave=False):
        found = captioner.tell(tf.constant(features[i : i + BATCH], tf.float32))
        said += [text.decode() for text in found["text"].numpy()]
    return said


class Judge:
    """Scores a model while it trains, on the first pictures of the validation set.

    Args:
        captioner: with the model that is trained.
        captions: the validation set.
        count: of the pictures.
    """

    def __init__(self, captioner: Captioner, captions: Captions, count: int):
        self.captioner, self.captions = captioner, captions
        self.count = min(count, len(captions))
        self.seen = look_at(captioner, captions) if captioner.model.freeze else None

    def describe(self, count: int) -> list[str]:
        few = dataclasses.replace(self.captions, items=self.captions.items[:count])
        seen = look_at(self.captioner, few) if self.seen is None else self.seen[:count]
        return describe(self.captioner, seen)

    def whole(self) -> float:
        """BLEU-4 of the whole validation set."""
        said = self.describe(len(self.captions))
        return caption_scores(said, self.captions.texts)["bleu_4"]

    def __call__(self, step: int, samples: Path) -> dict[str, float]:
        """BLEU-1 to 4 and chrF; writes all samples to a file and shows three of them."""
        said = self.describe(self.count)
        scores = caption_scores(said, self.captions.texts[: self.count])
        rows = zip(self.captions.files, self.captions.texts, said, strict=False)
        lines = [f"{file}\nreference  {texts[0]}\nmodel      {own}\n" for file, texts, own in rows]
        samples.parent.mkdir(exist_ok=True)
        samples.with_suffix(".txt").write_text("\n".join(lines))
        shown = " · ".join(f"{name} {score:.2f}" for name, score in scores.items())
        print(f"step {step:,}: {shown}\n" + "\n".join(lines[:3]))
        return scores


def captioning_test(run: CaptionRun, data: tuple[str, ...], search: Search) -> dict[str, Any]:
    """Scores of a run on its test set, or on other images, captions and, if given, names."""
    own = run.recipe.data
    if len(data) > 3:
        raise ValueError(f"data must be pictures, captions and names; got {' '.join(data)}")
    if data:
        named = dict(zip(("images", "captions", "test"), (*data, "", "")[:3], strict=True))
        own = dataclasses.replace(own, **named)
    captions, captioner = load_split(own), run.captioner(search)
    print(captions)
    captioner.caption(tf.constant([captions.items[0]]))  # traced
    start = time.perf_counter()
    said = describe(captioner, look_at(captioner, captions))
    seconds = time.perf_counter() - start
    scores: dict[str, Any] = caption_scores(said, captions.texts)
    return scores | {"pictures": len(captions), "pictures_per_second": len(captions) / seconds}
