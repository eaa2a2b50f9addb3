"""Checkpoints of other libraries and the outputs of these libraries, from `tests/fixtures`."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from tfx_transformer.convert import read_weights

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="session")
def read():
    """The weights of a checkpoint."""
    return lambda name: read_weights(FIXTURES / f"{name}.safetensors")


@pytest.fixture(scope="session")
def stored():
    """The images of a fixture, and the logits that its library computed from them."""

    def get(name, folder=FIXTURES):
        with np.load(folder / f"{name}.npz") as file:
            return file["images"], file["logits"]

    return get


@pytest.fixture
def weights_by_path():
    """The weights of our model by path."""
    return lambda model: {w.path: keras.ops.convert_to_numpy(w) for w in model.weights}


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    """A folder of fixtures that `make_swin_fixtures.py` makes now, with other weights."""
    for name in ("torch", "timm", "transformers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    folder = tmp_path_factory.mktemp("live")
    command = [sys.executable, FIXTURES / "make_swin_fixtures.py", folder, "1"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return folder
