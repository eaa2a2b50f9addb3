"""Strategies, in new processes: devices are split before the first operation, and only once."""

import subprocess
import sys

import pytest

from tfx_transformer.training.strategy import choose_strategy

TWO = """
from tfx_transformer.runtime import import_tensorflow
import_tensorflow()
import sys
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
"""

REPLICAS = (
    TWO
    + """
import keras, numpy as np
from tfx_transformer.training.losses import TokenCrossentropy, normalize_weights
from tfx_transformer.models import create_model
from tfx_transformer.training.strategy import choose_strategy

strategy = choose_strategy(sys.argv[1])
keras.utils.set_random_seed(0)
with strategy.scope():
    model = create_model("transformer", "test", vocab_size=11, dropout=0.0)
    loss = TokenCrossentropy(0.1, reduction="sum")
    model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=False)
rng = np.random.default_rng(0)
source, target = rng.integers(1, 11, size=(4, 5)), rng.integers(1, 11, size=(4, 3))
weights = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 0, 0]], "float32")  # 5 tokens and 2

def normalize(inputs, targets, weights):
    return inputs, targets, normalize_weights(weights)

data = tf.data.Dataset.from_tensors(({"source": source, "target": target}, target, weights))
data = data.repeat(3).map(normalize)
losses = model.fit(data, epochs=2, shuffle=False, verbose=0).history["loss"]
total = sum(float(np.abs(w.numpy()).sum()) for w in model.trainable_weights)
print(strategy.num_replicas_in_sync, *losses, total)
"""
)


def run(code, *arguments):
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return [float(number) for number in result.stdout.split()]


def test_two_replicas_train_like_one():
    one, two = run(REPLICAS, "one"), run(REPLICAS, "mirrored")
    assert (one[0], two[0]) == (1, 2)
    assert two[1:] == pytest.approx(one[1:], rel=1e-5)


def test_unsupported_strategies_are_refused_with_the_reason():
    with pytest.raises(ValueError, match="unknown strategy 'cloud'; known: auto, one, mirrored"):
        choose_strategy("cloud")
    with pytest.raises(ValueError, match="'multiworker' is refused: fit of Keras 3 fails"):
        choose_strategy("multiworker")
    code = """
from tfx_transformer.training.strategy import check_strategy, choose_strategy
strategy = choose_strategy("mirrored")
for options in ((2, False), (1, True)):
    try:
        check_strategy(strategy, *options)
    except ValueError as error:
        print(1 if "works on one device only" in str(error) else 0)
"""
    assert run(TWO + code) == [1, 1]


def test_auto_is_one_device_if_there_is_only_one():
    assert choose_strategy("auto").num_replicas_in_sync == 1
