"""MarianMT models of Hugging Face translate as in Hugging Face, token by token.

The folder and the outputs of the library were stored by `fixtures/make_marian_fixtures.py`.
"""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from tfx_transformer.convert import checkpoint, marian, read_weights
from tfx_transformer.convert.marian import is_marian, load_marian, read_config, read_decoder
from tfx_transformer.data import END, PAD, START
from tfx_transformer.export import export
from tfx_transformer.pipelines import Translator

FIXTURES = Path(__file__).parents[1] / "fixtures"
SEARCHES = {  # as in generation_config.json
    "greedy": {"num_beams": 1},
    "beam": {},
    "beam without length penalty": {"length_penalty": 0.0},
    "beam that never stops early": {"num_beams": 3, "early_stopping": "never"},
}


@pytest.fixture(scope="module")
def translator():
    return load_marian(FIXTURES / "marian")


@pytest.fixture(scope="module")
def stored():
    return json.loads((FIXTURES / "marian.json").read_text())


@pytest.fixture
def copied(tmp_path):
    """A copy of the folder, with some values of its JSON files changed."""

    def copy(file="config.json", **changes):
        folder = tmp_path / "marian"
        if not folder.exists():
            shutil.copytree(FIXTURES / "marian", folder)
        content = json.loads((folder / file).read_text()) | changes
        (folder / file).write_text(json.dumps(content))
        return folder

    return copy


def our_ids(folder=FIXTURES):
    """Our id for each of theirs; PAD for padding, which also starts sentences."""
    vocabulary = json.loads((folder / "marian/vocab.json").read_text())
    last = len(vocabulary) - 1
    assert (vocabulary["</s>"], vocabulary["<unk>"], vocabulary["<pad>"]) == (0, 1, last)
    return {0: 2, 1: 3, last: PAD} | {i: i + 2 for i in range(2, last)}


def check_numbers(model, folder=FIXTURES):
    """The encoder's outputs and the logits, at real tokens."""
    ours = our_ids(folder)
    with np.load(folder / "marian.npz") as file:
        arrays = dict(file)
    source, target = (np.vectorize(ours.get)(arrays[side]) for side in ("source", "target"))
    target[:, 0] = START
    memory = keras.ops.convert_to_numpy(model.encode(source)[0][-1])
    logits = keras.ops.convert_to_numpy(model({"source": source, "target": target}))
    columns = [ours[i] for i in range(len(ours))]
    assert (source == PAD).any() and (target == PAD).any()
    for outputs, expected, tokens in (
        (memory, arrays["memory"], source),
        (logits[..., columns], arrays["logits"], target),
    ):
        np.testing.assert_allclose(outputs[tokens != PAD], expected[tokens != PAD], atol=1e-4)
    assert (logits[..., START] < -1e8).all()  # START is their padding, which PAD already is


def check_search(translator, stored, ours, config, name):
    """All translations have their ids, and their scores if there are any."""
    decoder = read_decoder(config | SEARCHES[name])
    if decoder["kind"] == "beam":
        decoder["n_best"] = decoder["width"]
    sides = translator.source_tokenizer, translator.target_tokenizer
    outputs = Translator(translator.model, *sides, decoder, 63).predict(stored["texts"])
    for i, expected in enumerate(stored[name]):
        assert [text.decode() for text in outputs["n_best"][i].numpy()] == expected["texts"]
        assert [ours[j] for j in expected["ids"][0]] == [
            j for j in outputs["tokens"][i] if j != PAD
        ]
        if expected["scores"]:
            scores = outputs["n_best_score"][i]
            np.testing.assert_allclose(scores, expected["scores"], atol=1e-4)


def test_encoder_and_logits_are_those_of_the_library(translator):
    check_numbers(translator.model)


@pytest.mark.parametrize("name", SEARCHES)
def test_decoding_gives_the_translations_of_the_library(name, translator, stored):
    check_search(translator, stored, our_ids(), read_config(FIXTURES / "marian"), name)


def test_padding_has_no_probability_if_logits_are_renormalized(copied, stored):
    translator = load_marian(copied("generation_config.json", renormalize_logits=True))
    expected = stored["beam of renormalized logits"]
    outputs = translator.predict(stored["texts"])
    scores = [best["scores"][0] for best in expected]
    np.testing.assert_allclose(outputs["score"], scores, atol=1e-5)
    assert np.abs(np.array(scores) - [best["scores"][0] for best in stored["beam"]]).max() > 1e-4


def test_strings_are_tokenized_as_by_the_library(translator, stored):
    """With language codes, unknown letters, and letters of the other vocabulary."""
    ours = our_ids()
    expected = [[ours[i] for i in row] for row in stored["ids"]]
    ids = translator.encode(stored["texts"]).numpy()
    assert [[i for i in row if i != PAD] for row in ids.tolist()] == expected
    assert translator.source_tokenizer.pieces[4] == ">>deu<<" and expected[2][0] == 4


def test_decoding_options_are_read_from_the_folder(translator, stored):
    assert translator(stored["texts"]) == [best["texts"][0] for best in stored["beam"]]
    assert translator.decoder.width == 4 and translator.max_length == 63


SERVED = """
import json, sys
sys.modules["tensorflow_text"] = None
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
assert not any(name.split(".")[0] in ("tfx_transformer", "torch") for name in sys.modules)
outputs = model.signatures["serving_default"](tf.constant(json.loads(sys.argv[2])))
print(json.dumps([text.decode() for text in outputs["text"].numpy()]))
"""


def test_the_export_translates_strings_in_a_new_process(translator, stored, tmp_path):
    folder = export(translator, tmp_path / "export")
    texts = ["", *stored["texts"]]
    command = [sys.executable, "-c", SERVED, str(folder), json.dumps(texts)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert result.returncode == 0, result.stderr[-2000:]
    assert json.loads(result.stdout) == ["", *[best["texts"][0] for best in stored["beam"]]]


def test_the_outputs_are_those_of_the_installed_library(tmp_path):
    for name in ("torch", "transformers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    command = [sys.executable, FIXTURES / "make_marian_fixtures.py", tmp_path, "1"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    translator = load_marian(tmp_path / "marian")
    check_numbers(translator.model, tmp_path)
    stored = json.loads((tmp_path / "marian.json").read_text())
    for name in ("greedy", "beam"):
        config = read_config(tmp_path / "marian")
        check_search(translator, stored, our_ids(tmp_path), config, name)


def test_a_pytorch_file_loads_too(translator, copied, monkeypatch):
    folder = copied()
    weights = read_weights(folder / "model.safetensors")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    monkeypatch.setattr(checkpoint, "read_torch", lambda path: dict(weights))
    table = weights["model.shared.weight"]  # such files contain tied weights under all names
    for name in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        weights[f"{name}.weight"] = table
    for part in ("encoder", "decoder"):
        weights[f"model.{part}.embed_positions.weight"] = np.zeros((64, 32))
    check_numbers(load_marian(folder).model)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(FileNotFoundError, match="has neither model.safetensors nor pytorch_model"):
        load_marian(folder)


def test_a_distilled_decoder_has_fewer_blocks(translator, copied, monkeypatch):
    folder = copied(decoder_layers=1)
    weights = read_weights(folder / "model.safetensors")
    kept = {key: x for key, x in weights.items() if not key.startswith("model.decoder.layers.1.")}
    monkeypatch.setattr(marian, "read_weights", lambda path: dict(kept))
    model, whole = load_marian(folder).model, translator.model
    assert (len(model.encoder), len(model.decoder)) == (2, 1)
    inputs = {"source": np.array([[5, 7, 9, 2]]), "target": np.array([[1, 8, 6]])}
    last, whole.decoder = whole.decoder, whole.decoder[:1]
    expected = whole(inputs)
    whole.decoder = last
    np.testing.assert_allclose(model(inputs), expected, atol=1e-5)


def test_source_and_target_can_have_different_vocabularies(translator, copied, monkeypatch):
    """The target tokens are in reverse order: the translations are the same, by other ids."""
    folder = copied(share_encoder_decoder_embeddings=False, decoder_vocab_size=69)
    weights = read_weights(folder / "model.safetensors")
    table, bias = weights.pop("model.shared.weight"), weights["final_logits_bias"]
    reversed_ids = np.r_[0, 67:0:-1, 68]
    weights |= {
        "model.encoder.embed_tokens.weight": table,
        "lm_head.weight": table[reversed_ids],  # tied to the decoder's embeddings, stored once
        "final_logits_bias": bias[:, reversed_ids],
    }
    monkeypatch.setattr(marian, "read_weights", lambda path: dict(weights))
    pieces = list(json.loads((folder / "vocab.json").read_text()))
    target = {pieces[reversed_ids[i]]: i for i in range(69)}
    (folder / "target_vocab.json").write_text(json.dumps(target))
    other = load_marian(folder)
    assert (translator.model.tie, other.model.tie) == ("all", "output")
    texts = ["the red cat", "a dog is blue"]
    assert translator(texts) == other(texts)
    weights["model.decoder.embed_tokens.weight"] = 2 * table[reversed_ids]
    untied = load_marian(folder)
    assert untied.model.tie == "none"
    np.testing.assert_array_equal(
        np.array(untied.model.head.kernel).T, other.model.target_embedding.table
    )


def test_the_decoder_is_read_from_the_configuration():
    assert read_decoder({}) == read_decoder({"num_beams": 1}) == {"kind": "greedy"}
    beam = read_decoder({"num_beams": 6, "length_penalty": None})
    assert beam == {
        "kind": "beam",
        "width": 6,
        "length_penalty": 1.0,
        "length_rule": "power",
        "early_stop": "likely",
    }
    assert read_decoder({"num_beams": 2, "early_stopping": "never"})["early_stop"] is True
    assert read_decoder({"num_beams": 2, "early_stopping": True})["early_stop"] == "full"


WRONG = {  # changes of config.json, the message
    "heads": ({"encoder_attention_heads": 8}, "got encoder_attention_heads=8, decoder_att"),
    "widths": ({"decoder_ffn_dim": 64}, "got encoder_ffn_dim=48, decoder_ffn_dim=64"),
    "pre-norm": ({"normalize_before": True}, "normalize_before must be false, as in Marian"),
    "unscaled": ({"scale_embedding": False}, "scale_embedding must be true"),
    "activation": (
        {"activation_function": "tanh"},
        "the activation in config.json must be one of .* got 'tanh'",
    ),
    "other": ({"model_type": "bart"}, 'must have a config.json of model_type "marian"'),
    "vocabulary": (
        {"vocab_size": 70},
        "vocab.json must contain each id of 0 … 69 once; got 69 tokens",
    ),
}


@pytest.mark.parametrize("changes, message", WRONG.values(), ids=WRONG)
def test_unsupported_models_are_refused(changes, message, copied):
    with pytest.raises(ValueError, match=message):
        load_marian(copied(**changes))


def test_weights_that_do_not_fit_are_named(copied):
    folder = copied(encoder_ffn_dim=40, decoder_ffn_dim=40)
    with pytest.raises(
        ValueError, match=r"decoder.layers.0.fc1.weight must be \(40, 32\)"
    ) as error:
        load_marian(folder)
    assert str(folder) in str(error.value).splitlines()[0]


def test_a_vocabulary_must_have_its_special_tokens(copied):
    vocabulary = json.loads((FIXTURES / "marian/vocab.json").read_text())
    vocabulary["unknown"] = vocabulary.pop("<unk>")
    folder = copied()
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    with pytest.raises(ValueError, match="must contain </s> and <unk>; it has no <unk>"):
        load_marian(folder)


def test_a_marian_folder_is_recognized(tmp_path):
    assert is_marian(FIXTURES / "marian") and not is_marian(tmp_path)
    assert END == 2  # as `our_ids` assumes
