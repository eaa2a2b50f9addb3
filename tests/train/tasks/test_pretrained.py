"""A classifier of texts starts from what others have learned, with their words and sizes."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tfx_transformer.convert import load_weights, read_weights
from tfx_transformer.data.text.wordpiece import WordPiece
from tfx_transformer.models import BERT
from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.run import train
from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.pretrained import find_tokenizer
from tfx_transformer.train.tasks.text import load_tokenizer
from tfx_transformer.train.tasks.text_classification import (
    TextClassificationData,
    TextClassificationRecipe,
)
from tfx_transformer.train.tasks.text_classification.task import TextClassificationTask

FIXTURE = Path(__file__).parents[2] / "fixtures/hugging_face_bert_pretraining.safetensors"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "cat", "dog", "big", "old", "alt"]
PIECES += ["katze", "hund", *(f"word{i}" for i in range(10))]


@pytest.fixture
def hugging_face(tmp_path):
    """A folder as the library writes it."""
    folder = tmp_path / "bert"
    folder.mkdir()
    shutil.copy(FIXTURE, folder / "model.safetensors")
    config = json.loads(FIXTURE.with_suffix(".json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "gelu_new"}))
    WordPiece(PIECES).save(folder)
    return folder


def make_classifier(weights, own):
    """A model of five classes with the pretrained weights, and its tokenizer."""
    data = TextClassificationData(max_length=3)
    task = TextClassificationTask(TextClassificationRecipe(data=data, model=own, weights=weights))
    task.tokenizer, task.class_names = find_tokenizer(weights), list("abcde")
    return task.make_model(), task.tokenizer


def test_a_run_brings_its_words_its_sizes_and_its_weights(mask_run):
    source = load_run(mask_run[0])
    model, tokenizer = make_classifier(str(mask_run[0]), ModelOptions.of("bert", dropout=0.3))
    assert tokenizer.model == source.task.tokenizer.model
    assert (model.dim, model.depth, model.max_length, model.dropout) == (32, 1, 8, 0.3)
    inputs = {"tokens": np.array([[1, 7, 9, 2]])}
    np.testing.assert_allclose(model.encode(inputs)[0], source.model.encode(inputs)[0], atol=1e-6)
    assert model(inputs).shape == (1, 5)


def test_options_that_the_weights_do_not_fit_are_named(mask_run):
    with pytest.raises(ValueError, match=r"must be .*, as pretrained; the options of the model"):
        make_classifier(str(mask_run[0]), ModelOptions.of("bert", mlp_dim=48))


def test_a_bert_of_hugging_face_brings_them_too(hugging_face):
    for weights in (hugging_face, hugging_face / "model.safetensors"):
        model, tokenizer = make_classifier(str(weights), ModelOptions.of("bert"))
        assert tokenizer.pieces == PIECES
        assert (model.num_heads, model.activation, model.num_classes) == (3, "gelu_tanh", 5)
    whole = BERT(23, 12, 2, 3, 30, 10, activation="gelu_tanh")
    load_weights(whole, read_weights(FIXTURE))
    inputs = {"tokens": np.array([[2, 7, 9, 3]])}
    np.testing.assert_allclose(model.encode(inputs)[0], whole.encode(inputs)[0], atol=1e-6)
    np.testing.assert_allclose(
        model.pool_tokens(model.encode(inputs)[0]), whole(inputs)["sentence"]
    )


def test_without_a_config_the_recipe_tells_the_sizes(hugging_face):
    (hugging_face / "config.json").unlink()
    own = ModelOptions.of("bert", "test", dim=12, num_heads=3, mlp_dim=30)
    with pytest.raises(ValueError, match=r"position_embeddings.weight must be \(32, 12\)"):
        make_classifier(str(hugging_face), own)


def test_a_run_begins_with_a_run(mask_run, classify_text_recipe_of, labeled, tmp_path):
    data = TextClassificationData(str(labeled), max_length=8, batch_size=16)
    options = {
        "weights": str(mask_run[0]),
        "model": ModelOptions.of("bert"),
        "data": data,
        "steps": 40,
    }
    scores = train(classify_text_recipe_of(**options), tmp_path / "run")
    assert scores["accuracy"] > 80
    run = load_run(tmp_path / "run", "text_classification")
    assert run.task.tokenizer.model == load_run(mask_run[0]).task.tokenizer.model
    long = TextClassificationData(str(labeled), max_length=9)
    with pytest.raises(ValueError, match="data.max_length must not exceed the 8 positions of"):
        train(classify_text_recipe_of(**options | {"data": long}), tmp_path / "long")


def test_a_run_begins_with_a_bert(hugging_face, classify_text_recipe_of, labeled, tmp_path):
    data = TextClassificationData(str(labeled), max_length=10, batch_size=16)
    options = {"weights": str(hugging_face), "model": ModelOptions.of("bert"), "data": data}
    task, folder = TextClassificationTask(classify_text_recipe_of(**options)), tmp_path / "run"
    folder.mkdir()
    task.load_data()
    task.prepare(folder)
    inputs, targets, _ = next(iter(task.batches(0)))
    assert task.make_model()(inputs).shape == targets.shape == (16, 2)
    assert set(inputs["tokens"].numpy()[:, 0]) == {2}  # [CLS]
    shutil.rmtree(hugging_face)  # the run keeps the vocabulary
    assert load_tokenizer(folder).pieces == PIECES
