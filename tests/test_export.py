"""The SavedModel works in a fresh process that never imports this package."""

import json
import subprocess
import sys

import pytest

from tfx_transformer.export import export_translator, inspect_export

SERVED = """
import json, sys
import tensorflow as tf
if sys.argv[2] == "text":
    import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
assert not any(name.startswith("tfx_transformer") for name in sys.modules), "imported"
serve = model.signatures["serving_default"]
if sys.argv[2] == "text":
    out = serve(tf.constant(json.loads(sys.argv[3])))
    alignment = out["alignment"].numpy().sum(axis=-1)[0]
    print(json.dumps({"text": [t.decode() for t in out["text"].numpy()],
                      "n_best": out["n_best"].shape.as_list(), "rows": float(alignment[0])}))
else:
    print(json.dumps(serve(tf.constant(json.loads(sys.argv[3])))["tokens"].numpy().tolist()))
"""


def serve(folder, kind, value, cwd):
    result = subprocess.run(
        [sys.executable, "-c", SERVED, str(folder), kind, json.dumps(value)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=200,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return json.loads(result.stdout)


def test_the_export_translates_in_a_process_without_this_package(translator, tmp_path):
    folder = export_translator(translator, tmp_path / "export", "a card")
    texts = ["red cat", "", "old big dog", "blue " * 50]
    served = serve(folder, "text", texts, tmp_path)
    assert served["text"] == translator(texts) and served["text"][1] == ""
    assert served["n_best"] == [4, 2] and served["rows"] == pytest.approx(1, abs=1e-5)
    assert (folder / "README.md").read_text() == "a card"
    told = inspect_export(folder)
    assert "needs tensorflow-text: Sentencepiece" in told
    for line in ("ids\n", "limited\n", "serving_default\n", "  in  max_length: int32 []"):
        assert line in told
    with pytest.raises(ValueError, match="is there already"):
        export_translator(translator, folder)


def test_an_export_of_ids_needs_tensorflow_alone(translator, tmp_path):
    folder = export_translator(translator, tmp_path / "ids", ids_only=True)
    ids = [[*translator.source_tokenizer.encode_list(["red cat"])[0], 2]]
    tokens = serve(folder, "ids", ids, tmp_path)
    assert translator.target_tokenizer.decode_list(tokens[0][:1]) == translator(["red cat"])
    assert "needs tensorflow-text: no" in inspect_export(folder)


def test_what_is_no_saved_model_is_named(tmp_path):
    with pytest.raises(ValueError, match="holds no SavedModel: there is no"):
        inspect_export(tmp_path)
