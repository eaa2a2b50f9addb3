"""The Transformer block, section 3.1 of arXiv:1706.03762."""

import keras
from keras import ops

from tfx_transformer.checks import check_above_zero, check_positive, check_rate
from tfx_transformer.config import Serializable
from tfx_transformer.layers.attention import ATTENTION
from tfx_transformer.layers.attention.base import AttendMixin, pack_results
from tfx_transformer.layers.drop_path import DropPath
from tfx_transformer.layers.dropout import Dropout
from tfx_transformer.layers.feed_forward import FeedForward
from tfx_transformer.layers.masks import expand_mask
from tfx_transformer.layers.norm import NORM


class ResidualBlock(AttendMixin, Serializable, keras.layers.Layer):
    """Base of blocks: `mix` combines positions, then a feed-forward; each with a norm and residual.

    A subclass defines `mix(x, training) -> output, attention scores` and builds its layers. The
    arguments are those of `TransformerBlock`.
    """

    def __init__(
        self,
        mlp_dim,
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
        check_rate(dropout=dropout, drop_path=drop_path)
        if layer_scale is not None:
            check_above_zero(layer_scale=layer_scale)
        shared = {"dtype": self.dtype_policy}
        self.self_norm = NORM.make(norm, name="self_norm", **shared)
        self.mlp_norm = NORM.make(norm, name="mlp_norm", **shared)
        self.mlp = FeedForward(mlp_dim, activation, initializer=initializer, name="mlp", **shared)
        self.drop = Dropout(dropout, name="drop", **shared)
        self.drop_path_layer = DropPath(drop_path, name="drop_path", **shared)

    def build(self, x_shape):
        for layer in (self.self_norm, self.mlp_norm, self.mlp):
            layer.build(x_shape)
        self.self_scale = self.add_scale("self_scale", x_shape)
        self.mlp_scale = self.add_scale("mlp_scale", x_shape)

    def add_scale(self, name, x_shape):
        if self.layer_scale is None:
            return None
        initializer = keras.initializers.Constant(self.layer_scale)
        return self.add_weight(shape=x_shape[-1:], initializer=initializer, name=name)

    def call(self, x, return_attention_scores=False, training=None):
        y = self.before(self.self_norm, x, training=training)
        y, scores = self.mix(y, training)
        x = self.after(self.self_norm, x, y, self.self_scale, training=training)
        x = self.feed_forward(x, training=training)
        return pack_results(x, scores, None, return_attention_scores)

    def feed_forward(self, x, token_mask=None, training=None):
        y = self.before(self.mlp_norm, x, token_mask, training)
        y = self.mlp(y, training=training)
        return self.after(self.mlp_norm, x, y, self.mlp_scale, token_mask, training)

    def before(self, norm, x, token_mask=None, training=None):
        """The input of a sub-layer: x, normalized if the norm comes first."""
        return norm(x, token_mask=token_mask, training=training) if self.norm_first else x

    def after(self, norm, x, y, scale, token_mask=None, training=None):
        """x plus the output y of a sub-layer, normalized if the norm comes last."""
        y = y if scale is None else y * ops.cast(scale, y.dtype)
        x = x + self.drop_path_layer(self.drop(y, training=training), training=training)
        return x if self.norm_first else norm(x, token_mask=token_mask, training=training)


class TransformerBlock(ResidualBlock):
    """Transformer block: self-attention, optional cross-attention, feed-forward; with residuals.

    Args:
        dim: D.
        num_heads: H; divides `dim`.
        mlp_dim: F.
        attention: a name in ATTENTION, or a dict such as {"kind": "local", "window": 5}.
        cross_attention: None for an encoder block; a name or dict as above to attend to a context.
        activation: of the feed-forward; see `FeedForward`.
        norm: a name in NORM, or a dict such as {"kind": "layer", "epsilon": 1e-12}.
        norm_first: normalize the input of each sub-layer (pre-norm, arXiv:2002.04745), or the sum
            after it (post-norm, the 2017 paper).
        dropout: rate on the output of each sub-layer, in training.
        drop_path: rate at which a sub-layer is skipped for a whole example, in training.
        layer_scale: initial value of a learned factor per feature on the output of each sub-layer
            (LayerScale, arXiv:2103.17239); None for no factors.
        initializer: of all kernels.

    Call arguments:
        x: (B, T, D).
        context: (B, S, D), or the result of `precompute`; only with cross-attention.
        attention_mask: of self-attention; boolean, True = may attend: (B, T), (B, T, T) or
            broadcastable to (B, H, T, T).
        cross_mask: of cross-attention; boolean, (B, S), (B, T, S) or broadcastable to
            (B, H, T, S).
        token_mask: boolean (B, T), True at real tokens; only batch norm uses it.
        return_attention_scores: whether to return the attention scores too.
        cache: of self-attention, from `empty_cache`, for step-by-step decoding.
        index: the position of x's first token.

    Returns:
        The output (B, T, D); with `return_attention_scores` also the scores {"self": (B, H, T, T),
        "cross": (B, H, T, S)}; with `cache` also the new cache, last. `attend` always returns these
        three.
    """

    def __init__(
        self, dim, num_heads, mlp_dim, attention="multi_head", cross_attention=None, **kwargs
    ):
        super().__init__(mlp_dim, **kwargs)
        check_positive(dim=dim, num_heads=num_heads)
        heads = {"dim": dim, "num_heads": num_heads, "initializer": self.initializer}
        shared = heads | {"dtype": self.dtype_policy}
        self.self_attention = ATTENTION.make(attention, name="self_attention", **shared)
        if cross_attention is not None:
            self.cross_norm = NORM.make(self.norm, name="cross_norm", dtype=self.dtype_policy)
            self.context_attention = ATTENTION.make(
                cross_attention, name="cross_attention", **shared
            )

    def build(self, x_shape, context_shape=None):
        if x_shape[-1] != self.dim:
            raise ValueError(f"x must be dim={self.dim} wide; got shape {tuple(x_shape)}")
        self.self_attention.build(x_shape)
        if self.cross_attention is not None:
            self.cross_norm.build(x_shape)
            self.context_attention.build(x_shape, context_shape)
            self.cross_scale = self.add_scale("cross_scale", x_shape)
        super().build(x_shape)

    def call(
        self,
        x,
        context=None,
        attention_mask=None,
        cross_mask=None,
        token_mask=None,
        return_attention_scores=False,
        cache=None,
        index=0,
        training=None,
    ):
        if (context is None) != (self.cross_attention is None):
            raise ValueError(
                "context must be given if and only if the block has cross-attention; got "
                f"cross_attention={self.cross_attention!r} and context "
                + ("None" if context is None else "given")
            )

        options = {"token_mask": token_mask, "training": training}
        y = self.before(self.self_norm, x, **options)
        y, self_scores, new_cache = self.self_attention.attend(
            y, attention_mask=attention_mask, cache=cache, index=index, training=training
        )
        x = self.after(self.self_norm, x, y, self.self_scale, **options)
        scores = {"self": self_scores}

        if self.cross_attention is not None:
            y = self.before(self.cross_norm, x, **options)
            length = context[0].shape[2] if isinstance(context, tuple | list) else context.shape[1]
            shape = (x.shape[0], self.num_heads, x.shape[1], length)
            cross_mask = expand_mask(cross_mask, shape, "cross_mask")
            y, scores["cross"], _ = self.context_attention.attend(
                y, context, attention_mask=cross_mask, index=index, training=training
            )
            x = self.after(self.cross_norm, x, y, self.cross_scale, **options)

        x = self.feed_forward(x, **options)
        return pack_results(x, scores, new_cache or None, return_attention_scores)

    def precompute(self, context):
        """(B, S, D) → its keys and values; pass them as `context` to compute them only once."""
        if self.cross_attention is None:
            raise ValueError("precompute needs cross-attention; got cross_attention=None")
        return self.context_attention.precompute(context)

    def empty_cache(self, batch_size, max_length, grow=False):
        """The cache of self-attention, see `Attention.empty_cache`."""
        return self.self_attention.empty_cache(batch_size, max_length, grow)
