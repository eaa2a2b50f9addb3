"""Attention models for Keras 3 and TensorFlow: layers, data, decoding, training and export."""

from pathlib import Path as _Path

__version__ = "0.1.0"

_here = _Path(__file__).parent
if not (_here / "models").is_dir():  # a source checkout: models/ and train/ stand beside us
    __path__.append(str(_here.parent))
