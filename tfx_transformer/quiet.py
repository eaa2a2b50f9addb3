"""Importing TensorFlow without the page of notes that it prints on some machines."""

import contextlib
import os
import sys
import tempfile


def import_tensorflow() -> None:
    """Imports TensorFlow with its start-up notes muted; an error still shows everything.

    Some notes are written by C++ before any log level is read, so the file descriptor itself is
    turned away. `TF_CPP_MIN_LOG_LEVEL`, if set, decides what is shown later on.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _muted_stderr():
        import tensorflow  # noqa: F401


@contextlib.contextmanager
def _muted_stderr():
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as notes:
        os.dup2(notes.fileno(), 2)
        try:
            yield
        except BaseException:
            notes.seek(0)
            os.write(original, notes.read())
            raise
        finally:
            os.dup2(original, 2)
            os.close(original)
