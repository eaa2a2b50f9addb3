"""What comes before the first import of TensorFlow."""

from tfx_transformer.memory import keep_memory
from tfx_transformer.quiet import import_tensorflow


def start_tensorflow() -> None:
    """Without its notes, and with memory that is kept."""
    keep_memory()
    import_tensorflow()
