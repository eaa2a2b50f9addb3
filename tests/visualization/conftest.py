import numpy as np
import pytest
from matplotlib.figure import Figure


@pytest.fixture
def saved(monkeypatch):
    """The figures in the order in which they were saved."""
    figures, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda f, *a, **k: figures.append(f) or save(f, *a, **k))
    return figures


@pytest.fixture
def boxes():
    """boxes(artists): (artists, 4), their left, bottom, right and top edges in pixels."""

    def boxes(artists):
        artists[0].get_figure().draw_without_rendering()
        return np.array([artist.get_window_extent().extents for artist in artists])

    return boxes


@pytest.fixture
def overlap():
    """overlap(edges): whether any two boxes overlap by more than one pixel."""

    def overlap(edges):
        low = np.maximum(edges[:, None, :2], edges[:, :2])
        high = np.minimum(edges[:, None, 2:], edges[:, 2:])
        return ((high > low + 1).all(axis=-1).sum(axis=1) > 1).any()  # each overlaps with itself

    return overlap
