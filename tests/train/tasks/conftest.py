import contextlib

import pytest


@pytest.fixture
def standard_input(monkeypatch, tmp_path):
    """Replaces standard input by a file of these bytes."""
    with contextlib.ExitStack() as files:

        def put(content):
            path = tmp_path / "standard_input"
            path.write_bytes(content)
            monkeypatch.setattr("sys.stdin", files.enter_context(path.open()))

        yield put
