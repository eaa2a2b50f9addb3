"""Attention models for Keras 3 and TensorFlow: layers, data, decoding, training and export.

Importing it registers all classes with Keras, so that `keras.saving.load_model` can read
`.keras` files that contain them.
"""

import importlib as _importlib
import sys as _sys
from pathlib import Path as _Path

__version__ = "0.1.0"
_REGISTERED = (
    *("layers", "models"),
    *("training.losses", "training.optimizer", "training.schedules"),
)

_here = _Path(__file__).parent
if not (_here / "models").is_dir():  # a source checkout: models/ and train/ are beside this folder
    __path__.append(str(_here.parent))


def register_classes() -> None:
    """Imports all modules with classes that Keras saves; each registers itself."""
    from tfx_transformer.runtime import muted_stderr

    with muted_stderr():  # without the start-up messages of TensorFlow
        for name in _REGISTERED:
            _importlib.import_module(f"{__name__}.{name}")


def _is_command() -> bool:
    """Whether this process is `tfx-transformer`, which registers after parsing its arguments."""
    module = ["-m", f"{__name__}.train.cli"]
    return _Path(_sys.argv[0]).stem == "tfx-transformer" or _sys.orig_argv[1:3] == module


if not _is_command():
    register_classes()
