"""Metrics of a run for TensorBoard: `tensorboard --logdir runs`."""

import functools
from pathlib import Path

import tensorflow as tf

# marks a curve; with it the package tensorboard is not needed for writing
SCALAR = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
)


class TensorBoardLog:
    """Writes metrics as TensorBoard event files."""

    def __init__(self, folder: Path):
        self.folder = folder

    @functools.cached_property
    def writer(self):
        return tf.summary.create_file_writer(str(self.folder))

    def add(self, step: int, **metrics: float) -> None:
        with self.writer.as_default():
            for name, value in metrics.items():
                tf.summary.write(name, tf.constant(value, tf.float32), step, metadata=SCALAR)
        self.writer.flush()
