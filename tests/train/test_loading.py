import json
from pathlib import Path

import pytest

from tfx_transformer.export import export
from tfx_transformer.train.loading import load_pipeline
from tfx_transformer.train.run_folder import load_run

MARIAN = Path(__file__).parents[1] / "fixtures/marian"
TEXTS = ["red cat", "big old dog", ""]


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


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(ValueError, match="holds no trained model"):
        load_pipeline(tmp_path)
