"""Groups of rows of like length: only these share a batch, so that little is padded."""

import numpy as np
import tensorflow as tf

from tfx_transformer.serving.errors import TooLarge

TEXT_BYTES = (64, 256)  # longest texts of the groups; the last group has no limit
MIN_WIDTH, MAX_WIDTH = 16, 512  # of token ids, for a model that states no length


class Lengths:
    """The groups of one signature.

    Texts are grouped by their length in bytes. Token ids (B, ?) are padded with 0 to few widths,
    each of which is a group: the kernel can only concatenate rows of equal width. Everything else,
    such as images, is one group.

    Args:
        inputs: specifications by name.
        max_length: maximum width of token ids.
    """

    def __init__(self, inputs: dict[str, tf.TensorSpec], max_length: int | None):
        self.ids = [name for name, spec in inputs.items() if spec.shape.as_list()[1:] == [None]]
        self.is_text = "text" in inputs
        longest = max_length or MAX_WIDTH
        widths = [MIN_WIDTH << i for i in range(16) if MIN_WIDTH << i < longest]
        self.widths = [*widths, longest]
        self.groups: list[int] = [0]
        if self.ids:
            self.groups = list(self.widths)
        elif self.is_text:
            self.groups = list(range(len(TEXT_BYTES) + 1))

    def group(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """The group of each row (B,)."""
        rows = len(next(iter(arrays.values())))
        if self.ids:
            width = max(arrays[name].shape[1] for name in self.ids)
            if width > self.widths[-1]:
                name = self.ids[0]
                raise TooLarge(f"{name} must have at most {self.widths[-1]} columns; got {width}")
            return np.full(rows, next(size for size in self.widths if size >= width))
        if self.is_text:
            return np.searchsorted(TEXT_BYTES, [len(text) for text in arrays["text"]])
        return np.zeros(rows, int)

    def pad(self, arrays: dict[str, np.ndarray], group: int) -> dict[str, np.ndarray]:
        """Token ids as wide as their group."""
        padded = {}
        for name in self.ids:
            x = arrays[name]  # (B, T)
            padded[name] = np.pad(x, ((0, 0), (0, group - x.shape[1])))
        return arrays | padded
