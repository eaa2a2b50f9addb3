"""Translators of CTranslate2 say here what they say there, token by token.

`fixtures/ctranslate2` was made by `fixtures/make_ctranslate2_fixtures.py`: a post-norm model with
tied tables and bytes for weights. The transliteration model, which is not part of the repository,
is a trained one of the oldest kind: pre-norm, with two vocabularies and positions by a formula.
"""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tfx_transformer.convert import ctranslate2 as convert
from tfx_transformer.convert.ctranslate2 import (
    BareTranslator,
    load_ctranslate2,
    read_tokens,
    sines,
    transformer_options,
)
from tfx_transformer.convert.ctranslate2_file import ModelFile, read_model_file
from tfx_transformer.export import export_translator, load_export
from tfx_transformer.translator import Translator

FIXTURES = Path(__file__).parents[1] / "fixtures"
FOLDER = FIXTURES / "ctranslate2"
NAMES_FOLDER = Path(__file__).parents[3] / "shared/data/transliteration"
VARIANTS = [f"aren-transliteration{kind}" for kind in ("", "-i16", "-i8")]
DECODERS = {"greedy": {"kind": "greedy", "min_length": 1}, "beam": None}
SEARCHES = {"greedy": {"beam_size": 1}, "beam": {"beam_size": 4, "length_penalty": 0.0}}
NAMES = (FIXTURES / "arabic_names.txt").read_text().split()
KNOWN = {"محمد": "mahmad", "أحمد": "ahmad", "علي": "alli", "حسن": "hassen", "آتزمون": "atzmon"}


@pytest.fixture(scope="module")
def told():
    return json.loads((FIXTURES / "ctranslate2.json").read_text())


@pytest.fixture
def copied(tmp_path):
    return Path(shutil.copytree(FOLDER, tmp_path / "copy"))


@pytest.mark.parametrize("name", ["greedy", "beam", "free"])
def test_it_says_what_the_library_says(name, told):
    """If END may come first, with its scores too: else it has no probability then, there."""
    free = {"kind": "beam", "width": 4, "length_penalty": 0.0}
    translator = load_ctranslate2(FOLDER, decoder=(DECODERS | {"free": free})[name])
    assert translator.model.tie == "all" and not translator.model.norm_first
    sources = [" ".join(tokens) for tokens in told["sources"]]
    found = translator.translate(sources)
    for i, expected in enumerate(told[name]):
        assert found["text"][i].numpy().decode().split() == expected["tokens"]
        if name == "free":
            np.testing.assert_allclose(found["score"][i], expected["score"], atol=1e-4)


def test_sentencepiece_cuts_if_its_models_are_there(copied, told):
    for side in ("source", "target"):
        shutil.copy(FIXTURES / f"marian/{side}.spm", copied)
    translator = load_ctranslate2(copied, "sentencepiece", ends=True)
    assert type(translator) is Translator
    assert translator(["the red cat", "a dog"]) == ["die", "Dogge"]
    assert "".join(told["beam"][2]["tokens"]) == "▁Dogge"


@pytest.mark.parametrize(
    "variant, name", [(VARIANTS[0], "beam"), *((variant, "greedy") for variant in VARIANTS)]
)
def test_a_hundred_names_are_spelled_as_the_library_spells_them(variant, name):
    folder = NAMES_FOLDER / variant
    if not folder.exists() or importlib.util.find_spec("ctranslate2") is None:
        pytest.skip("needs the transliteration model and ctranslate2")
    import ctranslate2

    library = ctranslate2.Translator(str(folder), compute_type="float32")
    assert len(NAMES) == len(set(NAMES)) == 100
    expected = library.translate_batch([list(word) for word in NAMES], **SEARCHES[name])
    found = load_ctranslate2(folder, "characters", decoder=DECODERS[name])(NAMES)
    assert found == ["".join(result.hypotheses[0]) for result in expected]


def test_names_are_spelled_as_was_stored_and_by_an_export(tmp_path):
    folder = NAMES_FOLDER / VARIANTS[0]
    if not folder.exists():
        pytest.skip("needs the transliteration model")
    translator = load_ctranslate2(folder, "characters")
    assert isinstance(translator, BareTranslator) and translator.model.norm_first
    assert translator(["", *KNOWN]) == ["", *KNOWN.values()]
    export = load_export(export_translator(translator, tmp_path / "export"))
    texts = export(["", *KNOWN])["text"].numpy().tolist()
    assert [text.decode() for text in texts] == ["", *KNOWN.values()]


def test_the_formula_of_positions_is_that_of_its_code():
    table = sines(7, 6)
    for t in range(7):
        for i in range(3):
            angle = (t + 1) / 10_000 ** (i / 2)  # not 2i/D: the last wave is 2π·10000 long
            np.testing.assert_allclose(table[t, [i, 3 + i]], [np.sin(angle), np.cos(angle)], 1e-5)


def test_vocabularies_are_lists_or_lines(tmp_path):
    tokens = ["</s>", "é", " ", '"', ""]
    (tmp_path / "a_vocabulary.txt").write_text("\n".join(tokens) + "\n")
    assert read_tokens(tmp_path / "a_vocabulary") == tokens
    (tmp_path / "a_vocabulary.json").write_text(json.dumps(tokens[::-1]))
    assert read_tokens(tmp_path / "a_vocabulary") == tokens[::-1]
    assert read_tokens(tmp_path / "b_vocabulary") is None


def test_the_length_of_a_table_of_positions_is_the_longest(told):
    assert load_ctranslate2(FOLDER).max_length == 64
    assert load_ctranslate2(FOLDER, max_length=9).max_length == 9


def options(config=None, kind="TransformerSpec", revision=7, **changes):
    arrays = read_model_file(FOLDER / "model.bin").arrays
    changed = {name.replace("__", "/"): np.asarray(value) for name, value in changes.items()}
    return transformer_options(ModelFile(kind, revision, arrays | changed), config or {})


def test_options_are_read():
    assert options() == {
        "depth": 2,
        "decoder_depth": 2,
        "num_heads": 4,
        "mlp_dim": 48,
        "attention": {"kind": "multi_head", "qkv_bias": True},
        "activation": "swish",
        "norm": {"kind": "layer", "epsilon": 1e-5},
        "norm_first": False,
        "dropout": 0.0,
    }
    assert options({"layer_norm_epsilon": 1e-3})["norm"]["epsilon"] == 1e-3
    gelu = options(encoder__activation=3, decoder__activation=3)
    assert gelu["activation"] == "gelu"


def test_old_files_do_not_say_all():
    arrays = read_model_file(FOLDER / "model.bin").arrays
    bare = {name: array for name, array in arrays.items() if array.ndim}
    for kind, heads in (("TransformerBase", 8), ("TransformerBig", 16)):
        found = transformer_options(ModelFile(kind, 2, bare), {})
        assert found["num_heads"] == heads and found["norm_first"] and found["activation"] == "relu"
    found = transformer_options(ModelFile("TransformerSpec", 3, bare | {"num_heads": 2}), {})
    assert found["num_heads"] == 2


ZERO = np.zeros(3)
WRONG = {  # what is changed, the message
    "kind": ({"kind": "WhisperSpec"}, "must be a TransformerSpec .* got WhisperSpec"),
    "revision": ({"revision": 1}, "of revision 2 or more; got TransformerSpec of revision 1"),
    "relative": ({"encoder__layer_0__self_attention__relative_position_keys": ZERO}, "relative"),
    "gated": ({"encoder__layer_0__ffn__linear_0_noact__weight": ZERO}, "gated .* are not read"),
    "norm": ({"encoder__layernorm_embedding__beta": ZERO}, "no norm behind its embeddings"),
    "features": ({"encoder__embeddings_1__weight": ZERO}, "several features is not read"),
    "awq": ({"encoder__layer_0__ffn__linear_0__weight_zero": ZERO}, "4 bits are not read"),
    "alibi": ({"encoder__alibi": 1, "decoder__alibi": 1}, "linear biases"),
    "activation": ({"encoder__activation": 5, "decoder__activation": 5}, "one of 0 .relu., .* 5"),
    "heads": ({"encoder__num_heads": 8}, "must be alike; got num_heads 8 and 4"),
    "unscaled": ({"encoder__scale_embeddings": np.float32(1)}, "must be √D = 5.6569; got 1"),
    "no": ({"decoder__scale_embeddings": np.int8(0)}, "decoder/scale_embeddings must be √D"),
}


@pytest.mark.parametrize("changes, message", WRONG.values(), ids=WRONG)
def test_what_cannot_be_expressed_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        options(**changes)


def test_what_does_not_fit_is_named(copied):
    tokens = json.loads((copied / "shared_vocabulary.json").read_text())
    (copied / "shared_vocabulary.json").write_text(json.dumps([*tokens, "more"]))
    with pytest.raises(ValueError, match="a vector for each token; got 68, 69"):
        load_ctranslate2(copied)
    (copied / "shared_vocabulary.json").unlink()
    with pytest.raises(FileNotFoundError, match="has no source_vocabulary.json, nor .txt"):
        load_ctranslate2(copied)
    with pytest.raises(ValueError, match="unknown cut 'words'; known: spaces, char"):
        load_ctranslate2(copied, "words")


def test_a_source_that_begins_with_a_token_is_refused(copied):
    config = json.loads((copied / "config.json").read_text()) | {"add_source_bos": True}
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="add_source_bos must be false"):
        load_ctranslate2(copied)


def test_the_library_is_not_needed():
    assert not hasattr(convert, "ctranslate2")
