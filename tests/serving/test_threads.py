"""How many cores one operation uses."""

import json
import os
import subprocess
import sys

import pytest

from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.threads import choose_threads


def make(folder, kind):
    folder.mkdir(parents=True)
    info = {"kind": kind, "format": "saved_model", "options": {}}
    (folder / "export.json").write_text(json.dumps(info))
    return folder


@pytest.mark.parametrize(
    "kinds, threads",
    [
        (["translator", "generator"], 1),
        (["translator", "classifier"], 0),
        (["text_classifier"], 0),
        (["unknown"], 0),
    ],
)
def test_models_that_decode_texts_use_one_core_for_an_operation(kinds, threads, tmp_path):
    folders = {kind: make(tmp_path / kind, kind) for kind in kinds}
    assert choose_threads(ServingOptions(), folders).threads == threads
    assert choose_threads(ServingOptions(threads=3), folders).threads == 3


def test_the_newest_version_counts(tmp_path):
    make(tmp_path / "9", "classifier")
    make(tmp_path / "10", "translator")
    assert choose_threads(ServingOptions(), {"a": tmp_path}).threads == 1


def test_a_folder_that_cannot_be_read_is_no_error_here(tmp_path):
    (tmp_path / "export.json").write_text("{")
    for folder in (tmp_path, tmp_path / "missing"):
        assert choose_threads(ServingOptions(), {"a": folder}).threads == 0


@pytest.mark.parametrize(
    "threads, cores, batches", [(1, 16, 16), (4, 16, 4), (0, 16, 8), (8, 4, 2)]
)
def test_several_batches_use_all_cores(threads, cores, batches, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert ServingOptions(threads=threads).num_batches == batches


def test_the_number_is_that_of_tensorflow():
    code = """
from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.threads import set_threads, tf
set_threads(ServingOptions())
print(tf.config.threading.get_intra_op_parallelism_threads())
set_threads(ServingOptions(threads=3))
print(tf.config.threading.get_intra_op_parallelism_threads())
"""
    out = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert out.split() == ["0", "3"]
