import numpy as np
from matplotlib.image import imread

from tfx_transformer.plots import plot_attention, show_attention

WEIGHTS = np.array([[1.0, 0.0, 0.0], [0.1, 0.9, 0.0]])


def test_the_picture_is_bright_where_a_query_looks(tmp_path):
    path = plot_attention(WEIGHTS, tmp_path / "new" / "map.png", ["x", "y"], ["a", "b", "c"], "t")
    picture = imread(path)
    assert picture.shape[0] > 100 and picture.shape[1] > 100
    yellow = np.isclose(picture[..., :3], (0.993, 0.906, 0.144), atol=0.02).all(axis=-1)
    assert yellow.sum() > 500  # the cell of weight 1


def test_the_terminal_shows_the_same():
    lines = show_attention(WEIGHTS, ["x", "y"], ["a", "b", "c"]).splitlines()
    assert lines[0].split() == ["a", "b", "c"]
    assert lines[1] == " x ██    "
    assert lines[2] == " y   ██  "
