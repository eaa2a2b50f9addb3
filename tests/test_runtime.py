"""TensorFlow starts quietly, keeps its memory, and traces functions without AutoGraph."""

import importlib.util
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from tfx_transformer import runtime
from tfx_transformer.runtime import (
    apply_to_batch,
    graph,
    keep_compiled,
    muted_stderr,
    without_autograph,
    without_autotune,
)

TOUCH = """
import ctypes, resource, sys
from tfx_transformer.runtime import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def use():
    block = libc.malloc(200_000_000)
    ctypes.memset(block, 1, 200_000_000)
    libc.free(ctypes.c_void_p(block))
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc alone")
def test_freed_memory_is_not_fetched_again():
    faults = {}
    for how in ("keep", "give back"):
        command = [sys.executable, "-c", TOUCH, how]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        faults[how] = int(result.stdout)
    assert faults["keep"] < 100 < faults["give back"]


def test_a_command_prints_nothing_but_its_own_words():
    result = subprocess.run(
        [sys.executable, "-m", "tfx_transformer.train.cli", "layers"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0 and result.stderr == ""
    assert "multi_head" in result.stdout


def test_an_error_shows_what_was_muted(capfd):
    with pytest.raises(ImportError), muted_stderr():
        sys.__stderr__.write("the reason\n")
        sys.__stderr__.flush()
        raise ImportError
    assert "the reason" in capfd.readouterr().err


def test_what_comes_later_is_shown(capfd):
    with muted_stderr():
        pass
    sys.__stderr__.write("later\n")
    sys.__stderr__.flush()
    assert "later" in capfd.readouterr().err


def test_memory_is_kept_before_tensorflow_is_imported(monkeypatch):
    called = []
    monkeypatch.setattr(runtime, "keep_freed_memory", lambda: called.append("memory"))
    monkeypatch.setattr(runtime, "import_tensorflow", lambda: called.append("tensorflow"))
    runtime.start_tensorflow()
    assert called == ["memory", "tensorflow"]


def test_packages_are_missing_only_inside():
    sys.modules.pop("this", None)
    with runtime.missing_packages("this", "os"):
        with pytest.raises(ImportError):
            importlib.import_module("this")
        importlib.import_module("os")  # already imported: it stays
    assert importlib.util.find_spec("this") is not None and "os" in sys.modules


def test_a_function_is_traced_once_for_all_sizes():
    traced = []

    def double(x):
        traced.append(x.shape)
        return 2 * x

    function = graph(double, tf.TensorSpec([None], tf.float32))
    assert function(tf.constant([1.0])).numpy().tolist() == [2]
    assert function(tf.constant([1.0, 3.0])).numpy().tolist() == [2, 6]
    assert len(traced) == 1


def test_a_data_set_calls_a_function_as_it_is():
    """AutoGraph would make a loop of the graph out of `while`, and not raise."""

    def count(x):
        while x < 3:
            x += 1
        return x

    assert list(tf.data.Dataset.range(1).map(count).as_numpy_iterator()) == [3]
    with pytest.raises(TypeError, match="symbolic `tf.Tensor` as a Python `bool`"):
        tf.data.Dataset.range(1).map(without_autograph(count))


def test_what_is_made_of_an_untuned_data_set_has_no_tuner_either():
    data = tf.data.Dataset.range(3)
    assert data.options().autotune.enabled is not False
    made = without_autotune(data).map(lambda x: x + 1).prefetch(2)
    assert made.options().autotune.enabled is False
    assert list(made.as_numpy_iterator()) == [1, 2, 3]


def test_a_function_that_cannot_take_nothing_gets_one_and_gives_nothing():
    asked = []

    def double(images):
        asked.append(images.shape[0])
        return 2 * images

    assert apply_to_batch(double, tf.zeros([0, 4, 3])).shape == (0, 4, 3)
    x = tf.random.normal([2, 4, 3])
    assert (apply_to_batch(double, x).numpy() == 2 * x.numpy()).all() and asked == [1, 2]


def test_compiled_code_is_kept_in_the_cache_folder_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TF_XLA_FLAGS", "--other=1")
    keep_compiled()
    folder = tmp_path / "tfx_transformer/xla"
    expected = f"--other=1 --tf_xla_persistent_cache_directory={folder}"
    assert os.environ["TF_XLA_FLAGS"] == expected and folder.is_dir()
    keep_compiled()
    assert os.environ["TF_XLA_FLAGS"] == expected


def test_without_a_cache_folder_nothing_is_kept(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("TF_XLA_FLAGS", "")
    keep_compiled()
    assert os.environ["TF_XLA_FLAGS"] == ""
