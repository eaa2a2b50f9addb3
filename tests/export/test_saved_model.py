"""A SavedModel works in a new process that does not import this package."""

import json
import pickle
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data import Tokenizer
from tfx_transformer.export import export, load
from tfx_transformer.export.saved_model import inspect
from tfx_transformer.models import create_model
from tfx_transformer.pipelines import PIPELINES, Captioner, Generator, Translator

SERVE = """
import functools, pickle, sys
import tensorflow as tf
if sys.argv[1] == "with tensorflow-text":
    import tensorflow_text
else:
    sys.modules["tensorflow_text"] = None
load, answers = functools.cache(tf.saved_model.load), []
for folder, signature, inputs in pickle.load(sys.stdin.buffer):
    tensors = {k: tf.constant(v, [None, tf.string][v.ndim == 1]) for k, v in inputs.items()}
    outputs = load(folder).signatures[signature](**tensors)
    answers.append({name: value.numpy() for name, value in outputs.items()})
assert not any(name.startswith("tfx_transformer") for name in sys.modules), "imported"
pickle.dump(answers, sys.stdout.buffer)
"""


def serve(requests, cwd, libraries="with TensorFlow alone"):
    """The outputs of requests (folder, signature, inputs), answered by one new process."""
    requests = [(str(folder), signature, inputs) for folder, signature, inputs in requests]
    result = subprocess.run(
        [sys.executable, "-c", SERVE, libraries],
        input=pickle.dumps(requests),
        capture_output=True,
        cwd=cwd,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr.decode()[-2000:]
    return pickle.loads(result.stdout)


def assert_same(outputs, expected):
    assert set(outputs) == set(expected)
    for name, value in expected.items():
        if value.dtype == tf.string:
            assert outputs[name].tolist() == value.numpy().tolist(), name
        else:
            np.testing.assert_allclose(outputs[name], value, atol=1e-4, err_msg=name)


def array(items):
    return np.array([item.encode() if isinstance(item, str) else item for item in items], object)


def inputs_of(pipeline, items):
    """Inputs for each signature of a pipeline; the signatures "serving_default" get the items."""
    name = "image" if pipeline.kind in ("captioner", "classifier") else "text"
    inputs = {"serving_default": {name: array(items)}}
    if pipeline.columns:
        columns = zip(pipeline.columns, zip(*items, strict=True), strict=True)
        inputs = {"serving_default": {name: array(column) for name, column in columns}}
    if name == "image":
        size = pipeline.model.image_size
        inputs["images"] = {"image": np.full((2, size, size, 3), 0.5, "float32")}
    if pipeline.kind in ("generator", "translator"):
        inputs["limited"] = {"text": array(items), "max_length": np.int32(3)}
    if pipeline.kind == "translator":
        inputs["ids"] = {"source": np.array([[4, 5, 2], [6, 2, 0]], "int32")}
        inputs["pieces"] = inputs["serving_default"]
    if pipeline.kind in ("classifier", "translator"):
        inputs["explain"] = inputs["serving_default"]
    if pipeline.kind == "text_classifier":
        inputs["ids"] = {"tokens": np.array([[1, 5, 2], [1, 2, 0]], "int32")}
    return inputs


TEXT_OPS = {"core": "no", "text": "Sentencepiece", "WordPiece": "FastBertNormalize, FastWordpiece"}


@pytest.mark.parametrize("tokenizer", TEXT_OPS)
def test_every_signature_gives_the_outputs_of_the_pipeline(tokenizer, items, request, tmp_path):
    requests, expected = [], []
    # core is the default, and not possible for WordPiece and for the symbols of language models;
    # images have no tokenizer, and words need no op of tensorflow-text
    kinds = {*PIPELINES} - ({"generator"} if tokenizer == "core" else {"classifier"})
    if tokenizer == "text":
        kinds.remove("question_answerer")
    elif tokenizer == "WordPiece":
        kinds = {"wordpiece_classifier"}
    options = {"tokenizer": "text"} if tokenizer == "text" else {}
    for name in kinds:
        pipeline = request.getfixturevalue(name)
        folder = export(pipeline, tmp_path / name, **options)
        inputs = inputs_of(pipeline, items[pipeline.kind])
        assert set(inputs) == set(pipeline.signatures())
        for signature, values in inputs.items():
            requests.append((folder, signature, values))
            expected.append(pipeline.signatures()[signature](*values.values()))
        empty = dict.fromkeys(inputs["serving_default"], tf.constant([], tf.string).numpy())
        requests.append((folder, "serving_default", empty))
        expected.append(pipeline.predict(*empty.values()))
        assert f"needs tensorflow-text: {TEXT_OPS[tokenizer]}" in inspect(folder)
        stored = json.loads((folder / "export.json").read_text("utf-8"))["options"].get("tokenizer")
        own = {"classifier": None, "wordpiece_classifier": "text"}
        assert stored == own.get(name, tokenizer)
    libraries = "with TensorFlow alone" if tokenizer == "core" else "with tensorflow-text"
    for outputs, own in zip(serve(requests, tmp_path, libraries), expected, strict=True):
        assert_same(outputs, own)


def test_a_loaded_export_imports_tensorflow_text_only_if_it_must(translator, monkeypatch, tmp_path):
    folders = {
        name: export(translator, tmp_path / name, tokenizer=name) for name in ("core", "text")
    }
    assert load(folders["text"])("red cat") == translator("red cat")
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    assert load(folders["core"])(["red cat", ""]) == translator(["red cat", ""])
    with pytest.raises(ImportError):
        load(folders["text"])


@pytest.mark.parametrize(
    "kind, options, message",
    [
        ("wordpiece_classifier", {"tokenizer": "core"}, "must be text for WordPiece"),
        ("generator", {"tokenizer": "core"}, "must be text for this SentencePiece model"),
        ("classifier", {"tokenizer": "core"}, "must be left out: the export has none"),
        ("translator", {"tokenizer": "core", "ids_only": True}, "must be left out"),
        ("translator", {"tokenizer": "own"}, "unknown tokenizer 'own'; known: core, text"),
    ],
)
def test_a_tokenizer_that_is_not_possible_is_refused(kind, options, message, request, tmp_path):
    with pytest.raises(ValueError, match=message):
        export(request.getfixturevalue(kind), tmp_path / "export", **options)
    assert not (tmp_path / "export").exists()


def test_two_names_of_one_tokenizer_stay_one(translator):
    assert translator.source_tokenizer is translator.target_tokenizer
    core = translator.with_core_ops()
    assert core.source_tokenizer is core.target_tokenizer is not translator.source_tokenizer
    assert core.options() == translator.options() and core.model is translator.model


def test_classifiers_and_models_of_ids_need_tensorflow_alone(
    classifier, text_classifier, translator, items, tmp_path
):
    folder = export(classifier, tmp_path / "classifier")
    ids = [[*translator.source_tokenizer.encode_list(["red cat"])[0], 2]]
    by_ids = export(translator, tmp_path / "ids", ids_only=True)
    tokens = text_classifier.read(tf.constant(["red cat"])).numpy()
    by_tokens = export(text_classifier, tmp_path / "tokens", ids_only=True)
    for path in (folder, by_ids, by_tokens):
        assert inspect(path).endswith("needs tensorflow-text: no")
    served, translated, classes = serve(
        [
            (folder, "serving_default", {"image": array(items["classifier"])}),
            (by_ids, "serving_default", {"source": np.array(ids, "int32")}),
            (by_tokens, "serving_default", {"tokens": tokens}),
        ],
        tmp_path,
    )
    assert_same(served, classifier.predict(array(items["classifier"])))
    assert served["is_readable"].tolist() == [True, False, True] and served["label"][1] == b""
    assert translator.target_tokenizer.decode_list(translated["tokens"][0][:1]) == [
        translator("red cat")
    ]
    assert_same(classes, text_classifier.predict_ids(tokens))
    with pytest.raises(
        ValueError, match="takes token ids, not text: it was exported with ids_only"
    ):
        load(by_ids)


def read_program(folder):
    """The Python of an export's README.md."""
    return (folder / "README.md").read_text("utf-8").split("```python\n")[1].split("```")[0]


def test_the_program_of_the_card_runs_in_the_folder(
    classifier, translator, text_classifier, items, tmp_path
):
    folders = [export(x, tmp_path / x.kind) for x in (classifier, translator)]
    folders.append(export(translator, tmp_path / "ids", ids_only=True))
    folders.append(export(text_classifier, tmp_path / "tokens", ids_only=True))
    (folders[0] / "photo.jpg").write_bytes(items["classifier"][2])
    program = "import os, sys\nsys.modules['tfx_transformer'] = None\n"
    for folder in folders:  # in one process, which imports TensorFlow only once
        program += (
            f"os.chdir({str(folder)!r})\nexec({read_program(folder)!r}, {{}})\nprint('---')\n"
        )
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stderr[-2000:]
    shown = result.stdout.split("---\n")
    assert "label [b'" in shown[3]
    assert "1 first and 2 last" in (folders[3] / "README.md").read_text("utf-8")
    assert "is_readable [ True]" in shown[0] and "text [b'" in shown[1] and "tokens [[[" in shown[2]
    card = (folders[0] / "README.md").read_text("utf-8")
    assert "resized to 16 × 16 pixels (the central square, 0.8 of the shorter side)" in card
    assert "range 0 to 1" in card


def test_an_export_for_ids_has_its_tokenizers(translator, tmp_path):
    folder = export(translator, tmp_path / "ids", ids_only=True) / "tokenizer"
    pieces = (folder / "target_tokenizer.txt").read_text("utf-8").splitlines()
    assert pieces == translator.target_tokenizer.pieces
    assert Tokenizer.load(folder / "source_tokenizer.model").encode_list(["red cat"]) == (
        translator.source_tokenizer.encode_list(["red cat"])
    )


def test_only_models_of_text_can_be_exported_for_ids(classifier, tmp_path):
    with pytest.raises(ValueError, match="ids_only must be False for a classifier"):
        export(classifier, tmp_path / "ids", ids_only=True)


def test_the_signatures_are_listed(captioner, translator, tmp_path):
    shown = inspect(export(translator, tmp_path / "translator"))
    for line in ("ids\n", "limited\n", "serving_default\n", "  in  max_length: int32 []"):
        assert line in shown
    shown = inspect(export(captioner, tmp_path / "captioner"))
    assert "serving_default\n  in  image: string [?]" in shown and "images\n" in shown


def test_a_folder_without_a_saved_model_cannot_be_inspected(tmp_path):
    with pytest.raises(ValueError, match=r"is not a SavedModel: there is no .*saved_model\.pb"):
        inspect(tmp_path)


RECURRENT = {
    "one vector": {"reverse_source": True},
    "dot": {"attention": "dot", "readout": "combined"},
    "bilinear": {"attention": "bilinear", "readout": "combined", "feed": "features"},
    "additive": {"attention": "additive", "readout": "deep", "bidirectional": True},
}


def test_recurrent_translators_are_exported(translator, tmp_path):
    texts, requests, expected = array(["red cat", "", "blue dog and old cat"]), [], []
    tokenizer = translator.source_tokenizer
    for name, options in RECURRENT.items():
        size = tokenizer.vocab_size
        model = create_model("rnn_seq2seq", "test", vocab_size=size, cell="gru", **options)
        fill(model)
        pipeline = Translator(model, tokenizer, tokenizer, {"kind": "beam", "width": 2}, 9)
        folder = export(pipeline, tmp_path / name, tokenizer="text")
        function = "serving_default" if name == "one vector" else "explain"
        requests.append((folder, function, {"text": texts}))
        expected.append(pipeline.signatures()[function](texts))
    answers = serve(requests, tmp_path, "with tensorflow-text")
    for name, outputs, own in zip(RECURRENT, answers, expected, strict=True):
        assert_same(outputs, own)
        assert outputs["text"][0] and not outputs["text"][1]
        if name != "one vector":
            assert outputs["alignment"].sum(axis=-1)[0, 0] == pytest.approx(1, abs=1e-5)
    assert len({outputs["text"][0] for outputs in answers}) == len(RECURRENT)


CAPTIONERS = {
    "hard": {"hard": True},
    "no attention": {"attention": None},
    "vit": {
        "encoder": {"kind": "vit", "variant": "test", "options": {"image_size": 32}},
        "readout": "deep",
    },
}


def test_every_kind_of_captioner_is_exported(captioner, items, tmp_path):
    """Also after it was saved and loaded by Keras."""
    tokenizer, files = captioner.tokenizer, array(items["captioner"][:1])
    requests, expected = [], []
    for name, options in CAPTIONERS.items():
        model = create_model("show_attend_tell", "test", vocab_size=tokenizer.vocab_size, **options)
        fill(model)
        model.save(tmp_path / "model.keras")
        model = keras.saving.load_model(tmp_path / "model.keras")
        pipeline = Captioner(model, tokenizer, "greedy", max_length=9)
        folder = export(pipeline, tmp_path / name, tokenizer="text")
        requests.append((folder, "serving_default", {"image": files}))
        expected.append(pipeline.predict(files))
    answers = serve(requests, tmp_path, "with tensorflow-text")
    for name, outputs, own in zip(CAPTIONERS, answers, expected, strict=True):
        assert_same(outputs, own)
        highest = outputs["weights"].max(axis=(2, 3))[0, 0]
        first = {"hard": 1.0, "no attention": 0.0}.get(name)
        assert outputs["text"][0] and (0 < highest < 1 if first is None else highest == first)


def fill(model):
    rng = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))


def test_sampling_differs_from_call_to_call_unless_it_has_a_seed(
    captioner, language_model, items, tmp_path
):
    prompts = {"text": array(items["generator"])}
    files = {"image": array(items["captioner"])}
    options = {"kind": "sample", "temperature": 3.0}
    seeded = Generator(*language_model, options | {"seed": 5}, 8)
    requests = [
        (export(seeded, tmp_path / "seeded"), prompts),
        (export(Generator(*language_model, options, 8), tmp_path / "unseeded"), prompts),
        (
            export(
                Captioner(captioner.model, captioner.tokenizer, options, 9), tmp_path / "images"
            ),
            files,
        ),
    ]
    twice = [(folder, "serving_default", inputs) for folder, inputs in requests for _ in range(2)]
    answers = serve(twice, tmp_path, "with tensorflow-text")
    for outputs in answers[:2]:
        assert_same(outputs, seeded.predict(prompts["text"]))
    for first, second in (answers[2:4], answers[4:6]):
        assert (first["tokens"] != second["tokens"]).any()
