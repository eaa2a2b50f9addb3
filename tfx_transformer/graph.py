"""Python functions as TensorFlow graphs."""

import tensorflow as tf


def graph(function, *signature, **options):
    """The function, traced at its first call; AutoGraph would take longer than the tracing."""
    return tf.function(function, signature, autograph=False, **options)
