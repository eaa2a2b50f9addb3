import pytest

from tfx_transformer.export import export_translator
from tfx_transformer.lines import translate_lines
from tfx_transformer.train.folder import load_run
from tfx_transformer.train.recipe import Search
from tfx_transformer.train.serving import load_translate

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


def test_an_export_of_ids_has_no_strings(run, tmp_path):
    folder = export_translator(load_run(run[0]).translator(), tmp_path / "ids", ids_only=True)
    with pytest.raises(ValueError, match="takes and gives token ids"):
        load_translate(folder)
