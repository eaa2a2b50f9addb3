"""Reusable Keras layers: attention, positions, embeddings, norms and the Transformer block."""

from tfx_transformer.layers.attention import ATTENTION
from tfx_transformer.layers.attention.additive import AdditiveAttention
from tfx_transformer.layers.attention.bilinear import BilinearAttention
from tfx_transformer.layers.attention.dot import DotAttention
from tfx_transformer.layers.attention.grouped_query import GroupedQueryAttention
from tfx_transformer.layers.attention.hard import HardAttention
from tfx_transformer.layers.attention.local import LocalAttention
from tfx_transformer.layers.attention.multi_head import MultiHeadAttention
from tfx_transformer.layers.attention.neighborhood import NeighborhoodAttention
from tfx_transformer.layers.attention.window import WindowAttention
from tfx_transformer.layers.block import TransformerBlock
from tfx_transformer.layers.convolution import SequenceConv
from tfx_transformer.layers.drop_path import DropPath
from tfx_transformer.layers.embedding import ClassToken, PatchEmbedding, TokenEmbedding
from tfx_transformer.layers.feed_forward import ACTIVATION, FeedForward
from tfx_transformer.layers.masks import causal_mask, combine_masks, local_mask, padding_mask
from tfx_transformer.layers.norm import NORM, BatchNorm, LayerNorm, RMSNorm
from tfx_transformer.layers.position import (
    POSITION,
    IndexPosition,
    LearnedPosition,
    RelativePosition,
    RotaryPosition,
    SinCos2DPosition,
    SinusoidalPosition,
)

__all__ = [
    "ACTIVATION",
    "ATTENTION",
    "NORM",
    "POSITION",
    "AdditiveAttention",
    "BatchNorm",
    "BilinearAttention",
    "ClassToken",
    "DotAttention",
    "DropPath",
    "FeedForward",
    "GroupedQueryAttention",
    "HardAttention",
    "IndexPosition",
    "LayerNorm",
    "LearnedPosition",
    "LocalAttention",
    "MultiHeadAttention",
    "NeighborhoodAttention",
    "PatchEmbedding",
    "RMSNorm",
    "RelativePosition",
    "RotaryPosition",
    "SequenceConv",
    "SinCos2DPosition",
    "SinusoidalPosition",
    "TokenEmbedding",
    "TransformerBlock",
    "WindowAttention",
    "causal_mask",
    "combine_masks",
    "local_mask",
    "padding_mask",
]
