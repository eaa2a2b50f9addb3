"""A small corpus of real files, and a translator trained on it: red cat → rot Katze."""

import numpy as np
import pytest

from tfx_transformer.train.recipe import Data, Decoding, Model, Optimizer, Recipe
from tfx_transformer.train.run import make_model, train

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
        return Recipe(
            data=Data(**files, vocab_size=300, max_length=16, token_budget=512),
            model=Model("transformer", "tiny", dim=32, depth=1, mlp_dim=64, dropout=0.1),
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
        return make_model(recipe, (Tokens, Tokens)).count_params()

    return check
