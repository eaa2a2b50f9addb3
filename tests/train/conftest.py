"""Small runs on real files: a translator, red cat → rot Katze, and a classifier of colours."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.train.classification import create_model_for
from tfx_transformer.train.recipe import (
    Augment,
    ClassifyData,
    ClassifyModel,
    ClassifyOptimizer,
    ClassifyRecipe,
    Decoding,
    Optimizer,
    TranslateData,
    TranslateModel,
    TranslateRecipe,
)
from tfx_transformer.train.run import train
from tfx_transformer.train.translation import make_model

WORDS = {"red": "rot", "blue": "blau", "cat": "Katze", "dog": "Hund", "old": "alt", "big": "groß"}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    for name, count in (("train", 600), ("val", 20), ("test", 20)):
        rows = [rng.choice(list(WORDS), size=rng.integers(2, 7)) for _ in range(count)]
        (folder / f"{name}.en").write_text("\n".join(" ".join(row) for row in rows))
        (folder / f"{name}.de").write_text(
            "\n".join(" ".join(WORDS[word] for word in row) for row in rows)
        )
    return folder


@pytest.fixture(scope="session")
def recipe_of(corpus):
    """A recipe on the corpus, with some options changed."""

    def make(**options):
        files = {
            split: (str(corpus / f"{name}.en"), str(corpus / f"{name}.de"))
            for split, name in (("train", "train"), ("validation", "val"), ("test", "test"))
        }
        return TranslateRecipe(
            data=TranslateData(**files, vocab_size=300, max_length=16, token_budget=512),
            model=TranslateModel("transformer", "tiny", dim=32, depth=1, mlp_dim=64, dropout=0.1),
            optimizer=Optimizer(learning_rate=5e-3, warmup_steps=20, ema=0.9),
            decoding=Decoding(width=3, n_best=2),
            **{"steps": 300, "eval_steps": 100, "average": 2} | options,
        )

    return make


@pytest.fixture(scope="session")
def run(recipe_of, tmp_path_factory):
    """The folder of a finished run, and its scores."""
    folder = tmp_path_factory.mktemp("run") / "it"
    return folder, train(recipe_of(), folder)


COLOURS = {"blue": (40, 60, 200), "green": (50, 180, 60), "red": (210, 50, 40)}


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """A folder of noisy pictures, a sub-folder for each colour, of all sizes."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (folder / name).mkdir()
        for i in range(40):
            height, width = rng.integers(10, 30, 2)
            image = np.clip(np.array(colour) + rng.normal(0, 60, (height, width, 3)), 0, 255)
            encode = tf.io.encode_jpeg if i % 2 else tf.io.encode_png
            content = encode(image.astype("uint8")).numpy()
            (folder / name / f"{i}.{'jpg' if i % 2 else 'png'}").write_bytes(content)
    return folder


@pytest.fixture(scope="session")
def classify_recipe_of(pictures):
    """A recipe on the pictures, with some options changed."""
    model = ClassifyModel(variant="tiny", depth=1, drop_path=0.1)

    def make(**options):
        return ClassifyRecipe(
            data=ClassifyData(str(pictures), batch_size=16, crop_ratio=0.9),
            augment=Augment(crop="resized", min_area=0.5, rand_augment=1, mixup=0.2, cutmix=1.0),
            optimizer=ClassifyOptimizer(
                learning_rate=5e-3,
                schedule="inverse_sqrt",  # a cosine would end with the steps of a stopped run
                warmup_steps=10,
                ema=0.8,
                layer_decay=0.9,
            ),
            **{"model": model, "steps": 60, "eval_steps": 30, "average": 2} | options,
        )

    return make


@pytest.fixture(scope="session")
def classify_run(classify_recipe_of, tmp_path_factory):
    """The folder of a finished run, and its scores."""
    folder = tmp_path_factory.mktemp("run") / "colours"
    return folder, train(classify_recipe_of(), folder)


@pytest.fixture
def check_recipe():
    """What is true of every recipe's file: it says how to run it, and its model can be built."""

    class Tokens:
        vocab_size = 100

    def check(module):
        for word in ("Run:", "Time:", "Result:"):
            assert word in module.__doc__
        name = module.__name__.rpartition(".")[2]
        assert f"tfx-transformer train {name}" in module.__doc__
        recipe = module.RECIPE
        assert recipe.optimizer.warmup_steps < recipe.steps
        if isinstance(recipe, TranslateRecipe):
            return make_model(recipe, (Tokens, Tokens)).count_params()
        model = create_model_for(recipe, 10)
        model.build((None, model.image_size, model.image_size, 3))
        return model.count_params()

    return check
