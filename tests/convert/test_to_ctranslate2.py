"""CTranslate2 says of our models what we say: greedily and by a beam, to the token."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tfx_transformer.convert.ctranslate2 import load_ctranslate2
from tfx_transformer.convert.marian import load_marian
from tfx_transformer.convert.to_ctranslate2 import check_model, export_ctranslate2
from tfx_transformer.data import shift, train_tokenizer
from tfx_transformer.decoding import DECODERS
from tfx_transformer.models import create_model
from tfx_transformer.search import search
from tfx_transformer.translator import Translator

installed = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None, reason="ctranslate2 is not installed"
)
MODELS = {
    "the paper": {},
    "pre-norm, nothing tied": {"norm_first": True, "tie": "none", "activation": "gelu"},
    "output tied, biased": {"tie": "output", "output_bias": True, "activation": "swish"},
    "halves": {"position": {"kind": "sinusoidal", "layout": "halves"}, "activation": "gelu_tanh"},
    "learned": {"position": {"kind": "learned", "max_length": 50}, "norm_first": True},
    "no biases": {"attention": {"kind": "multi_head", "qkv_bias": False}},
    "a shallow decoder": {"decoder_depth": 1},
    "another norm": {"norm": {"kind": "layer", "epsilon": 0.1}},
}
SEARCHES = {"greedy": {"beam_size": 1}, "beam": {"beam_size": 4, "length_penalty": 0.0}}
OWN_SEARCHES = {
    "greedy": {"kind": "greedy", "min_length": 1},
    "beam": {"kind": "beam", "width": 4, "length_penalty": 0.0, "min_length": 1},
}
MARIAN = Path(__file__).parents[1] / "fixtures/marian"
SIGNS = np.resize([2, -2, -2, 2, -2], 16)
TEXTS = ["red cat", "old big dog and red dog", "a", "blue dog", "cat cat cat cat", "x red"]


@pytest.fixture(scope="module")
def tokenizers():
    """Of two vocabularies."""
    source = ["red cat", "old big dog", "blue dog and red cat"] * 20
    target = ["rot Katze", "alt groß Hund", "blau Hund und rot Katze"] * 20
    return [train_tokenizer(texts, 40, byte_fallback=False) for texts in (source, target)]


@pytest.fixture
def make(tokenizers, draw):
    """A translator with random weights; two vocabularies where the model allows."""

    def make(**options):
        sides = tokenizers if options.get("tie") else [tokenizers[1]] * 2
        sizes = {"source_vocab_size": sides[0].vocab_size, "vocab_size": sides[1].vocab_size}
        model = create_model("transformer", "tiny", **sizes | options)
        model.build({"source": (None, None), "target": (None, None)})
        for weight in model.trainable_weights:
            scale = 0.5 if len(weight.shape) > 1 else 0.2
            weight.assign(scale * draw(*weight.shape) + weight.path.endswith("norm/scale"))
        incline(model)
        return Translator(model, *sides, "greedy", max_length=40)

    return make


def incline(model):
    """Makes PAD and START as unlikely as training does, and END too: the last norm adds a direction
    in which these three alone have a part, against it."""
    norm = model.decoder_norm if model.norm_first else model.decoder[-1].mlp_norm
    table = model.head.kernel if model.tie == "none" else model.target_embedding.table
    rows = np.array(table).T if model.tie == "none" else np.array(table)
    unit = np.array(norm.offset) / np.linalg.norm(norm.offset)
    norm.offset.assign(8 * unit)
    norm.scale.assign(SIGNS)  # so that what comes out is not what went in
    rows -= np.outer(rows @ unit, unit)
    rows[:3] -= 5 * unit
    table.assign(rows.T if model.tie == "none" else rows)


def open_library(folder):
    import ctranslate2

    return ctranslate2.Translator(str(folder), compute_type="float32")


def pieces(tokenizer, texts):
    return [[tokenizer.id_to_piece(i) for i in row] for row in tokenizer.encode_list(texts)]


@installed
@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_every_token_is_as_likely_there(options, make, tmp_path):
    """But for PAD and START, which cannot come there."""
    translator = make(**options)
    library = open_library(export_ctranslate2(translator, tmp_path / "out"))
    answers = ["rot Katze und alt Hund", "blau", "Hund Hund groß", "", "x", "Katze rot"]
    tokenizer = translator.target_tokenizer
    theirs = library.score_batch(
        pieces(translator.source_tokenizer, TEXTS), pieces(tokenizer, answers)
    )
    inputs, targets = shift(tokenizer.encode(answers))
    source = translator.encode(TEXTS)
    logits = np.array(translator.model({"source": source, "target": inputs.to_tensor()}))[..., 2:]
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    for i, row in enumerate(targets.to_list()):
        own = [log_probs[i, t, token - 2] for t, token in enumerate(row)]
        np.testing.assert_allclose(theirs[i].log_probs, own, atol=1e-4)


@installed
@pytest.mark.parametrize("name", ["greedy", "beam"])
@pytest.mark.parametrize("options", [{}, {"norm_first": True}], ids=["post-norm", "pre-norm"])
def test_the_library_goes_on_as_we_go_on(options, name, make, tmp_path):
    """Without an END, up to the limit."""
    translator = make(**options)
    own = [row[0] for row in say(translator, name, TEXTS, 12)]
    library = open_library(export_ctranslate2(translator, tmp_path / "out"))
    found = library.translate_batch(
        pieces(translator.source_tokenizer, TEXTS), **SEARCHES[name], max_decoding_length=12
    )
    assert own == [result.hypotheses[0] for result in found]
    assert all(len(row) == 12 for row in own) and len(set(map(tuple, own))) > 1


@installed
@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_the_library_ends_where_we_end(name, tmp_path):
    """A Marian that has learned to end."""
    translator = load_marian(MARIAN)
    told = json.loads(MARIAN.with_suffix(".json").read_text())["texts"]
    texts = [text for text in told if ">>" not in text]
    own = [row[0] for row in say(translator, name, texts, 30)]
    source = translator.source_tokenizer
    sources = [source.to_pieces(row).numpy().tolist() for row in source.encode(texts)]
    library = open_library(export_ctranslate2(translator, tmp_path / "out"))
    found = library.translate_batch(sources, **SEARCHES[name], return_end_token=True)
    assert own == [result.hypotheses[0] for result in found]
    assert all(row[-1] == "</s>" for row in own) and len(set(map(tuple, own))) > 2


def say(translator, name, texts, room):
    """The pieces of all that our search finds, best first."""
    decoder = DECODERS.make(OWN_SEARCHES[name])
    inputs = {"source": translator.encode(texts)}
    tokens = search(translator.model, decoder, inputs, len(texts), room)["tokens"]
    found = translator.target_tokenizer.to_pieces(tokens).numpy().tolist()
    return [[[piece.decode() for piece in row if piece] for row in rows] for rows in found]


@installed
def test_the_folder_has_all_that_is_needed(make, tmp_path):
    translator = make(tie="none")
    folder = export_ctranslate2(translator, tmp_path / "out", "a card", max_length=99)
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.json",
        "model.bin",
        "source.spm",
        "source_vocabulary.json",
        "target.spm",
        "target_vocabulary.json",
    ]
    assert (folder / "README.md").read_text() == "a card"
    assert (folder / "source.spm").read_bytes() == translator.source_tokenizer.model
    vocabulary = json.loads((folder / "target_vocabulary.json").read_text())
    assert vocabulary == translator.target_tokenizer.pieces
    with pytest.raises(ValueError, match="is there already"):
        export_ctranslate2(translator, folder)
    shared = export_ctranslate2(make(), tmp_path / "shared")
    assert (shared / "shared_vocabulary.json").exists()


@installed
@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_what_goes_out_comes_back(options, make, tmp_path):
    """All our options that its format has; only positions are learned then."""
    translator = make(**options)
    folder = export_ctranslate2(translator, tmp_path / "out")
    back = load_ctranslate2(folder, "sentencepiece", decoder="greedy", max_length=40)
    assert type(back) is Translator and back.model.tie == translator.model.tie
    inputs = {"source": np.array([[4, 5, 6, 2, 0]]), "target": np.array([[1, 7, 8]])}
    expected, found = np.array(translator.model(inputs)), np.array(back.model(inputs))
    np.testing.assert_allclose(found[..., 2:], expected[..., 2:], atol=1e-3)
    assert (found[..., :2] < -1e8).all()


REFUSED = {  # options of our model, the message
    "memory": ({"memory": "layerwise"}, "decoder blocks read the last encoder block alone"),
    "attention": ({"attention": {"kind": "local", "window": 3}}, "its attention is multi-head"),
    "rotary": (
        {"attention": {"kind": "multi_head", "position": "rotary"}},
        "positions inside attention are others than ours",
    ),
    "norm": ({"norm": "batch"}, "its norm is layer norm; .* norm='batch'"),
    "gated": ({"activation": "swiglu"}, "its activation is one of gelu, gelu_tanh, relu, swish"),
    "place": (
        {"position": {"kind": "index", "combine": "add", "project": True}},
        ".*sinusoidal or",
    ),
    "projected": ({"position": {"kind": "sinusoidal", "project": True}}, "positions are added"),
}


@pytest.mark.parametrize("options, message", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_expressed_is_refused(options, message):
    model = create_model("transformer", "tiny", vocab_size=11, **options)
    with pytest.raises(ValueError, match=f"CTranslate2 cannot run this model: there {message}"):
        check_model(model)


def test_another_model_is_refused(translator, tmp_path):
    check_model(translator.model)
    other = create_model("rnn_seq2seq", "tiny", vocab_size=11)
    with pytest.raises(ValueError, match="takes a Transformer from here; got RNNSeq2Seq"):
        check_model(other)


def test_a_missing_library_is_named(translator, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install tfx-transformer\[convert\]"):
        export_ctranslate2(translator, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
