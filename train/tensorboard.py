"""A run's numbers for TensorBoard: `tensorboard --logdir runs` shows runs side by side."""

from pathlib import Path

import tensorflow as tf

# what makes TensorBoard draw a curve; its own package, which would add this, is not needed to write
SCALAR = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
)


class Board:
    """Writes event files into a folder.

    Args:
        folder: `tensorboard` in a run folder.
    """

    def __init__(self, folder: Path):
        self.writer = tf.summary.create_file_writer(str(folder))

    def add(self, step: int, **numbers: float) -> None:
        with self.writer.as_default():
            for name, value in numbers.items():
                tf.summary.write(name, tf.constant(value, tf.float32), step, metadata=SCALAR)
        self.writer.flush()
