"""Decoding: greedy, beam search and sampling over any model's `step`."""

from tfx_transformer.decoding.beam import BeamDecoder
from tfx_transformer.decoding.decoder import Decoder
from tfx_transformer.decoding.greedy import GreedyDecoder
from tfx_transformer.decoding.sampling import SamplingDecoder
from tfx_transformer.registry import Registry

DECODERS = Registry(
    "decoder", {"beam": BeamDecoder, "greedy": GreedyDecoder, "sample": SamplingDecoder}
)

__all__ = ["DECODERS", "BeamDecoder", "Decoder", "GreedyDecoder", "SamplingDecoder"]
