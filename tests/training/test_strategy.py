"""Strategies, in new processes: devices are split before the first operation, and only once."""

import subprocess
import sys

import pytest
import tensorflow as tf

from tfx_transformer.training.strategy import choose_strategy

TWO = """
from tfx_transformer.runtime import import_tensorflow
import_tensorflow()
import sys
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
"""


def run(code, *arguments):
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return [float(number) for number in result.stdout.split()]


SEEDS = (
    TWO
    + """
import keras, numpy as np
from tfx_transformer.models import create_model
from tfx_transformer.training.strategy import choose_strategy, separate_seeds

strategy = choose_strategy("mirrored")
images, tokens = np.ones((4, 32, 32, 3), "float32"), np.arange(1, 13).reshape(4, 3)
sizes = {"vocab_size": 13, "dropout": 0.0}
MODELS = {
    "transformer": (sizes | {"dropout": 0.5}, {"source": tokens, "target": tokens}),
    "vit": ({"num_classes": 3, "image_size": 32, "drop_path": 0.5, "depth": 3}, images),
    "show_attend_tell": (sizes | {"hard": True}, {"image": images, "target": tokens}),
}

def outputs(model, inputs, strategy):
    results = strategy.run(lambda: model(inputs, training=True))
    return [x.numpy() for x in strategy.experimental_local_results(results)]

for name, (options, inputs) in MODELS.items():
    models = []
    for scope in (strategy.scope, tf.device):
        keras.utils.set_random_seed(0)
        with scope(*["CPU:0"] if scope is tf.device else []):
            models.append(create_model(name, "test", **options))
    separate_seeds(strategy, models[0])
    separate_seeds(tf.distribute.get_strategy(), models[1])
    for _ in range(2):
        first, second = outputs(models[0], inputs, strategy)
        (one,) = outputs(models[1], inputs, tf.distribute.get_strategy())
        print(np.abs(first - one).max(), np.abs(first - second).max())
"""
)


def test_replicas_have_random_numbers_of_their_own_and_the_first_those_of_one_device():
    numbers = run(SEEDS)
    to_one_device, between_replicas = numbers[::2], numbers[1::2]
    assert len(numbers) == 12 and max(to_one_device) < 1e-5 and min(between_replicas) > 1e-3


OVERFLOW = (
    TWO
    + """
import keras, types
from tfx_transformer.training.callbacks import StopAtNaN
from tfx_transformer.training.optimizer import FusedAdam, LossScaling
from tfx_transformer.training.strategy import choose_strategy

strategy = choose_strategy("mirrored")
with strategy.scope():
    weight = keras.Variable([2.0, 3.0])
    optimizer = LossScaling(FusedAdam(0.1), initial_scale=8.0)
    optimizer.build([weight])

@tf.function
def update(limit):
    def replica():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        gradient = tf.where(number < limit, 1.0, float("inf"))
        optimizer.apply([tf.fill([2], gradient)], [weight])
    strategy.run(replica)

for limit in (1, 2):  # an overflow on the second replica, then none
    update(tf.constant(limit))
    print(*weight.numpy(), optimizer.dynamic_scale.numpy())

callback = StopAtNaN()
callback.set_model(types.SimpleNamespace(optimizer=optimizer))
try:
    callback.on_train_batch_end(0, {"loss": float("nan")})
except FloatingPointError as error:
    print(1 if "nan at step 1;" in str(error) else 0)
"""
)


def test_an_overflow_on_one_replica_skips_the_update_of_all():
    skipped, updated = [2, 3, 4], [1.9, 2.9, 4]  # the weights, and half of the scale
    *numbers, stops_at_nan = run(OVERFLOW)
    assert numbers == pytest.approx(skipped + updated, rel=1e-5) and stops_at_nan


def test_unsupported_strategies_are_refused_with_the_reason():
    with pytest.raises(ValueError, match="unknown strategy 'cloud'; known: auto, one, mirrored"):
        choose_strategy("cloud")
    with pytest.raises(
        ValueError, match="'multiworker' needs the addresses of the workers in TF_C"
    ):
        choose_strategy("multiworker")


def test_a_tpu_is_connected_and_initialized_before_it_is_used(monkeypatch):
    calls = []

    def record(name, result=None):
        def call(*arguments):
            calls.append((name, *arguments))
            return result

        return call

    resolvers, experimental = tf.distribute.cluster_resolver, tf.tpu.experimental
    monkeypatch.setattr(resolvers, "TPUClusterResolver", record("resolve", "resolver"))
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", record("connect"))
    monkeypatch.setattr(experimental, "initialize_tpu_system", record("initialize"))
    monkeypatch.setattr(tf.distribute, "TPUStrategy", record("use", "strategy"))
    assert choose_strategy.__wrapped__("tpu") == "strategy"
    names = ("connect", "initialize", "use")
    assert calls == [("resolve",), *((name, "resolver") for name in names)]


def test_auto_is_one_device_if_there_is_only_one():
    assert choose_strategy("auto").num_replicas_in_sync == 1
