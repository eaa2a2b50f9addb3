"""The Transformer block, section 3.1 of arXiv:1706.03762."""

import keras
from keras import ops

from tfx_transformer.checks import check_above_zero, check_positive, check_rate
from tfx_transformer.config import Configured
from tfx_transformer.layers.attention import ATTENTION
from tfx_transformer.layers.drop_path import DropPath
from tfx_transformer.layers.feed_forward import FeedForward
from tfx_transformer.layers.norm import NORM


class TransformerBlock(Configured, keras.layers.Layer):
    """Self-attention, cross-attention if asked for, feed-forward; each with a residual and a norm.

    Args:
        dim: D.
        num_heads: H; divides `dim`.
        mlp_dim: F.
        attention: a name in ATTENTION, or a dict such as {"kind": "local", "window": 5}.
        cross_attention: None for an encoder block; a name or dict as above to read a context.
        activation: of the feed-forward; see `FeedForward`.
        norm: a name in NORM, or a dict such as {"kind": "layer", "epsilon": 1e-12}.
        norm_first: normalise what enters a sub-layer (arXiv:2002.04745), or what leaves its
            residual (the 2017 paper).
        dropout: rate on what a sub-layer adds, in training.
        drop_path: rate at which a sub-layer is skipped for a whole example, in training.
        layer_scale: with what a learned factor of each feature that a sub-layer adds begins
            (arXiv:2103.17239); None has no factors.
        initializer: of all kernels.

    Call arguments:
        x: (B, T, D).
        context: (B, S, D), or what `prepare` made of it; only with cross-attention.
        attention_mask: of self-attention: boolean, broadcastable to (B, H, T, T).
        cross_mask: of cross-attention: boolean, broadcastable to (B, H, T, S). (Keras would fill
            an argument named context_mask by itself.)
        token_mask: boolean (B, T), True at real tokens; only batch norm asks.
        cache: of self-attention, from `empty_cache`, for step-by-step decoding.
        index: the position of x's first token.

    Returns:
        The output (B, T, D), the weights {"self": (B, H, T, T), "cross": (B, H, T, S)} and the new
        cache, () without one.
    """

    def __init__(
        self,
        dim,
        num_heads,
        mlp_dim,
        attention="multi_head",
        cross_attention=None,
        activation="gelu",
        norm="layer",
        norm_first=True,
        dropout=0.0,
        drop_path=0.0,
        layer_scale=None,
        initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(dim=dim, num_heads=num_heads, mlp_dim=mlp_dim)
        check_rate(dropout=dropout, drop_path=drop_path)
        self.dim, self.num_heads, self.mlp_dim = dim, num_heads, mlp_dim
        self.attention, self.cross_attention = attention, cross_attention
        self.activation, self.norm, self.norm_first = activation, norm, norm_first
        if layer_scale is not None:
            check_above_zero(layer_scale=layer_scale)
        self.dropout, self.drop_path, self.initializer = dropout, drop_path, initializer
        self.layer_scale = layer_scale
        self.self_scale = self.cross_scale = self.mlp_scale = None

        def make(registry, spec, name, **shared):
            return registry.make(spec, dtype=self.dtype_policy, name=name, **shared)

        heads = {"dim": dim, "num_heads": num_heads, "initializer": initializer}
        self.self_norm = make(NORM, norm, "self_norm")
        self.self_attention = make(ATTENTION, attention, "self_attention", **heads)
        if cross_attention is not None:
            self.cross_norm = make(NORM, norm, "cross_norm")
            self.context_attention = make(ATTENTION, cross_attention, "cross_attention", **heads)
        self.mlp_norm = make(NORM, norm, "mlp_norm")
        self.mlp = FeedForward(
            mlp_dim, activation, initializer=initializer, dtype=self.dtype_policy, name="mlp"
        )
        self.drop = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="drop")
        self.skip = DropPath(drop_path, dtype=self.dtype_policy, name="skip")

    def build(self, x_shape, context_shape=None):
        if x_shape[-1] != self.dim:
            raise ValueError(f"x must be dim={self.dim} wide; got x {tuple(x_shape)}")
        for norm in (self.self_norm, self.mlp_norm):
            norm.build(x_shape)
        self.self_attention.build(x_shape)
        if self.cross_attention is not None:
            self.cross_norm.build(x_shape)
            self.context_attention.build(x_shape, context_shape)
        self.mlp.build(x_shape)
        if self.layer_scale is not None:
            self.self_scale, self.mlp_scale = self.add_scale("self"), self.add_scale("mlp")
            if self.cross_attention is not None:
                self.cross_scale = self.add_scale("cross")

    def add_scale(self, name):
        begin = keras.initializers.Constant(self.layer_scale)
        return self.add_weight(shape=(self.dim,), initializer=begin, name=f"{name}_scale")

    def call(
        self,
        x,
        context=None,
        attention_mask=None,
        cross_mask=None,
        token_mask=None,
        cache=None,
        index=0,
        training=None,
    ):
        if (context is None) != (self.cross_attention is None):
            raise ValueError(
                "context and cross_attention go together; "
                f"got cross_attention={self.cross_attention!r} and context "
                + ("None" if context is None else "given")
            )

        def norm(layer, x, first):
            if first != self.norm_first:
                return x
            return layer(x, token_mask=token_mask, training=training)

        def drop(x, scale):
            x = x if scale is None else x * ops.cast(scale, x.dtype)
            return self.skip(self.drop(x, training=training), training=training)

        y = norm(self.self_norm, x, first=True)
        y, self_weights, cache = self.self_attention(
            y, attention_mask=attention_mask, cache=cache, index=index, training=training
        )
        x = norm(self.self_norm, x + drop(y, self.self_scale), first=False)
        weights = {"self": self_weights}

        if self.cross_attention is not None:
            y = norm(self.cross_norm, x, first=True)
            y, weights["cross"], _ = self.context_attention(
                y, context, attention_mask=cross_mask, index=index, training=training
            )
            x = norm(self.cross_norm, x + drop(y, self.cross_scale), first=False)

        y = norm(self.mlp_norm, x, first=True)
        y = self.mlp(y, training=training)
        x = norm(self.mlp_norm, x + drop(y, self.mlp_scale), first=False)
        return x, weights, cache

    def prepare(self, context):
        """(B, S, D) → its keys and values: pass them as `context` to compute them only once."""
        if self.cross_attention is None:
            raise ValueError("prepare needs cross-attention; got cross_attention=None")
        return self.context_attention.prepare(context)

    def empty_cache(self, batch_size, max_length):
        """Room for the keys and values of `max_length` positions of self-attention."""
        return self.self_attention.empty_cache(batch_size, max_length)
