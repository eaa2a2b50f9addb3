"""CTranslate2 models translate here as in CTranslate2, token by token.

`fixtures/ctranslate2` was made by `fixtures/make_ctranslate2_fixtures.py`: a post-norm model with
tied tables and int8 weights. The transliteration model, which is not part of the repository, is a
trained one in the oldest format: pre-norm, with two vocabularies and sinusoidal positions.
"""

import importlib.util
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tfx_transformer.convert import ctranslate2 as convert
from tfx_transformer.convert.ctranslate2 import (
    TranslatorWithoutSourceEnd,
    load_ctranslate2,
    read_tokens,
    sinusoids,
    transformer_options,
)
from tfx_transformer.convert.ctranslate2_file import ModelFile, read_model_file
from tfx_transformer.export import export, load
from tfx_transformer.pipelines import Translator

FIXTURES = Path(__file__).parents[1] / "fixtures"
FOLDER = FIXTURES / "ctranslate2"
NAMES_FOLDER = Path(__file__).parents[3] / "shared/data/transliteration"
VARIANTS = [f"aren-transliteration{kind}" for kind in ("", "-i16", "-i8")]
DECODERS = {"greedy": {"kind": "greedy", "min_length": 1}, "beam": None}
SEARCHES = {"greedy": {"beam_size": 1}, "beam": {"beam_size": 4, "length_penalty": 0.0}}
NAMES = (FIXTURES / "arabic_names.txt").read_text().split()
KNOWN = {"محمد": "mahmad", "أحمد": "ahmad", "علي": "alli", "حسن": "hassen", "آتزمون": "atzmon"}


@pytest.fixture(scope="module")
def stored():
    return json.loads((FIXTURES / "ctranslate2.json").read_text())


@pytest.fixture
def copied(tmp_path):
    return Path(shutil.copytree(FOLDER, tmp_path / "copy"))


@pytest.mark.parametrize("name", ["greedy", "beam", "free"])
def test_the_tokens_are_those_of_the_library(name, stored):
    """With its scores too if END may come first: otherwise END has no probability there."""
    free = {"kind": "beam", "width": 4, "length_penalty": 0.0}
    translator = load_ctranslate2(FOLDER, decoder=(DECODERS | {"free": free})[name])
    assert translator.model.tie == "all" and not translator.model.norm_first
    sources = [" ".join(tokens) for tokens in stored["sources"]]
    outputs = translator.predict(sources)
    for i, expected in enumerate(stored[name]):
        assert outputs["text"][i].numpy().decode().split() == expected["tokens"]
        if name == "free":
            np.testing.assert_allclose(outputs["score"][i], expected["score"], atol=1e-4)


def test_texts_are_tokenized_by_sentencepiece_models_in_the_folder(copied, stored):
    for side in ("source", "target"):
        shutil.copy(FIXTURES / f"marian/{side}.spm", copied)
    translator = load_ctranslate2(copied, "sentencepiece", add_source_end=True)
    assert type(translator) is Translator
    assert translator(["the red cat", "a dog"]) == ["die", "Dogge"]
    assert "".join(stored["beam"][2]["tokens"]) == "▁Dogge"


@pytest.mark.parametrize(
    "variant, name", [(VARIANTS[0], "beam"), *((variant, "greedy") for variant in VARIANTS)]
)
def test_a_hundred_names_are_transliterated_as_by_the_library(variant, name):
    folder = NAMES_FOLDER / variant
    if not folder.exists() or importlib.util.find_spec("ctranslate2") is None:
        pytest.skip("needs the transliteration model and ctranslate2")
    import ctranslate2

    library = ctranslate2.Translator(str(folder), compute_type="float32")
    assert len(NAMES) == len(set(NAMES)) == 100
    expected = library.translate_batch([list(word) for word in NAMES], **SEARCHES[name])
    texts = load_ctranslate2(folder, "characters", decoder=DECODERS[name])(NAMES)
    assert texts == ["".join(result.hypotheses[0]) for result in expected]


def test_names_are_transliterated_as_stored_and_by_an_export(tmp_path):
    folder = NAMES_FOLDER / VARIANTS[0]
    if not folder.exists():
        pytest.skip("needs the transliteration model")
    translator = load_ctranslate2(folder, "characters")
    assert isinstance(translator, TranslatorWithoutSourceEnd) and translator.model.norm_first
    assert translator(["", *KNOWN]) == ["", *KNOWN.values()]
    exported = load(export(translator, tmp_path / "export"))
    assert exported(["", *KNOWN]) == ["", *KNOWN.values()]


def test_sinusoids_are_those_of_opennmt_tf():
    table = sinusoids(7, 6)
    for t in range(7):
        for i in range(3):
            angle = (t + 1) / 10_000 ** (i / 2)  # not 2i/D: the last wave is 2π·10000 long
            np.testing.assert_allclose(table[t, [i, 3 + i]], [np.sin(angle), np.cos(angle)], 1e-5)


def test_vocabularies_are_json_lists_or_lines(tmp_path):
    tokens = ["</s>", "é", " ", '"', ""]
    (tmp_path / "a_vocabulary.txt").write_text("\n".join(tokens) + "\n")
    assert read_tokens(tmp_path / "a_vocabulary") == tokens
    (tmp_path / "a_vocabulary.json").write_text(json.dumps(tokens[::-1]))
    assert read_tokens(tmp_path / "a_vocabulary") == tokens[::-1]
    assert read_tokens(tmp_path / "b_vocabulary") is None


def test_the_number_of_positions_limits_max_length(stored):
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


def test_options_that_old_files_lack_have_defaults():
    arrays = read_model_file(FOLDER / "model.bin").arrays
    bare = {name: array for name, array in arrays.items() if array.ndim}
    for kind, heads in (("TransformerBase", 8), ("TransformerBig", 16)):
        options = transformer_options(ModelFile(kind, 2, bare), {})
        assert options["num_heads"] == heads and options["norm_first"]
        assert options["activation"] == "relu"
    options = transformer_options(ModelFile("TransformerSpec", 3, bare | {"num_heads": 2}), {})
    assert options["num_heads"] == 2


ZERO = np.zeros(3)
WRONG = {  # changes of the file, the message
    "kind": ({"kind": "WhisperSpec"}, "must be a TransformerSpec .* got WhisperSpec"),
    "revision": ({"revision": 1}, "of revision 2 or more; got TransformerSpec of revision 1"),
    "relative": ({"encoder__layer_0__self_attention__relative_position_keys": ZERO}, "relative"),
    "gated": (
        {"encoder__layer_0__ffn__linear_0_noact__weight": ZERO},
        "gated .* are not supported",
    ),
    "norm": ({"encoder__layernorm_embedding__beta": ZERO}, "no norm after its embeddings"),
    "features": ({"encoder__embeddings_1__weight": ZERO}, "several features is not supported"),
    "awq": ({"encoder__layer_0__ffn__linear_0__weight_zero": ZERO}, "4-bit weights are not"),
    "alibi": ({"encoder__alibi": 1, "decoder__alibi": 1}, "ALiBi is not supported"),
    "activation": ({"encoder__activation": 5, "decoder__activation": 5}, "one of 0 .relu., .* 5"),
    "heads": (
        {"encoder__num_heads": 8},
        "num_heads of encoder and decoder must be equal; got 8, 4",
    ),
    "unscaled": ({"encoder__scale_embeddings": np.float32(1)}, "must be √D = 5.6569; got 1"),
    "no": ({"decoder__scale_embeddings": np.int8(0)}, "decoder/scale_embeddings must be √D"),
}


@pytest.mark.parametrize("changes, message", WRONG.values(), ids=WRONG)
def test_unsupported_models_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        options(**changes)


def test_missing_vocabularies_and_embeddings_are_named(copied):
    tokens = json.loads((copied / "shared_vocabulary.json").read_text())
    (copied / "shared_vocabulary.json").write_text(json.dumps([*tokens, "more"]))
    with pytest.raises(ValueError, match="an embedding for each of its 69 tokens; got 68"):
        load_ctranslate2(copied)
    (copied / "shared_vocabulary.json").unlink()
    with pytest.raises(FileNotFoundError, match="has no source_vocabulary.json or .txt"):
        load_ctranslate2(copied)
    with pytest.raises(ValueError, match="unknown splitter 'words'; known: spaces, char"):
        load_ctranslate2(copied, "words")


def test_weights_that_do_not_fit_are_listed_with_their_file(copied, monkeypatch):
    def read(path):
        file = read_model_file(path)
        return replace(file, arrays=file.arrays | {"encoder/extra/weight": np.zeros((2, 3))})

    monkeypatch.setattr(convert, "read_model_file", read)
    message = r"model.bin do not fit the model:\n  encoder/extra/weight \(2, 3\) has no counterpart"
    with pytest.raises(ValueError, match=message) as error:
        load_ctranslate2(copied)
    assert str(copied) in str(error.value)


def test_a_source_with_a_start_token_is_refused(copied):
    config = json.loads((copied / "config.json").read_text()) | {"add_source_bos": True}
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="add_source_bos must be false"):
        load_ctranslate2(copied)


def test_the_library_is_not_needed():
    assert not hasattr(convert, "ctranslate2")
