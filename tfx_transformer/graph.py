"""Python functions as TensorFlow graphs."""

import tensorflow as tf


def graph(function, *signature, **options):
    """The function, traced at its first call; AutoGraph would take longer than the tracing."""
    return tf.function(function, signature, autograph=False, **options)


def as_it_is(function):
    """The function for `map` of a data set, which would rewrite it by AutoGraph, for seconds."""
    return tf.autograph.experimental.do_not_convert(function)
