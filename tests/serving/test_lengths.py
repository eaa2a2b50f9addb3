"""Rows of like length share a batch."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.serving.errors import TooLarge
from tfx_transformer.serving.lengths import Lengths

TEXT = {"text": tf.TensorSpec([None], tf.string, "text")}
IDS = {"source": tf.TensorSpec([None, None], tf.int32, "source")}
IMAGE = {"image": tf.TensorSpec([None], tf.string, "image")}


def test_texts_are_grouped_by_their_bytes():
    texts = np.array([b"a" * 64, b"a" * 65, b"a" * 256, b"a" * 257, b""], object)
    lengths = Lengths(TEXT, 128)
    assert lengths.group({"text": texts}).tolist() == [0, 1, 1, 2, 0]
    assert lengths.groups == [0, 1, 2]


def test_images_are_one_group():
    images = np.array([b"a", b"a" * 1000], object)
    assert Lengths(IMAGE, None).group({"image": images}).tolist() == [0, 0]


@pytest.mark.parametrize(
    "max_length, widths", [(12, [12]), (16, [16]), (100, [16, 32, 64, 100]), (None, 6)]
)
def test_token_ids_have_few_widths(max_length, widths):
    groups = Lengths(IDS, max_length).groups
    assert groups == widths or len(groups) == widths


def test_token_ids_are_padded_to_their_group():
    lengths = Lengths(IDS, 100)
    ids = np.ones((2, 17), int)
    assert lengths.group({"source": ids}).tolist() == [32, 32]
    padded = lengths.pad({"source": ids}, 32)["source"]
    assert padded.shape == (2, 32) and padded[:, :17].all() and not padded[:, 17:].any()
    assert lengths.group({"source": np.ones((1, 0), int)}).tolist() == [16]
    with pytest.raises(TooLarge, match="source must have at most 100 columns; got 101"):
        lengths.group({"source": np.ones((1, 101), int)})
