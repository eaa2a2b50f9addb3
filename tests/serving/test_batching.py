"""Calls at the same time are computed together, and each gets its own rows."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.serving.batching import BatchedFunction, Lengths
from tfx_transformer.serving.errors import TooLarge
from tfx_transformer.serving.options import ServingOptions

SPECS = {"x": tf.TensorSpec([None, 2], tf.float32, "x")}


@pytest.fixture
def sizes():
    return []


def make(scale, sizes, queues=("all",), owner="test", pad=False, **options):
    """x (B, 2) → scale · x, and the sum of each row; notes the size of each batch."""
    variable = tf.Variable(scale)

    def compute(tensors):
        x = tensors["x"]
        note = tf.numpy_function(lambda n: sizes.append(int(n)), [tf.shape(x)[0]], [])
        with tf.control_dependencies([note]):
            return {"scaled": variable * x, "sum": tf.reduce_sum(x, axis=1)}

    limits = ServingOptions(**{"max_batch_size": 8, "batch_timeout": 50.0} | options)
    return BatchedFunction(compute, SPECS, owner, queues, limits, pad)


def call_all(function, arrays, queue="all"):
    with ThreadPoolExecutor(len(arrays)) as pool:
        return list(pool.map(lambda x: function({"x": x}, queue), arrays))


def test_calls_share_batches_and_get_their_own_rows(sizes):
    function = make(3.0, sizes)
    arrays = [np.full((1 + i % 2, 2), i, "float32") for i in range(10)]  # 15 rows
    results = call_all(function, arrays)
    for x, (outputs, began, ended, size) in zip(arrays, results, strict=True):
        np.testing.assert_array_equal(outputs["scaled"], 3 * x)
        np.testing.assert_array_equal(outputs["sum"], x.sum(axis=1))
        assert size in sizes and began <= ended <= time.time()
    assert len(sizes) < 10 and sum(sizes) == 15  # nothing is padded


def test_batches_for_xla_have_allowed_sizes(sizes):
    function = make(1.0, sizes, pad=True, max_batch_size=6)
    for rows in (1, 2, 3, 5, 6):
        function({"x": np.zeros((rows, 2), "float32")}, "all")
    assert sizes == [1, 2, 4, 6, 6]


def test_functions_of_the_same_owner_do_not_mix(sizes):
    functions = [make(scale, sizes) for scale in (2.0, 5.0)]
    x = np.ones((1, 2), "float32")
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda i: functions[i % 2]({"x": x}, "all")[0], range(8)))
    for i, outputs in enumerate(results):
        assert outputs["scaled"][0, 0] == (2.0, 5.0)[i % 2]


def test_calls_of_different_queues_do_not_share_a_batch(sizes):
    function = make(1.0, sizes, queues=("short", "long"))
    x = np.ones((2, 2), "float32")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda queue: function({"x": x}, queue), ("short", "long")))
    assert sizes == [2, 2]


def test_all_queues_share_one_optimized_function(sizes):
    """A function for each queue would be optimized for each, which takes seconds and memory."""
    function = make(1.0, sizes, queues=("short", "medium", "long"))
    graph = function._call.graph
    nodes = [node for branch in graph._functions.values() for node in branch.graph.get_operations()]
    names = {op.get_attr("f").name for op in nodes if op.type == "BatchFunction"}
    assert len(names) == 1


TEXT = {"text": tf.TensorSpec([None], tf.string, "text")}
IDS = {"source": tf.TensorSpec([None, None], tf.int32, "source")}
IMAGE = {"image": tf.TensorSpec([None], tf.string, "image")}


def test_texts_are_grouped_by_their_bytes():
    texts = np.array([b"a" * 48, b"a" * 49, b"a" * 256, b"a" * 257, b""], object)
    lengths = Lengths(TEXT, 128)
    assert lengths.group({"text": texts}).tolist() == [0, 1, 4, 5, 0]
    assert lengths.groups == [0, 1, 2, 3, 4, 5]


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
