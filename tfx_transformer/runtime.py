"""How TensorFlow is started and used: a quiet import, memory settings, and graph helpers.

This module does not import TensorFlow by itself, so that commands can answer `--help` at once.
"""

import contextlib
import ctypes
import os
import sys
import tempfile
from pathlib import Path

# parameters of glibc's mallopt (malloc.h) and their values
_MALLOC_OPTIONS = {
    -8: 1,  # M_ARENA_MAX: one arena for all threads; otherwise each thread keeps its own
    -4: 0,  # M_MMAP_MAX: do not map large blocks one by one
    -2: 1 << 28,  # M_TOP_PAD: grow the heap by this many bytes
    -1: (1 << 31) - 1,  # M_TRIM_THRESHOLD: keep up to this many free bytes
}


def start_tensorflow() -> None:
    """Imports TensorFlow for a command: quietly, and with freed memory kept for reuse."""
    keep_freed_memory()
    with missing_packages("matplotlib", "pandas", "scipy", "sklearn"):  # Keras imports them if any
        import_tensorflow()


@contextlib.contextmanager
def missing_packages(*names: str):
    """Inside, packages that are not imported yet cannot be imported: a quarter of the start."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def import_tensorflow() -> None:
    """Imports TensorFlow without its start-up messages; an error still shows all of them.

    Some messages are written by C++ before any log level is read, so the file descriptor of
    standard error is redirected. `TF_CPP_MIN_LOG_LEVEL`, if set, controls later messages.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with muted_stderr():
        import tensorflow  # noqa: F401


def keep_freed_memory() -> bool:
    """Makes the C library keep freed memory for reuse; call it before TensorFlow is imported.

    By default glibc returns large blocks to the system and maps them again at every training step,
    which costs time. Returns False where this is not possible (another C library than glibc).
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    options = _MALLOC_OPTIONS.items()
    return mallopt is not None and all(mallopt(name, value) for name, value in options)


def keep_compiled() -> None:
    """Lets XLA keep what it compiled in the user's cache folder; before TensorFlow is imported."""
    flag, flags = "--tf_xla_persistent_cache_directory", os.environ.get("TF_XLA_FLAGS", "")
    if flag not in flags:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "tfx_transformer" / "xla"
        with contextlib.suppress(OSError):  # a folder that cannot be written is no reason to stop
            folder.mkdir(parents=True, exist_ok=True)
            os.environ["TF_XLA_FLAGS"] = f"{flags} {flag}={folder}".strip()


def graph(function, *signature, **options):
    """`tf.function` with a fixed input signature and without AutoGraph, which is slow to trace."""
    import tensorflow as tf

    return tf.function(function, signature, autograph=False, **options)


def without_autograph(function):
    """The function for `Dataset.map`, which would otherwise spend seconds to convert it."""
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)


def without_autotune(data):
    """The dataset with tf.data's autotuning off: its thread delays the end of a dataset.

    That thread sleeps for up to a minute. The number of parallel calls stays that of the cores.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return data.with_options(options)


def apply_to_batch(function, images):
    """function(images) for images (B, …), also for B = 0, for which some convolutions fail."""
    import tensorflow as tf

    count = tf.shape(images)[0]
    spare = tf.cast(count == 0, tf.int32)
    rest = [[0, 0]] * (len(images.shape) - 1)
    return function(tf.pad(images, [[0, spare], *rest]))[:count]


def mean_over_replicas(x):
    """The mean of a tensor over the replicas of tf.distribute; the tensor itself elsewhere."""
    import keras

    if keras.backend.backend() != "tensorflow":
        return x
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return x
    return replica.all_reduce("MEAN", tf.identity(x))  # on the device of the replica


@contextlib.contextmanager
def muted_stderr():
    """Hides what is written to standard error, also by C++; shows it if there is an exception."""
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as messages:
        os.dup2(messages.fileno(), 2)
        try:
            yield
        except BaseException:
            messages.seek(0)
            os.write(original, messages.read())
            raise
        finally:
            os.dup2(original, 2)
            os.close(original)
