"""Our commands show none of TensorFlow's start-up notes; errors are still shown."""

import subprocess
import sys

import pytest

from tfx_transformer.quiet import _muted_stderr


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
    with pytest.raises(ImportError), _muted_stderr():
        sys.__stderr__.write("the reason\n")
        sys.__stderr__.flush()
        raise ImportError
    assert "the reason" in capfd.readouterr().err


def test_what_comes_later_is_shown(capfd):
    with _muted_stderr():
        pass
    sys.__stderr__.write("later\n")
    sys.__stderr__.flush()
    assert "later" in capfd.readouterr().err
