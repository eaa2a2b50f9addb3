import dataclasses
import math

import numpy as np
import pytest

from tfx_transformer.data import END, START
from tfx_transformer.train.recipes import RECIPES
from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.translation.task import TranslationTask, load_split


def test_perplexity_is_of_the_real_tokens_one_by_one(run):
    loaded = load_run(run[0])
    pairs = load_split(loaded.recipe.data)
    source, target = loaded.task.tokenizers
    nats, count = 0.0, 0
    for x, y in zip(pairs.source, pairs.target, strict=True):
        ids = target.encode_list([y])[0]
        inputs = {
            "source": np.array([[*source.encode_list([x])[0], END]]),
            "target": np.array([[START, *ids]]),
        }
        logits = np.asarray(loaded.model(inputs))[0].astype("float64")
        for row, token in zip(logits, [*ids, END], strict=True):
            nats += math.log(np.exp(row - row.max()).sum()) + row.max() - row[token]
            count += 1
    found = loaded.task.token_metrics(loaded.model, pairs)()["perplexity"]
    assert found == pytest.approx(math.exp(nats / count), rel=1e-4)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_source_with_splits_serves_for_all(split):
    pairs = load_split(RECIPES["translate_emoji"].data, split)
    assert pairs.name == f"embedded:emoji/en-ko ({split})" and len(pairs) > 300


def test_files_must_be_named_for_every_split(recipe_of):
    data = dataclasses.replace(recipe_of().data, validation=())
    with pytest.raises(ValueError, match="data.validation must name a source: files have no"):
        load_split(data, "validation")


def test_two_vocabularies_have_two_tables(recipe_of, tmp_path):
    recipe = recipe_of()
    recipe = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, joint=False))
    tied = dataclasses.replace(recipe, model=recipe.model.replace(tie="all"))
    with pytest.raises(ValueError, match="model.tie=all needs one vocabulary; got data.joint=Fals"):
        TranslationTask(tied).load_data()
    task = TranslationTask(recipe)
    task.load_data()
    task.prepare(tmp_path, 1)
    source, target = task.tokenizers
    task.tokenizers = (source, source)  # of one size
    model = task.make_model()
    assert model.source_embedding is not model.target_embedding
