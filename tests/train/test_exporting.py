import pytest

from tfx_transformer.decoding import SamplingDecoder
from tfx_transformer.export import load_generator, load_text_classifier
from tfx_transformer.train import exporting
from tfx_transformer.train.exporting import export_run
from tfx_transformer.train.folder import load_run
from tfx_transformer.train.searching import Search


def test_a_language_model_draws_as_it_is_told(language_run, tmp_path, monkeypatch):
    made, run = [], load_run(language_run[0])
    monkeypatch.setattr(exporting, "export_generator", lambda generator, *_: made.append(generator))
    export_run(run, tmp_path)
    export_run(run, tmp_path, Search(temperature=0.5, max_length=9), top_k=7)
    assert all(isinstance(generator.decoder, SamplingDecoder) for generator in made)
    settings = [(g.decoder.temperature, g.decoder.top_k, g.max_length) for g in made]
    assert settings == [(1.0, 0, 16), (0.5, 7, 9)]


def test_the_card_is_that_of_the_run(language_run, classify_text_run, tmp_path):
    for folder, load in (
        (language_run[0], load_generator),
        (classify_text_run[0], load_text_classifier),
    ):
        run, to = load_run(folder), tmp_path / folder.name
        assert export_run(run, to) == to
        assert (to / "README.md").read_text() == run.card() and callable(load(to))


def test_a_start_for_others_is_not_served(mask_run, tmp_path):
    with pytest.raises(ValueError, match="train classify_text --weights"):
        export_run(load_run(mask_run[0]), tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_a_classifier_goes_out_to_small_runtimes(classify_run, tmp_path):
    run = load_run(classify_run[0])
    folder = export_run(run, tmp_path / "small", format="litert")
    assert (folder / "model.tflite").stat().st_size > 1000
    assert (folder / "README.md").read_text() == run.card()
    assert (folder / "labels.txt").read_text().split("\n")[:-1] == run.class_names
