import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tfx_transformer.export import export
from tfx_transformer.train.recipe import load_recipe, save_recipe
from tfx_transformer.train.run_folder import (
    check_folder,
    is_finished,
    load_pipeline,
    load_run,
    open_folder,
    read_scores,
    rounded,
)
from tfx_transformer.train.tasks import TASKS, load_task

RUNS = {  # by task, a fixture with a small run
    "captioning": "caption_run",
    "classification": "classify_run",
    "image_generation": "draw_run",
    "language_model": "language_run",
    "masked_language_model": "mask_run",
    "text_classification": "classify_text_run",
    "translation": "run",
}
MARIAN = Path(__file__).parents[1] / "fixtures/marian"
TEXTS = ["red cat", "big old dog", ""]


def test_the_card_has_scores_and_recipe(run):
    card = load_run(run[0]).card()
    assert "bleu" in card and '"learning_rate": 0.005' in card and "train.en" in card
    assert "/" not in card.split("## ")[0].replace("tokens/s", "")


def test_scores_of_the_card_have_two_decimals():
    scores = {"bleu": 12.3456, "by_class": {"cat": 0.6789}, "images": 7, "signature": "tok:13a"}
    expected = {"bleu": 12.35, "by_class": {"cat": 0.68}, "images": 7, "signature": "tok:13a"}
    assert rounded(scores) == expected


def test_the_card_of_a_captioner_has_scores_and_data(caption_run, pictures, captions):
    card = load_run(caption_run[0]).card()
    assert (
        card.startswith("# show_attend_tell, ") and f"Data: {pictures.name} {captions.name}" in card
    )
    assert "- bleu_4: " in card and '"embedding_dim": 16' in card


def test_many_sentences_are_translated_as_one_by_one(run):
    translator = load_run(run[0]).pipeline()
    texts = ["red cat", "", "big old blue dog", "dog", "red " * 100]
    together = translator(texts, batch_size=2)
    assert together == [translator(text) for text in texts]
    assert together[1] == ""


def test_one_vocabulary_is_one_tokenizer(run):
    source, target = load_run(run[0]).task.tokenizers
    assert source is target


@pytest.mark.parametrize("name, length", [("run", 16), ("caption_run", 8)])
def test_pipeline_options_that_are_not_given_are_the_recipe_s(name, length, request):
    loaded = load_run(request.getfixturevalue(name)[0])
    own, other = loaded.pipeline(), loaded.pipeline(width=5, max_length=4)
    assert (own.decoder.width, own.decoder.n_best, own.max_length) == (3, 2, length)
    assert (other.decoder.width, other.decoder.n_best, other.max_length) == (5, 2, 4)
    assert own.model is loaded.model and own.kind == loaded.task.kind


@pytest.mark.parametrize("task", RUNS)
def test_a_run_of_one_task_is_not_of_another(task, request):
    folder = request.getfixturevalue(RUNS[task])[0]
    assert load_run(folder, task).folder == folder
    other = next(name for name in TASKS if name != task)
    nouns = load_task(task).noun, load_task(other).noun
    with pytest.raises(ValueError, match=f"holds a {nouns[0]}, not a {nouns[1]}"):
        load_run(folder, other)


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(
        ValueError, match="holds no trained model: neither model.keras nor a checkpoint"
    ):
        load_run(tmp_path)
    with pytest.raises(ValueError, match="holds no trained model"):
        load_pipeline(tmp_path)


def test_a_run_without_a_checkpoint_can_be_replaced(recipe_of, tmp_path):
    open_folder(recipe_of(), tmp_path)
    (tmp_path / "tokenizer").mkdir()
    other = recipe_of(seed=3)
    check_folder(other, tmp_path)
    open_folder(other, tmp_path)
    assert not (tmp_path / "tokenizer").exists()  # it belonged to the other recipe
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/step_00000010.npz").touch()
    check_folder(other, tmp_path)
    with pytest.raises(ValueError, match="holds a run of another recipe: seed was 3, is 0; choose"):
        check_folder(recipe_of(), tmp_path)


@pytest.mark.parametrize("task", RUNS)
def test_an_unfinished_run_has_its_best_weights(task, request, tmp_path, capsys):
    finished = request.getfixturevalue(RUNS[task])[0]
    folder = tmp_path / "stopped"
    shutil.copytree(finished, folder)
    (folder / "model.keras").unlink()
    run, whole = load_run(folder), load_run(finished)
    assert "stopped is not finished: this is its best checkpoint, step " in capsys.readouterr().err
    with np.load(folder / "checkpoints/best.npz") as best:
        stored = [best[name] for name in best.files if name.startswith("weight/")]
    for weight, own, array in zip(run.model.weights, whole.model.weights, stored, strict=True):
        np.testing.assert_array_equal(weight, array)
        assert weight.path == own.path
    assert not run.is_finished and run.card().startswith("# ")


def test_more_steps_are_another_run_only_if_the_schedule_depends_on_them(recipe_of, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/step_00000010.npz").touch()
    recipe = recipe_of()
    save_recipe(recipe, tmp_path / "recipe.json")
    check_folder(replace(recipe, steps=999), tmp_path)
    recipe = replace(recipe, optimizer=replace(recipe.optimizer, schedule="cosine"))
    save_recipe(recipe, tmp_path / "recipe.json")
    check_folder(recipe, tmp_path)
    with pytest.raises(ValueError, match="steps was 300, is 999 .the cosine schedule of the steps"):
        check_folder(replace(recipe, steps=999), tmp_path)


def test_another_cache_is_no_other_run(run, tmp_path):
    recipe = load_recipe(run[0] / "recipe.json")
    moved = replace(recipe, data=replace(recipe.data, cache=str(tmp_path)))
    check_folder(moved, run[0])
    assert is_finished(moved, run[0]) and is_finished(replace(moved, strategy="mirrored"), run[0])
    assert not is_finished(replace(moved, seed=1), run[0])


def test_steps_that_were_made_cannot_be_taken_back(recipe_of, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    save_recipe(recipe_of(), tmp_path / "recipe.json")
    for name in ("step_00000100", "stopped_00000130"):
        (tmp_path / f"checkpoints/{name}.npz").touch()
    check_folder(recipe_of(steps=130), tmp_path)
    message = f"steps must be at least 130, as {tmp_path} has made them; got steps=129"
    with pytest.raises(ValueError, match=message):
        check_folder(recipe_of(steps=129), tmp_path)


def test_damaged_scores_are_one_line_with_the_file(tmp_path):
    (tmp_path / "test.json").write_text('{"bleu": NaN}')
    assert np.isnan(read_scores(tmp_path)["bleu"])
    for text in ('{"bleu": ', "5", "[" * 10**5):
        (tmp_path / "test.json").write_text(text)
        with pytest.raises(ValueError, match=r"test.json is damaged or not supported: [^\n]+$"):
            read_scores(tmp_path)


@pytest.fixture(scope="module")
def served(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "served"
    return export(load_run(run[0]).pipeline(n_best=2), folder)


def test_a_run_and_its_export_give_the_same_results(run, served):
    by_run, by_export = (
        list(load_pipeline(folder, "translation", n_best=2).results(TEXTS))
        for folder in (run[0], served)
    )
    assert [result.text for result in by_run] == [result.text for result in by_export]
    assert by_run[0].text == "rot Katze" and len(by_export[0].n_best) == 2


def test_a_run_widens_its_beam_for_more_results(run):
    (result,) = load_pipeline(run[0], n_best=5).results(["red cat"])
    scores = [score for _, score in result.n_best]
    assert len(scores) == 5 and scores == sorted(scores, reverse=True)


def test_an_export_has_the_options_that_it_was_made_with(served):
    with pytest.raises(ValueError, match="n_best of .*served must be at most 2; got n_best=3"):
        load_pipeline(served, n_best=3)
    with pytest.raises(ValueError, match="width of .*served must be as exported, 3; got width=4"):
        load_pipeline(served, width=4)
    assert load_pipeline(served, n_best=1, width=3).kind == "translator"


def test_an_image_is_described_by_a_run_as_by_its_export(caption_run, caption_export, pictures):
    files = [(pictures / name).read_bytes() for name in ("red/1.jpg", "blue/2.png", "green/3.jpg")]
    files.insert(1, b"no picture")
    by_run, by_export = (
        list(load_pipeline(folder, "captioning").results(files))
        for folder in (caption_run[0], caption_export)
    )
    texts = [result.text for result in by_run]
    assert [result.text for result in by_export] == texts
    for color, text in zip(("red", "", "blue", "green"), texts, strict=True):
        assert text.split()[-1:] == [color] if color else text == ""
    assert [result.is_readable for result in by_run] == [True, False, True, True]
    assert by_run[0].weights.shape[1:] == by_export[0].weights.shape[1:] == (4, 4)
    assert (len(by_run[0].n_best), len(by_export[0].n_best)) == (2, 1)  # beam search and greedy


def test_a_model_of_another_task_is_refused(served, run, caption_export, caption_run):
    with pytest.raises(ValueError, match="must be an export of a captioner; it holds a translator"):
        load_pipeline(served, "captioning")
    with pytest.raises(ValueError, match="holds a translator, not a captioner"):
        load_pipeline(run[0], "captioning")
    with pytest.raises(ValueError, match="must be an export of a translator; it holds a captioner"):
        load_pipeline(caption_export, "translation")
    with pytest.raises(ValueError, match="holds a captioner, not a translator"):
        load_pipeline(caption_run[0], "translation")


def test_an_export_of_token_ids_takes_no_text(run, tmp_path):
    folder = export(load_run(run[0]).pipeline(), tmp_path / "ids", ids_only=True)
    with pytest.raises(ValueError, match="takes token ids, not text"):
        load_pipeline(folder)


def test_a_marian_folder_is_a_translator_with_its_own_decoder():
    expected = json.loads(MARIAN.with_suffix(".json").read_text())["beam"][:2]
    texts = ["the red cat", "a big old dog sees the blue sea and the cat"]
    results = load_pipeline(MARIAN, "translation", n_best=4).results(texts)
    assert [[text for text, _ in result.n_best] for result in results] == [
        best["texts"] for best in expected
    ]
    translator = load_pipeline(MARIAN, length_penalty=0.0, max_length=9)
    assert translator.max_length == 9 and translator.decoder.length_penalty == 0
    assert translator.decoder.length_rule == "power"
