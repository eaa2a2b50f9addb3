"""A CTranslate2 export is called like the translator it was made from."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from tfx_transformer.convert.marian import load_marian
from tfx_transformer.export import export, load
from tfx_transformer.pipelines.translator import Translation

MARIAN = Path(__file__).parents[1] / "fixtures/marian"
TEXTS = ["the red cat", "a big old dog sees the blue sea and the cat", "", "e", "a " * 60]
BEAM = {"kind": "beam", "width": 3, "n_best": 2, "length_penalty": 0.0}

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None, reason="ctranslate2 is not installed"
)


@pytest.fixture(scope="module")
def marian():
    return load_marian(MARIAN, BEAM, max_length=30)


@pytest.fixture(scope="module")
def folder(marian, tmp_path_factory):
    return export(marian, tmp_path_factory.mktemp("export") / "out", format="ctranslate2")


def test_it_translates_as_the_translator(marian, folder):
    loaded = load(folder, "translator")
    assert loaded(TEXTS) == marian(TEXTS) and loaded(TEXTS[0]) == marian(TEXTS[0])
    expected = marian.results(TEXTS, explain=True)
    for ours, theirs in zip(loaded.results(TEXTS, explain=True), expected, strict=True):
        assert type(ours) is Translation
        assert ours.source_pieces == theirs.source_pieces and ours.truncated == theirs.truncated
        assert [text for text, _ in ours.n_best] == [text for text, _ in theirs.n_best]
        assert ours.score == pytest.approx(theirs.score, abs=1e-2)
        if ours.text:
            assert ours.pieces == theirs.pieces and ours.alignment.shape == theirs.alignment.shape
            np.testing.assert_allclose(ours.alignment.sum(axis=1), 1, atol=1e-3)


def test_a_batch_may_be_empty(folder):
    assert {len(value) for value in load(folder).predict(np.array([], object)).values()} == {0}


def test_a_missing_library_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ImportError, match="needs the package ctranslate2: pip install"):
        load(folder)


def test_batches_share_the_cores_that_one_operation_does_not_use(folder, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    for threads, translators in ((2, 3), (0, 1)):
        monkeypatch.setattr(
            "tensorflow.config.threading.get_intra_op_parallelism_threads", lambda n=threads: n
        )
        assert load(folder).library.num_translators == translators
