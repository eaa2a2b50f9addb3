import pytest

from tfx_transformer.export import export_translator
from tfx_transformer.lines import translate_lines
from tfx_transformer.train.folder import load_run
from tfx_transformer.train.searching import Search
from tfx_transformer.train.serving import load_caption, load_translate

TEXTS = ["red cat", "big old dog", ""]


@pytest.fixture(scope="module")
def export(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "served"
    return export_translator(load_run(run[0]).translator(Search(n_best=2)), folder)


def test_run_and_export_say_the_same(run, export):
    by_run, by_export = (
        list(translate_lines(load_translate(folder, n_best=2), TEXTS))
        for folder in (run[0], export)
    )
    assert [found.text for found in by_run] == [found.text for found in by_export]
    assert by_run[0].text == "rot Katze" and len(by_export[0].n_best) == 2


def test_a_run_widens_its_beam_for_more(run):
    (found,) = translate_lines(load_translate(run[0], n_best=5), ["red cat"])
    assert len(found.n_best) == 5
    scores = [score for _, score in found.n_best]
    assert scores == sorted(scores, reverse=True)


def test_an_export_has_as_many_as_it_was_made_for(export):
    with pytest.raises(ValueError, match="n_best=3 is more than the 2 for which"):
        load_translate(export, n_best=3)


def test_a_picture_is_described_by_a_run_as_by_its_export(caption_run, caption_export, pictures):
    files = [(pictures / name).read_bytes() for name in ("red/1.jpg", "blue/2.png", "green/3.jpg")]
    files.insert(1, b"no picture")
    by_run, by_export = (load_caption(folder)(files) for folder in (caption_run[0], caption_export))
    texts = [text.decode() for text in by_run["text"].numpy()]
    assert [text.decode() for text in by_export["text"].numpy()] == texts
    for colour, text in zip(("red", "", "blue", "green"), texts, strict=True):
        assert text.split()[-1:] == [colour] if colour else text == ""
    assert by_run["is_readable"].numpy().tolist() == [True, False, True, True]
    assert by_run["weights"].shape == by_export["weights"].shape == (4, 8, 4, 4)
    assert (by_run["n_best"].shape[1], by_export["n_best"].shape[1]) == (2, 1)  # a beam, greedy


def test_what_does_something_else_does_not_describe(export, run, caption_export, caption_run):
    with pytest.raises(ValueError, match="must be an export that describes.*one translates"):
        load_caption(export)
    with pytest.raises(ValueError, match="holds a translator, not a captioner"):
        load_caption(run[0])
    with pytest.raises(ValueError, match="must be an export that translates.*one describes"):
        load_translate(caption_export)
    with pytest.raises(ValueError, match="holds a captioner, not a translator"):
        load_translate(caption_run[0])


def test_an_export_of_ids_has_no_strings(run, tmp_path):
    folder = export_translator(load_run(run[0]).translator(), tmp_path / "ids", ids_only=True)
    with pytest.raises(ValueError, match="takes and gives token ids"):
        load_translate(folder)
