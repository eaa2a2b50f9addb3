import io

import pytest


@pytest.fixture
def standard_input(monkeypatch):
    """Replaces standard input by bytes."""

    def put(content):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    return put
