"""Distribution strategies: one device, several, several workers, or a TPU."""

import functools
import os

import tensorflow as tf

from tfx_transformer.checks import check_choice


@functools.cache
def choose_strategy(name: str = "auto") -> tf.distribute.Strategy:
    """The strategy of a name; "auto" is all GPUs if there are several, otherwise one device.

    Call it before any operation: "multiworker" connects to the workers in `TF_CONFIG`. Only one
    per process: TensorFlow's collectives fail with a second.
    """
    check_choice("auto", "one", "mirrored", "multiworker", "tpu", strategy=name)
    if name == "multiworker":
        if "TF_CONFIG" not in os.environ:
            raise ValueError(
                "strategy 'multiworker' needs the addresses of the workers in TF_CONFIG; "
                "see tfx-transformer launch --help"
            )
        tf.get_logger().setLevel("ERROR")  # exchanges of workers would be reported as retracing
        return tf.distribute.MultiWorkerMirroredStrategy()
    gpus = tf.config.list_logical_devices("GPU")
    if name == "one" or (name == "auto" and len(gpus) < 2):
        return tf.distribute.get_strategy()
    if name == "tpu":
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver()
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    found = gpus or tf.config.list_logical_devices("CPU")
    names = [device.name.rpartition("device:")[2] for device in found]
    devices = list(dict.fromkeys(names))  # of this process, if it is connected to others
    # on CPU the default, collectives, fails with several steps per execution
    operations = None if gpus else tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=operations)


def separate_seeds(strategy: tf.distribute.Strategy, model) -> None:
    """Give each replica random numbers of its own; call it once, after a checkpoint was restored.

    Each replica has its own copy of the states of Keras's seed generators. They start equal, so
    all replicas would drop the same units. Those of the first, which checkpoints store, stay.
    """
    states = [v.value for v in model.variables if v.name == "seed_generator_state"]

    def add_replica_number():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        for state in states:
            state.assign_add(tf.cast([number * 1_000_003, 0], state.dtype))

    if strategy.num_replicas_in_sync > 1:
        strategy.run(add_replica_number)
