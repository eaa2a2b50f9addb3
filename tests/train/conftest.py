"""Small runs on real files: a translator, red cat → rot Katze; a classifier of colours, and one
that says which they are; models of the sentences themselves."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.train.captioning import make_model as make_captioning_model
from tfx_transformer.train.classification import create_model_for
from tfx_transformer.train.cli import main
from tfx_transformer.train.language import make_model as make_language_model
from tfx_transformer.train.masked_language import make_model as make_mask_model
from tfx_transformer.train.recipe import (
    Augment,
    CaptionData,
    CaptionModel,
    CaptionRecipe,
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
from tfx_transformer.train.text_classification import make_model as make_text_model
from tfx_transformer.train.text_recipe import (
    ClassifyTextData,
    ClassifyTextRecipe,
    EncoderModel,
    LanguageData,
    LanguageModel,
    LanguageRecipe,
    MaskData,
    MaskRecipe,
)
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


@pytest.fixture(scope="session")
def captions(pictures, tmp_path_factory):
    """A file with two captions of each picture."""
    path = tmp_path_factory.mktemp("captions") / "captions.token.txt"
    lines = []
    for file in sorted(pictures.glob("*/*")):
        colour, name = file.parent.name, file.relative_to(pictures).as_posix()
        lines += [f"{name}#0\tA small {colour} picture .", f"{name}#1\tthis is all {colour}"]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="session")
def caption_recipe_of(pictures, captions):
    """A recipe on the pictures and their captions, with some options changed."""
    data = CaptionData(
        str(pictures), str(captions), vocab_size=289, max_length=8, batch_size=24, flip=True
    )

    def make(**options):
        model = CaptionModel(variant="tiny", dim=24, embedding_dim=16, dropout=0.1, coverage=0.35)
        return CaptionRecipe(
            **{
                "data": data,
                "model": model,
                "optimizer": Optimizer(learning_rate=0.03, warmup_steps=20),
                "decoding": Decoding(width=3, n_best=2),
                "steps": 120,
                "eval_steps": 60,
                "average": 2,
                "eval_pictures": 5,
            }
            | options
        )

    return make


@pytest.fixture(scope="session")
def caption_run(caption_recipe_of, tmp_path_factory):
    """The folder of a finished run, and its scores."""
    folder = tmp_path_factory.mktemp("run") / "captions"
    return folder, train(caption_recipe_of(), folder)


@pytest.fixture(scope="session")
def caption_export(caption_run, tmp_path_factory):
    """The run's model, exported by the command."""
    folder = tmp_path_factory.mktemp("export") / "captions"
    main(["export", str(caption_run[0]), "--to", str(folder), "--kind", "greedy"])
    return folder


@pytest.fixture(scope="session")
def sentences(tmp_path_factory):
    """A file of 500 lines such as "red rot cat Katze"."""
    path = tmp_path_factory.mktemp("sentences") / "sentences.txt"
    rng = np.random.default_rng(0)
    rows = [rng.choice(list(WORDS), size=rng.integers(2, 5)) for _ in range(500)]
    lines = [" ".join(f"{word} {WORDS[word]}" for word in row) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def language_recipe_of(sentences):
    """A recipe of a language model of letters, with some options changed."""

    def make(**options):
        return LanguageRecipe(
            data=LanguageData(str(sentences), max_length=32, batch_size=16),
            model=LanguageModel("gpt", "tiny", dim=32, depth=1, mlp_dim=64, dropout=0.1),
            optimizer=Optimizer(learning_rate=1e-2, warmup_steps=10),
            **{"steps": 160, "eval_steps": 80, "average": 2, "eval_batches": 3} | options,
        )

    return make


@pytest.fixture(scope="session")
def language_run(language_recipe_of, tmp_path_factory):
    """The folder of a finished run, and its scores."""
    folder = tmp_path_factory.mktemp("run") / "language"
    return folder, train(language_recipe_of(), folder)


@pytest.fixture(scope="session")
def mask_run(tmp_path_factory):
    """The folder of a run on lines such as "cat Katze cat Katze cat Katze", and its scores."""
    folder = tmp_path_factory.mktemp("run") / "mask"
    path, words = folder.with_name("refrains.txt"), np.random.default_rng(0).choice([*WORDS], 600)
    path.write_text("\n".join(" ".join([word, WORDS[word]] * 3) for word in words))
    recipe = MaskRecipe(
        data=MaskData(str(path), vocab_size=290, max_length=8, token_budget=256, rate=0.3),
        model=EncoderModel("bert", "tiny", dim=32, depth=1, mlp_dim=64, dropout=0.0),
        optimizer=Optimizer(learning_rate=5e-3, warmup_steps=20),
        steps=120,
        eval_steps=60,
        eval_batches=3,
    )
    return folder, train(recipe, folder)


@pytest.fixture(scope="session")
def labelled(tmp_path_factory):
    """A file of 300 texts such as "old big Katze<TAB>cat"."""
    path = tmp_path_factory.mktemp("labelled") / "animals.tsv"
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(300):
        animal, others = rng.choice(["cat", "dog"]), rng.choice(["red", "old", "big", "alt"], 3)
        said = rng.choice([animal, WORDS[animal]])
        lines.append(f"{' '.join(rng.permutation([*others, said]))}\t{animal}")
    path.write_text("\n".join(dict.fromkeys(lines)))
    return path


@pytest.fixture(scope="session")
def classify_text_recipe_of(labelled):
    """A recipe of a classifier of texts, with some options changed."""
    data = ClassifyTextData(str(labelled), vocab_size=290, max_length=16, batch_size=16)
    model = EncoderModel("bert", "tiny", dim=32, depth=1, mlp_dim=64, dropout=0.1)

    def make(**options):
        return ClassifyTextRecipe(
            optimizer=Optimizer(learning_rate=5e-3, warmup_steps=10),
            **{"data": data, "model": model, "steps": 60, "eval_steps": 30, "average": 2} | options,
        )

    return make


@pytest.fixture(scope="session")
def classify_text_run(classify_text_recipe_of, tmp_path_factory):
    """The folder of a finished run, and its scores."""
    folder = tmp_path_factory.mktemp("run") / "animals"
    return folder, train(classify_text_recipe_of(), folder)


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
        if isinstance(recipe, CaptionRecipe):  # its encoder's weights may not be there
            own = dataclasses.replace(recipe.model, freeze=False)
            bare = dataclasses.replace(recipe, weights="", model=own)
            return make_captioning_model(bare, Tokens).count_params()
        if isinstance(recipe, LanguageRecipe):
            return make_language_model(recipe, Tokens).count_params()
        if isinstance(recipe, MaskRecipe):
            return make_mask_model(recipe, Tokens).count_params()
        if isinstance(recipe, ClassifyTextRecipe):
            return make_text_model(recipe, Tokens, 10).count_params()
        model = create_model_for(recipe, 10)
        model.build((None, model.image_size, model.image_size, 3))
        return model.count_params()

    return check
