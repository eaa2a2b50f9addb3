"""After the warm-up no request meets a new shape."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tfx_transformer.export import export
from tfx_transformer.pipelines import Classifier, Translator
from tfx_transformer.serving.batching import TEXT_BYTES
from tfx_transformer.serving.model import ServedModel
from tfx_transformer.serving.warmup import sample


@pytest.mark.parametrize("is_compiled", [False, True])
def test_batches_of_all_groups_are_run(is_compiled, serve, toy):
    """With XLA of all sizes that batches have, otherwise with one row, and once the largest."""
    toy.options["jit_compile"] = is_compiled
    model = serve(max_batch_size=5)
    seen = []
    model.warm_up(lambda done, total: seen.append((done, total)))
    shapes = {(len(batch), np.searchsorted(TEXT_BYTES, len(batch[0]))) for batch in toy.batches}
    sizes = (1, 2, 4, 5) if is_compiled else (1,)
    expected = {(size, group) for size in sizes for group in range(6)} | {(5, 0)}
    assert shapes | {(1, 0)} == expected
    assert seen == [(i, seen[0][1]) for i in range(seen[0][1] + 1)]


@pytest.mark.parametrize("kind", ["classifier", "captioner"])
def test_samples_of_images_are_readable(kind, request):
    model = ServedModel(request.getfixturevalue(kind))
    arrays = sample(model, "serving_default", 0, 3)
    assert model.call(arrays, "serving_default")["is_readable"].tolist() == [True] * 3
    assert np.shape(sample(model, "images", 0, 2)["image"])[0] == 2


def test_a_failure_is_raised(serve, toy):
    toy.functions["serving_default"] = toy.functions["limited"] = toy.functions["ids"]
    model = serve()

    def stop(done, total):
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        model.warm_up(stop)


XLA = """
import json, os, sys, time
folder, cache, max_length = sys.argv[1:]
os.environ["TF_XLA_FLAGS"] = f"--tf_xla_persistent_cache_directory={cache}"
from tfx_transformer.runtime import import_tensorflow
import_tensorflow()
from tfx_transformer.export import load
from tfx_transformer.serving.errors import TooLarge
from tfx_transformer.serving.model import ServedModel
from tfx_transformer.serving.options import ServingOptions

limits = ServingOptions(max_batch_size=2, batch_timeout=0.0, max_length=int(max_length))
model, start = ServedModel(load(folder), limits=limits), time.process_time()
model.warm_up()
seconds = time.process_time() - start
counts, refused = [len(os.listdir(cache))], set()
for rows in (1, 2, 3):
    if model.kind == "classifier":
        model.predict({"image": [b"not an image"] * rows})
        continue
    for words in (0, 1, 5, 10, 14, 40):
        try:
            model.predict({"text": ["red " * words] * rows})
        except TooLarge as error:
            refused.add(str(error))
    model.predict({"text": ["red"] * rows, "max_length": rows}, "limited")
    model.predict({"source": [[5] * 17] * rows}, "ids")
counts.append(len(os.listdir(cache)))
print(json.dumps([seconds, *counts, *refused]))
"""


def serve_compiled(pipeline, folder, max_length=0):
    """CPU seconds of the warm-up, cached programs after it and after requests, what was refused."""
    out, cache = folder / "out", folder / "cache"
    if not out.exists():
        export(pipeline, out)
        cache.mkdir()
    arguments = [str(out), str(cache), str(max_length)]
    done = subprocess.run([sys.executable, "-c", XLA, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("own, limit", [pytest.param(20, 0, marks=pytest.mark.serving), (80, 20)])
def test_after_the_warm_up_no_translator_is_compiled(own, limit, translator, tmp_path):
    """Programs for 2 batch sizes × 2 source lengths.

    The model truncates longer sources; those below its own limit are refused.
    """
    tokenizers = [translator.source_tokenizer] * 2
    compiled = Translator(translator.model, *tokenizers, "greedy", max_length=own, jit_compile=True)
    refused = ["text must have at most 20 tokens; got 41"] if limit else []
    assert serve_compiled(compiled, tmp_path, limit)[1:] == [4, 4, *refused]


def test_after_the_warm_up_no_classifier_is_compiled(classifier, tmp_path):
    compiled = Classifier(classifier.model, classifier.class_names, jit_compile=True)
    assert serve_compiled(compiled, tmp_path)[1:] == [2, 2]


@pytest.mark.serving
def test_a_second_start_uses_the_programs_of_the_first(translator, tmp_path):
    """It compiles and writes nothing, and takes less time."""
    tokenizers = [translator.source_tokenizer] * 2
    compiled = Translator(translator.model, *tokenizers, "greedy", max_length=20, jit_compile=True)
    first = serve_compiled(compiled, tmp_path)

    def times():
        return {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}

    written = times()
    second = serve_compiled(compiled, tmp_path)
    assert second[1:] == first[1:] == [4, 4] and times() == written
    assert second[0] < first[0], (first, second)
