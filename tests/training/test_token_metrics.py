import math

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.training.token_metrics import TokenMetrics

LOGITS = np.array(
    [[[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]], [[0.0, 0.0, 1.0], [0.0, 5.0, 0.0]]], "float32"
)
TARGETS = [[1, 2], [2, 0]]
WEIGHTS = [[1.0, 1.0], [1.0, 0.0]]


class Data:
    """Two batches; the second has other targets."""

    def dataset(self):
        targets = np.array([TARGETS, (np.array(TARGETS) + 1) % 3], "int32")
        return tf.data.Dataset.from_tensor_slices((np.zeros((2, 2)), targets, [WEIGHTS] * 2))


def expected(batches):
    nats = correct = count = 0
    for shift in range(batches):
        for logits, target, weight in zip(
            LOGITS.reshape(4, 3), np.ravel(TARGETS), np.ravel(WEIGHTS), strict=True
        ):
            target = (target + shift) % 3
            nats += weight * (math.log(np.exp(logits).sum()) - logits[target])
            correct += weight * (logits.argmax() == target)
            count += weight
    return nats / count, 100 * correct / count, count


@pytest.mark.parametrize("batches, argument", [(1, 1), (2, 2), (2, -1), (2, 9)])
def test_only_tokens_with_a_weight_count(batches, argument):
    scores = TokenMetrics(lambda inputs, training: tf.constant(LOGITS), Data())(argument)
    loss, accuracy, count = expected(batches)
    assert scores["log_prob"] == pytest.approx(-loss, rel=1e-5)
    assert scores["perplexity"] == pytest.approx(math.exp(loss), rel=1e-5)
    assert scores["accuracy"] == pytest.approx(accuracy) and scores["tokens"] == count
