"""Batches of texts with classes against plain Python."""

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data import END, PAD, START
from tfx_transformer.data.text.labeled_batches import LabeledBatches, encode_rows

LONGEST, BATCH = 12, 7


@pytest.fixture(scope="module")
def texts(phrases):
    return [*phrases["en"][:60], "", " ".join(phrases["de"][:9])]


@pytest.fixture(scope="module")
def rows(texts, tokenizer):
    return [(START, *ids[: LONGEST - 2], END) for ids in tokenizer.encode_list(texts)]


@pytest.fixture(scope="module")
def data(texts, tokenizer):
    labels = [i % 5 for i in range(len(texts))]
    return LabeledBatches(texts, labels, 5, tokenizer, BATCH, LONGEST, seed=3)


def batches(dataset):
    return [
        (inputs["tokens"].tolist(), targets.tolist(), weights.tolist())
        for inputs, targets, weights in dataset.as_numpy_iterator()
    ]


def test_every_text_occurs_once_with_its_class(data, rows):
    counts = Counter()
    for tokens, targets, weights in batches(data.dataset(1)):
        assert len(tokens) == BATCH and {sum(target) for target in targets} == {1.0}
        for row, target, weight in zip(tokens, targets, weights, strict=True):
            if weight:
                counts[tuple(id for id in row if id != PAD), int(np.argmax(target))] += 1
    assert counts == Counter((row, i % 5) for i, row in enumerate(rows))


def test_only_one_batch_has_rows_of_weight_0(data, rows):
    sums = [sum(weights) for _, _, weights in batches(data.dataset())]
    assert len(sums) == data.steps_per_epoch == -(-len(rows) // BATCH)
    assert sorted(sums)[1:] == [BATCH] * (len(sums) - 1) and sum(sums) == len(rows)
    assert all(any(row) for tokens, _, _ in batches(data.dataset()) for row in tokens)


def test_a_resumed_run_has_the_same_batches_and_epochs_differ(data):
    whole = batches(data.dataset(2))
    assert batches(data.dataset(2, 3)) == whole[3:]
    assert batches(data.dataset(0)) != whole


def test_texts_are_encoded_in_the_graph_as_in_the_batches(texts, rows, tokenizer):
    encode = tf.function(lambda x: encode_rows(tokenizer, x, LONGEST), autograph=False)
    ids = encode(tf.constant(texts)).numpy()
    assert [tuple(row[row != PAD].tolist()) for row in ids] == rows
    assert ids.shape == (len(texts), LONGEST)


def test_the_data_is_described_in_one_line(data, texts, rows):
    tokens = sum(map(len, rows))
    assert str(data) == (
        f"{len(texts)} texts of 5 classes, {tokens} tokens in {data.steps_per_epoch} batches"
    )


def test_an_invalid_argument_is_named(tokenizer):
    with pytest.raises(ValueError, match="each text must have a label; got 2 and 1"):
        LabeledBatches(["a", "b"], [0], 2, tokenizer)
    with pytest.raises(ValueError, match="max_length must be 3 or more; got max_length=2"):
        LabeledBatches(["a"], [0], 2, tokenizer, max_length=2)
