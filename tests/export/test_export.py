"""One export and one load for all pipelines and formats."""

import json
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from tfx_transformer import __version__
from tfx_transformer import export as package
from tfx_transformer.export import FORMATS, export, export_version, is_export, load
from tfx_transformer.pipelines import PIPELINES
from tfx_transformer.serving.responses import largest_count
from tfx_transformer.serving.signatures import concrete_functions, read_signature

TOKENIZERS = dict.fromkeys(PIPELINES, {"tokenizer": "core"}) | {
    "classifier": {},
    "generator": {"tokenizer": "text"},  # its symbols are user-defined
}
SERVER_OPS = Path(__file__).parents[1] / "fixtures/tensorflow_serving_ops.txt"


@pytest.fixture(scope="module")
def exports(tmp_path_factory, request):
    """A function: the kind of a pipeline → the folder of its SavedModel, written once."""
    folders = {}

    def folder_of(kind):
        if kind not in folders:
            pipeline = request.getfixturevalue(kind)
            folders[kind] = export(pipeline, tmp_path_factory.mktemp(kind) / "export", "a card")
        return folders[kind]

    return folder_of


def test_every_format_is_a_module_of_the_folder():
    files = {path.stem for path in Path(package.__file__).parent.glob("*.py")} - {"__init__"}
    assert set(FORMATS) == files and list(FORMATS) == sorted(FORMATS)
    for name, module in FORMATS.items():
        assert module.__name__ == f"{package.__name__}.{name}"
        assert callable(module.write) and set(module.KINDS) <= set(PIPELINES) and module.KINDS


@pytest.mark.parametrize("kind", PIPELINES)
class TestEveryKind:
    def test_an_export_is_called_like_its_pipeline(self, kind, exports, items, request):
        pipeline, loaded = request.getfixturevalue(kind), load(exports(kind), kind)
        assert loaded.kind == kind
        results = loaded(items[kind])
        for item, result in zip(items[kind], results, strict=True):
            expected = pipeline(item)
            assert type(result) is type(expected) and loaded([item]) == [loaded(item)]
            if isinstance(expected, dict):
                expected = pytest.approx(expected, abs=1e-5)
            assert result == expected and loaded(item) == expected
        assert results[0] and loaded([]) == []
        assert {type(result) for result in loaded.results(items[kind])} == {pipeline.result}
        assert set(loaded.signatures) == set(pipeline.signatures())
        empty = loaded.predict(*[np.array([], object)] * max(len(pipeline.columns), 1))
        assert {len(value) for value in empty.values()} == {0}

    def test_its_description_is_in_the_folder(self, kind, exports, request):
        folder, pipeline = exports(kind), request.getfixturevalue(kind)
        info = json.loads((folder / "export.json").read_text("utf-8"))
        assert info == {
            "kind": kind,
            "format": "saved_model",
            "options": json.loads(json.dumps(pipeline.options() | TOKENIZERS[kind])),
            "versions": {"tfx_transformer": __version__, "tensorflow": version("tensorflow")},
        }
        assert load(folder).options == info["options"]
        assert is_export(folder) and (folder / "README.md").read_text().startswith("a card\n")

    def test_its_card_names_the_decoder(self, kind, exports, request):
        card = (exports(kind) / "README.md").read_text("utf-8")
        decoder = request.getfixturevalue(kind).options().get("decoder")
        lines = [line for line in card.splitlines() if line.startswith("Decoder of this export: ")]
        assert len(lines) == (decoder is not None)
        for line in lines:
            assert line.startswith(f"Decoder of this export: {decoder['kind']}")
            for name in ("width", "length_penalty", "n_best", "temperature"):
                assert (f", {name} {decoder.get(name)}" in line) == (name in decoder)

    def test_a_server_knows_how_many_results_it_has(self, kind, exports, items, request):
        """Of a pipeline and of its export, by the shapes of the outputs."""
        pipeline = request.getfixturevalue(kind)
        (result, *_) = pipeline.results(items[kind][:1])
        expected = {
            "translator": lambda: {"n_best": len(result.n_best)},
            "captioner": lambda: {"n_best": len(result.n_best)},
            "generator": dict,
            "question_answerer": dict,
            "text_to_image": lambda: {"count": len(result.n_best)},
        }.get(kind, lambda: {"top_k": len(result.classes)})()
        for predictor in (pipeline, load(exports(kind))):
            functions = concrete_functions(predictor)
            signatures = {name: read_signature(x) for name, x in functions.items()}
            model = SimpleNamespace(kind=kind, signatures=signatures)
            assert largest_count(model) == expected

    def test_its_warm_up_requests_run(self, kind, exports):
        """With few rows and many, for all signatures that TensorFlow Serving can batch."""
        loaded, rows = load(exports(kind)), {}
        path = exports(kind) / "assets.extra/tf_serving_warmup_requests"
        for record in tf.data.TFRecordDataset(str(path)):
            request = PredictionLog.FromString(record.numpy()).predict_log.request
            name = request.model_spec.signature_name
            inputs = {key: tf.make_ndarray(proto) for key, proto in request.inputs.items()}
            (size,) = {len(value) for value in inputs.values()}
            outputs = loaded.signatures[name](**{k: tf.constant(v) for k, v in inputs.items()})
            assert {len(value) for value in outputs.values()} == {size}
            assert outputs.get("is_readable", [True])[0] and name != "limited"
            rows.setdefault(name, []).append(size)
        assert set(rows) == set(loaded.signatures) - {"limited"}
        sizes = [1, 8] if kind in ("captioner", "classifier") else [1, 1, 8, 8]
        assert rows["serving_default"] == sizes
        assert path.stat().st_size < 10_000

    def test_another_kind_is_refused(self, kind, exports):
        other = next(name for name in PIPELINES if name != kind)
        with pytest.raises(ValueError, match=f"must be an export of a {other}; it holds a {kind}$"):
            load(exports(kind), other)


@pytest.mark.parametrize("kind", [*PIPELINES, "wordpiece_classifier"])
def test_tensorflow_serving_has_all_ops_of_an_export(kind, exports):
    """The list has the ops of release 2.19.1, with those of tensorflow-text 2.12.1 in it."""
    known = set(SERVER_OPS.read_text().split())
    graph = SavedModel.FromString((exports(kind) / "saved_model.pb").read_bytes()).meta_graphs[0]
    functions = graph.graph_def.library.function
    nodes = [*graph.graph_def.node, *(node for x in functions for node in x.node_def)]
    calls = {x.signature.name for x in functions}
    assert {node.op for node in nodes} - calls <= known
    assert {
        f"Sentencepiece{name}Op" for name in ("", "Tokenize", "Detokenize", "IdToString")
    } <= known


def test_versions_of_models_are_added_to_a_folder(classifier, translator, tmp_path, monkeypatch):
    def write(pipeline, folder, **options):
        (folder / "saved_model.pb").write_bytes(b"")

    monkeypatch.setattr(FORMATS["saved_model"], "write", write)
    folder = tmp_path / "models"
    assert export_version(classifier, folder, "digits", "a card") == folder / "digits/1"
    assert export_version(classifier, folder, "digits") == folder / "digits/2"
    (folder / "digits/1").rename(folder / "digits/12")
    assert export_version(classifier, str(folder), "digits") == folder / "digits/13"
    assert export_version(translator, folder, "en_de") == folder / "en_de/1"
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    files = ("README.md", "export.json", "saved_model.pb")
    versions = ("digits/2", "digits/12", "digits/13", "en_de/1")
    settings = {"models.config", "batching_parameters.txt", "compose.yaml"}
    assert found == settings | {f"{version}/{name}" for version in versions for name in files}
    assert list(tmp_path.iterdir()) == [folder]


def test_a_failing_version_leaves_what_was_there(classifier, tmp_path, monkeypatch):
    def fail(pipeline, folder):
        raise OSError("disk full")

    folder = tmp_path / "models"
    monkeypatch.setattr(FORMATS["saved_model"], "write", fail)
    with pytest.raises(OSError, match="disk full"):
        export_version(classifier, folder, "digits")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(FORMATS["saved_model"], "write", lambda pipeline, folder: None)
    export_version(classifier, folder, "digits")
    monkeypatch.setattr(FORMATS["saved_model"], "write", fail)
    before = (folder / "models.config").read_text()
    for name in ("digits", "other"):
        with pytest.raises(OSError, match="disk full"):
            export_version(classifier, folder, name)
    assert [path.name for path in (folder / "digits").iterdir()] == ["1"]
    assert (folder / "models.config").read_text() == before
    monkeypatch.setattr(FORMATS["saved_model"], "write", lambda pipeline, folder: None)
    assert export_version(classifier, folder, "other") == folder / "other/1"


def test_a_folder_without_a_description_is_refused_with_one_line(tmp_path):
    assert not is_export(tmp_path)
    with pytest.raises(
        ValueError, match="is not an export of this package: .*export.json"
    ) as error:
        load(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "format, message",
    [
        ("ctranslate2", "takes subwords, not text: there is no source.spm"),
        ("coreml", "unknown format"),
    ],
)
def test_formats_that_cannot_be_loaded_are_refused(format, message, tmp_path):
    info = {"kind": "classifier", "format": format, "options": {}}
    (tmp_path / "export.json").write_text(json.dumps(info))
    with pytest.raises(ValueError, match=message):
        load(tmp_path)


def test_an_existing_folder_is_not_overwritten(classifier, tmp_path):
    with pytest.raises(ValueError, match="folder must be new; .* already exists"):
        export(classifier, tmp_path)


@pytest.mark.parametrize("format", FORMATS)
def test_a_failing_write_leaves_no_folder_behind(format, request, tmp_path, monkeypatch):
    def write(pipeline, folder, **options):
        (folder / "half").write_text("a part of it")
        raise OSError("disk full")

    monkeypatch.setattr(FORMATS[format], "write", write)
    pipeline = request.getfixturevalue(FORMATS[format].KINDS[0])
    with pytest.raises(OSError, match="disk full"):
        export(pipeline, tmp_path / "export", format=format)
    assert list(tmp_path.iterdir()) == []


def test_the_rest_of_an_interrupted_export_is_replaced(classifier, tmp_path, monkeypatch):
    monkeypatch.setattr(FORMATS["litert"], "write", lambda pipeline, folder: None)
    (tmp_path / ".export.tmp").mkdir()
    (tmp_path / ".export.tmp/half").write_text("a part of it")
    folder = export(classifier, tmp_path / "export", format="litert")
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "export.json"]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_damaged_description_is_one_line(tmp_path):
    for text in ("{", "[]", "{}"):
        (tmp_path / "export.json").write_text(text)
        for function in (load, package.inspect):
            with pytest.raises(ValueError, match="export.json"):
                function(tmp_path)
    (tmp_path / "export.json").unlink()
    (tmp_path / "saved_model.pb").write_bytes(b"\xff" * 9)
    with pytest.raises(ValueError, match="saved_model.pb is damaged or not supported"):
        package.inspect(tmp_path)


def test_what_cannot_be_exported_is_refused(translator, exports, tmp_path):
    known = ", ".join(FORMATS)
    with pytest.raises(ValueError, match=f"unknown format 'coreml'; known: {known}"):
        export(translator, tmp_path / "export", format="coreml")
    known = " or ".join(name for name, x in FORMATS.items() if "translator" in x.KINDS)
    with pytest.raises(ValueError, match=f"format of a translator must be {known}; got litert"):
        export(translator, tmp_path / "export", format="litert")
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_positions'"):
        export(translator, tmp_path / "export", max_positions=9)
    with pytest.raises(ValueError, match="pipeline must be a Pipeline; got ExportedPipeline"):
        export(load(exports("translator")), tmp_path / "export")
    assert list(tmp_path.iterdir()) == []
