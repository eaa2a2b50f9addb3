"""Python functions as TensorFlow graphs, and data sets that end when they are done."""

import tensorflow as tf


def graph(function, *signature, **options):
    """The function, traced at its first call; AutoGraph would take longer than the tracing."""
    return tf.function(function, signature, autograph=False, **options)


def as_it_is(function):
    """The function for `map` of a data set, which would rewrite it by AutoGraph, for seconds."""
    return tf.autograph.experimental.do_not_convert(function)


def untuned(data):
    """A data set without tf.data's tuner: its thread sleeps for up to a minute, and the end waits.

    The number of parallel calls stays that of the cores.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return data.with_options(options)
