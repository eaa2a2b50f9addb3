"""Greedy decoding."""

from dataclasses import dataclass

from keras import ops

from tfx_transformer.decoding.decoder import Decoder
from tfx_transformer.decoding.rows import decode_rows


@dataclass(frozen=True)
class GreedyDecoder(Decoder):
    """Greedy decoding: the most likely token at each step.

    n_best is 1 and the score is the log-probability. Arguments, call and returns: see `Decoder`.
    """

    def search(self, call):
        return decode_rows(self, call, lambda allowed, index: ops.argmax(allowed, axis=-1))
