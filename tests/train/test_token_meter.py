import math

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.epochs import EpochData
from tfx_transformer.train.token_meter import TokenMeter

LOGITS = np.array(
    [[[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]], [[0.0, 0.0, 1.0], [0.0, 5.0, 0.0]]], "float32"
)
TARGETS = [[1, 2], [2, 0]]
WEIGHTS = [[1.0, 1.0], [1.0, 0.0]]


class Data(EpochData):
    """Two batches; the second one is the first with other targets."""

    steps_per_epoch = 2
    signature = (
        tf.TensorSpec([2], tf.int32),
        tf.TensorSpec([2, 2], tf.int32),
        tf.TensorSpec([2, 2], tf.float32),
    )

    def orders(self, epoch, step):
        for shift in (0, 1):
            yield np.zeros(2, "int32"), (np.array(TARGETS) + shift) % 3, np.array(WEIGHTS)


def expected(batches):
    nats = right = count = 0
    for shift in range(batches):
        for logits, target, weight in zip(
            LOGITS.reshape(4, 3), np.ravel(TARGETS), np.ravel(WEIGHTS), strict=True
        ):
            own = (target + shift) % 3
            nats += weight * (math.log(np.exp(logits).sum()) - logits[own])
            right += weight * (logits.argmax() == own)
            count += weight
    return nats / count, 100 * right / count, count


@pytest.mark.parametrize("batches, asked", [(1, 1), (2, 2), (2, -1), (2, 9)])
def test_only_tokens_with_a_weight_count(batches, asked):
    scores = TokenMeter(lambda inputs, training: tf.constant(LOGITS), Data())(asked)
    loss, accuracy, count = expected(batches)
    assert scores["log_prob"] == pytest.approx(-loss, rel=1e-5)
    assert scores["perplexity"] == pytest.approx(math.exp(loss), rel=1e-5)
    assert scores["accuracy"] == pytest.approx(accuracy) and scores["tokens"] == count
