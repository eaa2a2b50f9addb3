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


def at_least_one(function, images):
    """function(images) for images (B, …), also for none, with which some convolutions fail."""
    count = tf.shape(images)[0]
    spare = tf.cast(count == 0, tf.int32)
    rest = [[0, 0]] * (len(images.shape) - 1)
    return function(tf.pad(images, [[0, spare], *rest]))[:count]
