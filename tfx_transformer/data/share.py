"""The part of each batch that one of several workers builds."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Share:
    """An equal part of the rows of each batch; by default all of them.

    Batches do not depend on the number of workers and replicas: a batch that these do not divide is
    filled up with rows of weight 0.

    Args:
        index: of the worker.
        workers: how many there are.
        replicas: of all workers together, as many in each.
    """

    index: int = 0
    workers: int = 1
    replicas: int = 1

    @property
    def local_replicas(self) -> int:
        return self.replicas // self.workers

    def size(self, rows: int) -> int:
        """The number of rows of a share."""
        return -(-rows // self.replicas) * self.local_replicas  # rounded up

    def of(self, rows: np.ndarray, empty: int) -> np.ndarray:
        """The own rows of a batch (B,), filled up with `empty`."""
        size = self.size(len(rows))
        spare = size * self.workers - len(rows)
        padded = np.pad(rows, (0, spare), constant_values=empty) if spare else rows
        return padded[self.index * size : (self.index + 1) * size]
