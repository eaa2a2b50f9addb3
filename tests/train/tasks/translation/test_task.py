import dataclasses
import math

import numpy as np
import pytest

from tfx_transformer.data import END, START
from tfx_transformer.train.recipes import RECIPES
from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.translation import TranslationData
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


def test_splits_that_are_not_named_are_held_out_from_the_training_files(tmp_path, capsys):
    lines = [f"{'very ' * (i // 400)}{i % 400}" for i in range(800)]
    lines += lines[:50]  # equal sources are in one split
    (tmp_path / "a.en").write_text("\n".join(lines))
    (tmp_path / "a.de").write_text("\n".join(lines))
    data = TranslationData(train=(str(tmp_path / "a.en"), str(tmp_path / "a.de")))
    splits = [load_split(data, split) for split in ("train", "validation", "test")]
    sources = [set(split.source) for split in splits]
    assert set.union(*sources) == set(lines) and sum(map(len, sources)) == 800  # disjoint
    assert all(50 < len(split) < 110 for split in splits[1:])
    assert all(split.source == split.target for split in splits)
    for cache in [tmp_path / "cache"] * 2:  # stored, then found
        stored = [load_split(data, split, cache) for split in ("train", "validation", "test")]
        assert [[*x.source] for x in stored] == [x.source for x in splits]
    TranslationTask(dataclasses.replace(RECIPES["translate_multi30k"], data=data)).load_data()
    counts = [f"{len(split)} pairs for " for split in splits]
    expected = f"held out: {counts[1]}validation, {counts[2]}test\n"
    assert capsys.readouterr().out == expected
    named = dataclasses.replace(data, test=data.train)
    assert load_split(named, "test").source == lines
    assert set(load_split(named, "train").source) == sources[0] | sources[2]
    (tmp_path / "a.en").write_text("one")
    (tmp_path / "a.de").write_text("eins")
    with pytest.raises(ValueError, match="--data.test must name a source: .* is too small to spl"):
        load_split(data, "test")


def test_two_vocabularies_have_two_tables(recipe_of, tmp_path):
    recipe = recipe_of()
    recipe = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, joint=False))
    tied = dataclasses.replace(recipe, model=recipe.model.replace(tie="all"))
    with pytest.raises(ValueError, match="model.tie=all needs one vocabulary; got data.joint=Fals"):
        TranslationTask(tied).load_data()
    task = TranslationTask(recipe)
    task.load_data()
    task.prepare(tmp_path)
    source, target = task.tokenizers
    task.tokenizers = (source, source)  # of one size
    model = task.make_model()
    assert model.source_embedding is not model.target_embedding
