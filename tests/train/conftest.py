"""Small runs on real files: a translator, red cat → rot Katze; a classifier of colors, and one
that says which they are; models of the sentences themselves."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.images.options import Augmentation
from tfx_transformer.train.cli import main
from tfx_transformer.train.options import DecodingOptions
from tfx_transformer.train.recipe import ADAMW, ModelOptions, OptimizerOptions
from tfx_transformer.train.run import train
from tfx_transformer.train.tasks.captioning import CaptioningData, CaptioningRecipe
from tfx_transformer.train.tasks.classification import ClassificationData, ClassificationRecipe
from tfx_transformer.train.tasks.image_generation import (
    ImageGenerationData,
    ImageGenerationRecipe,
    ImageTokenizerOptions,
)
from tfx_transformer.train.tasks.language_model import LanguageModelData, LanguageModelRecipe
from tfx_transformer.train.tasks.masked_language_model import (
    MaskedLanguageModelData,
    MaskedLanguageModelRecipe,
)
from tfx_transformer.train.tasks.question_answering import (
    QuestionAnsweringData,
    QuestionAnsweringRecipe,
)
from tfx_transformer.train.tasks.text_classification import (
    TextClassificationData,
    TextClassificationRecipe,
)
from tfx_transformer.train.tasks.translation import TranslationData, TranslationRecipe

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
        return TranslationRecipe(
            data=TranslationData(**files, vocab_size=300, max_length=16, token_budget=512),
            model=ModelOptions.of("transformer", "test", dim=32, depth=1, mlp_dim=64, dropout=0.1),
            decoding=DecodingOptions(kind="beam", width=3, n_best=2),
            **{
                "optimizer": OptimizerOptions(learning_rate=5e-3, warmup_steps=20, ema=0.9),
                "steps": 300,
                "eval_steps": 100,
                "average": 2,
            }
            | options,
        )

    return make


@pytest.fixture(scope="session")
def run(recipe_of, tmp_path_factory):
    """The folder of a finished run, and its scores.

    Its graphs are optimized, as in other processes, whose weights are compared with its weights.
    """
    folder = tmp_path_factory.mktemp("run") / "it"
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
    try:
        return folder, train(recipe_of(), folder)
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


COLORS = {"blue": (40, 60, 200), "green": (50, 180, 60), "red": (210, 50, 40)}


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """A folder of noisy pictures, a sub-folder for each color, of all sizes."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for name, color in COLORS.items():
        (folder / name).mkdir()
        for i in range(40):
            height, width = rng.integers(10, 30, 2)
            image = np.clip(np.array(color) + rng.normal(0, 60, (height, width, 3)), 0, 255)
            encode = tf.io.encode_jpeg if i % 2 else tf.io.encode_png
            content = encode(image.astype("uint8")).numpy()
            (folder / name / f"{i}.{'jpg' if i % 2 else 'png'}").write_bytes(content)
    return folder


@pytest.fixture(scope="session")
def classify_recipe_of(pictures):
    """A recipe on the pictures, with some options changed."""
    model = ModelOptions.of("vit", "test", depth=1, drop_path=0.1)

    def make(**options):
        return ClassificationRecipe(
            data=ClassificationData(str(pictures), batch_size=16, crop_ratio=0.9),
            augment=Augmentation(
                crop="resized", min_area=0.5, rand_augment=1, mixup=0.2, cutmix=1.0
            ),
            optimizer=replace(
                ADAMW,
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
    folder = tmp_path_factory.mktemp("run") / "colors"
    return folder, train(classify_recipe_of(), folder)


@pytest.fixture(scope="session")
def captions(pictures, tmp_path_factory):
    """A file with two captions of each picture."""
    path = tmp_path_factory.mktemp("captions") / "captions.token.txt"
    lines = []
    for file in sorted(pictures.glob("*/*")):
        color, name = file.parent.name, file.relative_to(pictures).as_posix()
        lines += [f"{name}#0\tA small {color} picture .", f"{name}#1\tthis is all {color}"]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="session")
def caption_recipe_of(pictures, captions):
    """A recipe on the pictures and their captions, with some options changed."""
    data = CaptioningData(str(pictures), str(captions), vocab_size=289, max_length=8, batch_size=24)

    def make(**options):
        model = ModelOptions.of(
            "show_attend_tell", "test", dim=24, embedding_dim=16, dropout=0.1, coverage=0.35
        )
        return CaptioningRecipe(
            **{
                "data": data,
                "augment": Augmentation(crop="none", flip=True),
                "model": model,
                "optimizer": OptimizerOptions(learning_rate=0.03, warmup_steps=20),
                "decoding": DecodingOptions(kind="beam", width=3, n_best=2),
                "steps": 120,
                "eval_steps": 60,
                "average": 2,
                "eval_images": 5,
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
        return LanguageModelRecipe(
            data=LanguageModelData(str(sentences), max_length=32, batch_size=16),
            model=ModelOptions.of("gpt", "test", dim=32, depth=1, mlp_dim=64, dropout=0.1),
            optimizer=OptimizerOptions(learning_rate=1e-2, warmup_steps=10),
            **{"steps": 160, "eval_steps": 80, "average": 2, "eval_batches": 3} | options,
        )

    return make


@pytest.fixture(scope="session")
def language_run(language_recipe_of, tmp_path_factory):
    """The folder of a finished run, and its scores."""
    folder = tmp_path_factory.mktemp("run") / "language"
    return folder, train(language_recipe_of(), folder)


@pytest.fixture(scope="session")
def mask_recipe_of(sentences):
    """A recipe of a masked language model of the sentences, with some options changed."""

    def make(**options):
        data = MaskedLanguageModelData(str(sentences), vocab_size=290, token_budget=256)
        model = ModelOptions.of("bert", "test")
        return MaskedLanguageModelRecipe(**{"data": data, "model": model} | options)

    return make


@pytest.fixture(scope="session")
def mask_run(tmp_path_factory):
    """The folder of a run on lines such as "cat Katze cat Katze cat Katze", and its scores."""
    folder = tmp_path_factory.mktemp("run") / "mask"
    path, words = folder.with_name("refrains.txt"), np.random.default_rng(0).choice([*WORDS], 600)
    path.write_text("\n".join(" ".join([word, WORDS[word]] * 3) for word in words))
    recipe = MaskedLanguageModelRecipe(
        data=MaskedLanguageModelData(
            str(path), vocab_size=290, max_length=8, token_budget=256, rate=0.3
        ),
        model=ModelOptions.of("bert", "test", dim=32, depth=1, mlp_dim=64, dropout=0.0),
        optimizer=OptimizerOptions(learning_rate=5e-3, warmup_steps=20),
        steps=120,
        eval_steps=60,
        eval_batches=3,
    )
    return folder, train(recipe, folder)


@pytest.fixture(scope="session")
def labeled(tmp_path_factory):
    """A file of 300 texts such as "old big Katze<TAB>cat"."""
    path = tmp_path_factory.mktemp("labeled") / "animals.tsv"
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(300):
        animal, others = rng.choice(["cat", "dog"]), rng.choice(["red", "old", "big", "alt"], 3)
        said = rng.choice([animal, WORDS[animal]])
        lines.append(f"{' '.join(rng.permutation([*others, said]))}\t{animal}")
    path.write_text("\n".join(dict.fromkeys(lines)))
    return path


@pytest.fixture(scope="session")
def classify_text_recipe_of(labeled):
    """A recipe of a classifier of texts, with some options changed."""
    data = TextClassificationData(str(labeled), vocab_size=290, max_length=16, batch_size=16)
    model = ModelOptions.of("bert", "test", dim=32, depth=1, mlp_dim=64, dropout=0.1)

    def make(**options):
        return TextClassificationRecipe(
            optimizer=OptimizerOptions(learning_rate=5e-3, warmup_steps=10),
            **{"data": data, "model": model, "steps": 60, "eval_steps": 30, "average": 2} | options,
        )

    return make


@pytest.fixture(scope="session")
def classify_text_run(classify_text_recipe_of, tmp_path_factory):
    """The folder of a finished run, and its scores."""
    folder = tmp_path_factory.mktemp("run") / "animals"
    return folder, train(classify_text_recipe_of(), folder)


@pytest.fixture(scope="session")
def room_stories(tmp_path_factory):
    """A file of 600 stories about who is in which room."""
    path = tmp_path_factory.mktemp("stories") / "rooms.txt"
    rng, lines = np.random.default_rng(0), []
    for _ in range(600):
        people = rng.permutation(["Mary", "John", "Sandra"])
        rooms = rng.choice(["kitchen", "garden", "office"], 3)
        for i, (person, room) in enumerate(zip(people, rooms, strict=True), 1):
            lines.append(f"{i} {person} {rng.choice(['went', 'moved'])} to the {room}.")
        fact = rng.integers(3)
        lines.append(f"4 Where is {people[fact]}?\t{rooms[fact]}\t{fact + 1}")
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="session")
def answer_recipe_of(room_stories):
    """A recipe of a memory network, with some options changed."""
    model = ModelOptions.of("memory_network", "test", dim=20, max_sentences=20, linear_start=True)

    def make(**options):
        return QuestionAnsweringRecipe(
            data=QuestionAnsweringData(str(room_stories), test=str(room_stories), batch_size=32),
            model=model,
            optimizer=OptimizerOptions(learning_rate=0.02, schedule="constant", warmup_steps=10),
            **{"steps": 160, "eval_steps": 40} | options,
        )

    return make


@pytest.fixture(scope="session")
def answer_run(answer_recipe_of, tmp_path_factory):
    """The folder of a finished run, and its scores."""
    folder = tmp_path_factory.mktemp("run") / "rooms"
    return folder, train(answer_recipe_of(), folder)


@pytest.fixture(scope="session")
def draw_recipe_of():
    """A recipe of drawings of scenes, with some options changed."""
    model = ModelOptions.of("dalle", dim=16, depth=2, num_heads=2, mlp_dim=24, dropout=0.1)

    def make(**options):
        return ImageGenerationRecipe(
            **{
                "data": ImageGenerationData(
                    images="embedded:scenes/40", vocab_size=44, max_length=10, batch_size=8
                ),
                "image_tokenizer": ImageTokenizerOptions(
                    codebook_size=5, dim=8, depth=1, patch_size=8, steps=8, batch_size=4
                ),
                "model": model,
                "optimizer": OptimizerOptions(learning_rate=1e-2, warmup_steps=5),
                "decoding": DecodingOptions(kind="sample", n_best=2),
                "steps": 40,
                "eval_steps": 20,
                "eval_images": 4,
            }
            | options
        )

    return make


@pytest.fixture(scope="session")
def draw_run(draw_recipe_of, tmp_path_factory):
    """The folder of a finished run, and its scores."""
    folder = tmp_path_factory.mktemp("run") / "draw"
    return folder, train(draw_recipe_of(), folder)
