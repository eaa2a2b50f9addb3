"""Outputs of a request do not depend on the other requests of their batches."""

import numpy as np
import pytest

from tfx_transformer.serving.outputs import join, trim


def test_padding_for_longer_rows_of_others_is_removed():
    outputs = {
        "pieces": np.array([[b"a", b"b", b"", b""], [b"c", b"", b"", b""]], object),
        "tokens": np.array([[5, 6, 0, 0], [7, 0, 0, 0]]),
        "source_pieces": np.array([[b"x", b"", b""], [b"x", b"", b""]], object),
        "alignment": np.zeros((2, 4, 3)),
        "attention": np.zeros((2, 6, 5, 4, 3)),
        "weights": np.zeros((2, 4, 7, 7)),
        "n_best": np.array([[b"ab", b""], [b"c", b""]], object),
        "truncated": np.array([False, False]),
    }
    shapes = {name: x.shape for name, x in trim(outputs).items()}
    assert shapes == {
        "pieces": (2, 2),
        "tokens": (2, 2),
        "source_pieces": (2, 1),
        "alignment": (2, 2, 1),
        "attention": (2, 6, 5, 2, 1),
        "weights": (2, 2, 7, 7),
        "n_best": (2, 2),
        "truncated": (2,),
    }


def test_padding_inside_of_a_row_is_kept():
    outputs = trim({"pieces": np.array([[b"a", b"", b"b", b""]], object)})
    assert outputs["pieces"].tolist() == [[b"a", b"", b"b"]]


@pytest.mark.parametrize("shape", [(1, 0), (1, 3)])
def test_rows_may_be_empty(shape):
    assert trim({"tokens": np.zeros(shape, int)})["tokens"].shape == (1, 0)


def test_tokens_of_all_hypotheses_count():
    tokens = np.array([[[5, 0, 0, 0], [5, 6, 0, 0]]])
    assert trim({"tokens": tokens})["tokens"].tolist() == [[[5, 0], [5, 6]]]


def test_parts_are_joined_in_the_order_of_their_rows():
    first = {"pieces": np.array([[b"a"], [b"b"]], object), "score": np.array([1.0, 2.0])}
    second = {"pieces": np.array([[b"c", b"d"]], object), "score": np.array([3.0])}
    whole = join([(np.array([0, 2]), first), (np.array([1]), second)])
    assert whole["pieces"].tolist() == [[b"a", b""], [b"c", b"d"], [b"b", b""]]
    assert whole["score"].tolist() == [1.0, 3.0, 2.0]
    assert join([(np.array([0, 1]), first)]) is first


def test_parts_of_several_dimensions_are_padded():
    parts = [(np.array([1]), {"x": np.ones((1, 2, 3))}), (np.array([0]), {"x": np.ones((1, 4, 1))})]
    whole = join(parts)["x"]
    assert whole.shape == (2, 4, 3)
    assert whole[1, :2].all() and whole[1, 2:].sum() == 0 and whole[0].sum() == 4
