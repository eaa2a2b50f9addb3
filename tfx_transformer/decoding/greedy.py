"""Greedy decoding: the likeliest token, each time."""

from dataclasses import dataclass

from keras import ops

from tfx_transformer.decoding.decoder import Decoder
from tfx_transformer.decoding.walk import walk


@dataclass(frozen=True)
class GreedyDecoder(Decoder):
    """Takes the likeliest token at each step; n_best is 1 and the score is the log-probability.

    Arguments, call and returns as in `decoder.py`.
    """

    def search(self, task):
        return walk(self, task, lambda allowed, index: ops.argmax(allowed, axis=-1))
