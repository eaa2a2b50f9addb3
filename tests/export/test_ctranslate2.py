"""CTranslate2 decodes our models as we do: the same tokens, greedily and with a beam."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tfx_transformer.convert.ctranslate2 import load_ctranslate2
from tfx_transformer.convert.marian import load_marian
from tfx_transformer.data import shift, train_tokenizer
from tfx_transformer.decoding import DECODERS
from tfx_transformer.export import export
from tfx_transformer.export.ctranslate2 import AGREEING, check_model
from tfx_transformer.models import create_model
from tfx_transformer.pipelines import Translator
from tfx_transformer.pipelines.decode import decode

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
AGREE = {  # options of our decoder, with which the library gives the same tokens
    "greedy": {"kind": "greedy"},
    "beam without penalty": {"kind": "beam", "width": 3, "length_penalty": 0.0},
    "beam": {"kind": "beam", "length_penalty": 0.6} | AGREEING,
    "beam with a large penalty": {"kind": "beam", "width": 3, "length_penalty": 2.0} | AGREEING,
    "constraints": {"kind": "greedy", "min_length": 6, "no_repeat_ngram": 2, "forbidden": [9]},
}
THEIR_OPTIONS = {"greedy": {"beam_size": 1}, "beam": {"beam_size": 4, "length_penalty": 0.0}}
OUR_DECODERS = {
    "greedy": {"kind": "greedy", "min_length": 1},
    "beam": {"kind": "beam", "width": 4, "length_penalty": 0.0, "min_length": 1},
}
MARIAN = Path(__file__).parents[1] / "fixtures/marian"
SIGNS = np.resize([2, -2, -2, 2, -2], 16)
TEXTS = ["red cat", "old big dog and red dog", "a", "blue dog", "cat cat cat cat", "x red"]


@pytest.fixture(scope="module")
def tokenizers():
    """Two vocabularies."""
    source = ["red cat", "old big dog", "blue dog and red cat"] * 20
    target = ["rot Katze", "alt groß Hund", "blau Hund und rot Katze"] * 20
    return [train_tokenizer(texts, 40, byte_fallback=False) for texts in (source, target)]


@pytest.fixture
def make(tokenizers, draw):
    """Makes a translator with random weights; two vocabularies if the model allows it."""

    def make(**options):
        sides = tokenizers if options.get("tie") else [tokenizers[1]] * 2
        sizes = {"source_vocab_size": sides[0].vocab_size, "vocab_size": sides[1].vocab_size}
        model = create_model("transformer", "test", **sizes | options)
        for weight in model.trainable_weights:
            scale = 0.5 if len(weight.shape) > 1 else 0.2
            weight.assign(scale * draw(*weight.shape) + weight.path.endswith("norm/scale"))
        suppress_special(model)
        return Translator(model, *sides, "greedy", max_length=40)

    return make


def suppress_special(model):
    """Makes PAD and START as unlikely as after training, and END too: the last norm adds a vector
    to which only these three are not orthogonal, with a negative product."""
    norm = model.decoder_norm if model.norm_first else model.decoder[-1].mlp_norm
    table = model.head.kernel if model.tie == "none" else model.target_embedding.table
    rows = np.array(table).T if model.tie == "none" else np.array(table)
    unit = np.array(norm.offset) / np.linalg.norm(norm.offset)
    norm.offset.assign(8 * unit)
    norm.scale.assign(SIGNS)  # so that the output tokens are not the input tokens
    rows -= np.outer(rows @ unit, unit)
    rows[:3] -= 5 * unit
    table.assign(rows.T if model.tie == "none" else rows)


def open_library(folder):
    import ctranslate2

    return ctranslate2.Translator(str(folder), compute_type="float32")


def pieces(tokenizer, texts):
    return [[tokenizer.pieces[i] for i in row] for row in tokenizer.encode_list(texts)]


@installed
@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_every_token_has_the_same_probability_in_the_library(options, make, tmp_path):
    """Without PAD and START, which have no probability there."""
    translator = make(**options)
    library = open_library(export(translator, tmp_path / "out", format="ctranslate2"))
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
        ours = [log_probs[i, t, token - 2] for t, token in enumerate(row)]
        np.testing.assert_allclose(theirs[i].log_probs, ours, atol=1e-4)


@installed
@pytest.mark.parametrize("name", ["greedy", "beam"])
@pytest.mark.parametrize("options", [{}, {"norm_first": True}], ids=["post-norm", "pre-norm"])
def test_the_library_decodes_the_same_tokens(options, name, make, tmp_path):
    """Without END, up to the limit."""
    translator = make(**options)
    ours = [row[0] for row in decode_pieces(translator, name, TEXTS, 12)]
    library = open_library(export(translator, tmp_path / "out", format="ctranslate2"))
    theirs = library.translate_batch(
        pieces(translator.source_tokenizer, TEXTS), **THEIR_OPTIONS[name], max_decoding_length=12
    )
    assert ours == [result.hypotheses[0] for result in theirs]
    assert all(len(row) == 12 for row in ours) and len(set(map(tuple, ours))) > 1


@installed
@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_the_library_ends_at_the_same_token(name, tmp_path):
    """With a Marian model that was trained to predict END."""
    translator = load_marian(MARIAN)
    stored = json.loads(MARIAN.with_suffix(".json").read_text())["texts"]
    texts = [text for text in stored if ">>" not in text]
    ours = [row[0] for row in decode_pieces(translator, name, texts, 30)]
    source = translator.source_tokenizer
    sources = [source.to_pieces(row).numpy().tolist() for row in source.encode(texts)]
    library = open_library(export(translator, tmp_path / "out", format="ctranslate2"))
    theirs = library.translate_batch(sources, **THEIR_OPTIONS[name], return_end_token=True)
    assert ours == [result.hypotheses[0] for result in theirs]
    assert all(row[-1] == "</s>" for row in ours) and len(set(map(tuple, ours))) > 2


@installed
@pytest.mark.parametrize("decoder", AGREE.values(), ids=AGREE)
def test_with_the_stored_options_the_library_decodes_as_our_decoder(decoder, tmp_path):
    translator = load_marian(MARIAN, decoder, max_length=30)
    stored = json.loads(MARIAN.with_suffix(".json").read_text())["texts"]
    texts = [text for text in stored if ">>" not in text and text]
    source = translator.source_tokenizer
    sources = [source.to_pieces(row).numpy().tolist() for row in source.encode(texts)]
    folder = export(translator, tmp_path / "out", "a card", "ctranslate2")
    options = json.loads((folder / "translate_batch.json").read_text())
    results = open_library(folder).translate_batch(sources, **options, return_end_token=True)
    ours = [result.pieces for result in translator.results(texts)]
    theirs = [result.hypotheses[0] for result in results]
    assert [row[: len(mine)] for row, mine in zip(theirs, ours, strict=True)] == ours
    assert len(set(map(tuple, ours))) > 2
    assert "differ" not in (folder / "README.md").read_text()


@installed
def test_the_card_says_where_the_library_differs_from_our_decoder(make, tmp_path):
    translator = make()
    beam = Translator(translator.model, *[translator.target_tokenizer] * 2, "beam", max_length=40)
    text = (export(beam, tmp_path / "out", "a card", "ctranslate2") / "README.md").read_text()
    assert "length_penalty=0.6" in text and "some translations differ" in text


def decode_pieces(translator, name, texts, max_length):
    """The pieces of all our translations, best first."""
    decoder = DECODERS.make(OUR_DECODERS[name])
    inputs = {"source": translator.encode(texts)}
    tokens = decode(translator.model, decoder, inputs, len(texts), max_length)["tokens"]
    pieces = translator.target_tokenizer.to_pieces(tokens).numpy().tolist()
    return [[[piece.decode() for piece in row if piece] for row in rows] for rows in pieces]


@installed
def test_the_folder_contains_all_files(make, tmp_path):
    translator = make(tie="none")
    folder = export(translator, tmp_path / "out", "a card", "ctranslate2", max_positions=99)
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.json",
        "export.json",
        "model.bin",
        "source.spm",
        "source_vocabulary.json",
        "target.spm",
        "target_vocabulary.json",
        "translate_batch.json",
    ]
    assert (folder / "README.md").read_text().startswith("a card")
    assert (folder / "source.spm").read_bytes() == translator.source_tokenizer.model
    vocabulary = json.loads((folder / "target_vocabulary.json").read_text())
    assert vocabulary == translator.target_tokenizer.pieces
    with pytest.raises(ValueError, match="already exists"):
        export(translator, folder, format="ctranslate2")
    shared = export(make(), tmp_path / "shared", format="ctranslate2")
    assert (shared / "shared_vocabulary.json").exists()


@installed
@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_an_exported_model_loads_again(options, make, tmp_path):
    """With all options that the format supports; positions become learned ones."""
    translator = make(**options)
    folder = export(translator, tmp_path / "out", format="ctranslate2")
    loaded = load_ctranslate2(folder, "sentencepiece", decoder="greedy", max_length=40)
    assert type(loaded) is Translator and loaded.model.tie == translator.model.tie
    inputs = {"source": np.array([[4, 5, 6, 2, 0]]), "target": np.array([[1, 7, 8]])}
    expected, logits = np.array(translator.model(inputs)), np.array(loaded.model(inputs))
    np.testing.assert_allclose(logits[..., 2:], expected[..., 2:], atol=1e-3)
    assert (logits[..., :2] < -1e8).all()


REFUSED = {  # options of our model, the message
    "memory": ({"memory": "layerwise"}, "memory must be 'final'; got 'layerwise'"),
    "attention": (
        {"attention": {"kind": "local", "window": 3}},
        "attention must be multi_head; got .*local",
    ),
    "rotary": (
        {"attention": {"kind": "multi_head", "position": "rotary"}},
        "attention must be without position; got .*rotary",
    ),
    "norm": ({"norm": "batch"}, "norm must be layer; got 'batch'"),
    "gated": (
        {"activation": "swiglu"},
        "activation must be one of gelu, gelu_tanh, relu, swish; got 'swiglu'",
    ),
    "index": (
        {"position": {"kind": "index", "combine": "add", "project": True}},
        "position must be sinusoidal or learned; got .*index",
    ),
    "projected": ({"position": {"kind": "sinusoidal", "project": True}}, "position must be added"),
}


@pytest.mark.parametrize("options, message", REFUSED.values(), ids=REFUSED)
def test_unsupported_models_are_refused(options, message):
    model = create_model("transformer", "test", vocab_size=11, **options)
    with pytest.raises(ValueError, match=f"CTranslate2 cannot run this model: {message}"):
        check_model(model)


def test_another_model_is_refused(translator, tmp_path):
    check_model(translator.model)
    other = create_model("rnn_seq2seq", "test", vocab_size=11)
    with pytest.raises(ValueError, match="format supports a Transformer; got RNNSeq2Seq"):
        check_model(other)


def test_a_missing_library_is_named_and_nothing_is_written(translator, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    with pytest.raises(ImportError, match="pip install ctranslate2, or in a checkout"):
        export(translator, tmp_path / "out", format="ctranslate2")
    assert list(tmp_path.iterdir()) == []
