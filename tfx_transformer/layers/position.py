"""Position layers, called as `x = layer(x, start=0)` for positions start, start + 1, …

The class attribute `acts_on` is the kind of x:

    tokens  (B, T, D)     before the first block
    heads   (B, H, T, K)  queries and keys, inside attention
    scores  (B, H, T, S)  inside attention; keys have positions 0, 1, …
"""

import math

import keras
from keras import ops

from tfx_transformer.checks import check_above_zero, check_choice, check_positive
from tfx_transformer.config import Serializable
from tfx_transformer.registry import Registry


class TokenPosition(Serializable, keras.layers.Layer):
    """Base of absolute positions: a vector per position, combined with the token's.

    Args:
        combine: "add", or "concat" to append the position to the token: (B, T, D + P).
        project: whether to project the position to width D first.

    Call arguments:
        x: (B, T, D).
        start: the position of the first token.
        grid: (height, width) if x are the patches of an image, row by row; None for a square.
        table: the result of `precompute`, if there is one.
    """

    acts_on = "tokens"

    def __init__(self, combine="add", project=False, **kwargs):
        super().__init__(**kwargs)
        check_choice("add", "concat", combine=combine)

    def build(self, x_shape):
        if self.project:
            dim = x_shape[-1]
            self.projection = keras.layers.Dense(dim, dtype=self.dtype_policy, name="projection")
            self.projection.build((None, self.width(dim)))

    def call(self, x, start=0, grid=None, table=None):
        if table is None:
            position = self.encode(x, start, grid)  # (T, P)
        else:
            position = ops.slice(table, (start, 0), (ops.shape(x)[1], table.shape[-1]))
        position = ops.cast(position, x.dtype)
        if self.project:
            position = self.projection(position)
        if self.combine == "add":
            return x + position
        position = ops.broadcast_to(position, (*ops.shape(x)[:2], position.shape[-1]))
        return ops.concatenate([x, position], axis=-1)

    def precompute(self, length, dim):
        """The positions (length, P) of tokens of width `dim`, as `table` of later calls."""
        return self.encode(ops.zeros((1, length, dim), "float32"), 0, None)

    def width(self, dim):
        """P, the width of a position beside tokens of width `dim`."""
        return dim

    def encode(self, x, start, grid):
        """The positions (T, P) of the tokens x (B, T, D)."""
        raise NotImplementedError(f"{type(self).__name__} must implement encode(x, start, grid)")


class IndexPosition(TokenPosition):
    """The position's index times a learned vector; a baseline for comparison.

    Args:
        combine, project: as in `TokenPosition`; "add" needs `project`. combine="concat",
            project=False appends the index itself.
    """

    def __init__(self, combine="add", project=True, **kwargs):
        super().__init__(combine, project, **kwargs)
        if combine == "add" and not project:
            raise ValueError('project must be True with combine="add"; got project=False')

    def width(self, dim):
        return 1

    def encode(self, x, start, grid):
        return _positions(ops.shape(x)[1], start)[:, None]


class SinusoidalPosition(TokenPosition):
    """Sinusoidal positions, section 3.5 of arXiv:1706.03762: sin and cos of t/base^(2i/D).

    Args:
        layout: "interleaved", sines on even and cosines on odd dimensions (the paper), or "halves",
            all sines before all cosines (its first code).
        base: the longest wavelength is 2π·base.
        combine, project: as in `TokenPosition`.
    """

    def __init__(self, layout="interleaved", base=10_000, **kwargs):
        super().__init__(**kwargs)
        check_choice("interleaved", "halves", layout=layout)
        check_above_zero(base=base)

    def build(self, x_shape):
        super().build(x_shape)
        _check_multiple(2, "sinusoidal positions", x_shape)

    def encode(self, x, start, grid):
        angle = _angles(_positions(ops.shape(x)[1], start), x.shape[-1], self.base)  # (T, D/2)
        return _join(ops.sin(angle), ops.cos(angle), self.layout)


class SinCos2DPosition(TokenPosition):
    """2-D sinusoidal positions of image patches: [sin x, cos x, sin y, cos y].

    As in arXiv:2104.02057, section 5, and the plain ViT, arXiv:2205.01580: D/4 wavelengths from 2π
    to 2π·base, in equal ratios.

    Args:
        base: the longest wavelength is 2π·base.
        combine, project: as in `TokenPosition`.
    """

    def __init__(self, base=10_000, **kwargs):
        super().__init__(**kwargs)
        check_above_zero(base=base)

    def build(self, x_shape):
        super().build(x_shape)
        _check_multiple(4, "2-D sine-cosine positions", x_shape)

    def encode(self, x, start, grid):
        _, columns = _grid_of(x, start, grid)
        patch = _positions(ops.shape(x)[1], start)
        quarter = x.shape[-1] // 4
        frequency = self.base ** (-ops.arange(quarter, dtype="float32") / max(quarter - 1, 1))
        x_angle = (patch % columns)[:, None] * frequency  # (T, D/4)
        y_angle = (patch // columns)[:, None] * frequency
        waves = [ops.sin(x_angle), ops.cos(x_angle), ops.sin(y_angle), ops.cos(y_angle)]
        return ops.concatenate(waves, axis=-1)


class LearnedPosition(TokenPosition):
    """Learned position embedding (arXiv:1705.03122, section 3.1).

    Args:
        max_length: number of positions; a longer sequence is an error.
        grid: (height, width) if the positions are image patches, row by row; the table is then
            resized (bicubic) for images of another size.
        initializer: of the table.
        combine, project: as in `TokenPosition`.
    """

    def __init__(self, max_length, grid=None, initializer="random_normal", **kwargs):
        super().__init__(**kwargs)
        check_positive(max_length=max_length)
        if grid is not None and math.prod(grid) != max_length:
            raise ValueError(f"grid must have max_length={max_length} cells; got grid={grid}")

    def build(self, x_shape):
        super().build(x_shape)
        self.table = self.add_weight(
            shape=(self.max_length, x_shape[-1]), initializer=self.initializer, name="table"
        )

    def precompute(self, length, dim):
        """None: its weights are a table."""

    def encode(self, x, start, grid):
        length = ops.shape(x)[1]
        table = ops.convert_to_tensor(self.table)
        if self.grid is not None and (grid is not None or length != self.max_length):
            table = self.resize(table, _grid_of(x, start, grid))
        elif _known(start, length) and start + length > self.max_length:
            limit = f"max_length={self.max_length}"
            raise ValueError(f"the sequence must fit into {limit}; got length {start + length}")
        return ops.slice(table, (start, 0), (length, x.shape[-1]))

    def resize(self, table, grid):
        """The table resized to another grid: (height · width, D)."""
        if grid == tuple(self.grid):
            return table
        table = ops.reshape(ops.cast(table, "float32"), (*self.grid, -1))
        table = ops.image.resize(
            table, grid, interpolation="bicubic", antialias=True, data_format="channels_last"
        )
        return ops.reshape(table, (math.prod(grid), -1))


class RotaryPosition(Serializable, keras.layers.Layer):
    """Rotary positions (RoPE, arXiv:2104.09864): rotates pairs of features by t/base^(2i/K).

    Args:
        layout: pairs are features 2i and 2i + 1 ("interleaved", the paper) or i and i + K/2
            ("halves").
        base: the longest wavelength is 2π·base.
    """

    acts_on = "heads"

    def __init__(self, layout="interleaved", base=10_000, **kwargs):
        super().__init__(**kwargs)
        check_choice("interleaved", "halves", layout=layout)
        check_above_zero(base=base)

    def build(self, x_shape):
        _check_multiple(2, "rotary positions", x_shape)

    def call(self, x, start=0):
        angle = _angles(_positions(ops.shape(x)[-2], start), x.shape[-1], self.base)  # (T, K/2)
        cos, sin = ops.cast(ops.cos(angle), x.dtype), ops.cast(ops.sin(angle), x.dtype)
        if self.layout == "halves":
            a, b = ops.split(x, 2, axis=-1)  # (B, H, T, K/2)
        else:
            a, b = x[..., 0::2], x[..., 1::2]
        return _join(a * cos - b * sin, a * sin + b * cos, self.layout)


class RelativePosition(Serializable, keras.layers.Layer):
    """Relative position bias per head, added to the scores (T5, arXiv:1910.10683, section 2.1).

    Args:
        max_distance: larger distances, in each direction, share one bias.
    """

    acts_on = "scores"

    def __init__(self, max_distance=32, **kwargs):
        super().__init__(**kwargs)
        check_positive(max_distance=max_distance)

    def build(self, x_shape):
        self.table = self.add_weight(
            shape=(2 * self.max_distance + 1, x_shape[1]), initializer="zeros", name="table"
        )

    def call(self, x, start=0):
        query_length, key_length = ops.shape(x)[2:]
        query = ops.arange(query_length)[:, None] + start
        distance = ops.arange(key_length) - query  # (T, S)
        distance = ops.clip(distance, -self.max_distance, self.max_distance)
        bias = ops.take(self.table, distance + self.max_distance, axis=0)  # (T, S, H)
        return x + ops.transpose(bias, (2, 0, 1))


def _positions(length, start):
    """start, start + 1, …: (T,) in float32."""
    return ops.cast(ops.arange(length) + start, "float32")


def _angles(positions, width, base):
    """t/base^(2i/width) for i < width/2: (T,) → (T, width/2)."""
    frequency = base ** (-ops.arange(0, width, 2, dtype="float32") / width)
    return positions[:, None] * frequency


def _join(a, b, layout):
    """Two tensors (…, D/2) → (…, D), one after the other or interleaved."""
    if layout == "halves":
        return ops.concatenate([a, b], axis=-1)
    pairs = ops.stack([a, b], axis=-1)
    return ops.reshape(pairs, (*ops.shape(a)[:-1], 2 * a.shape[-1]))


def _grid_of(x, start, grid):
    """(height, width) of an image of patches x (B, N, D); by default a square."""
    length = x.shape[1]
    if grid is None:
        side = 0 if length is None else math.isqrt(length)
        if side * side != length:
            raise ValueError(
                "grid=(height, width) is needed if the patches do not form a square; "
                f"got {length} patches"
            )
        return side, side
    grid = tuple(grid)
    if _known(start, length) and start + length > math.prod(grid):
        raise ValueError(f"patches must fit into grid={grid}; got {start + length} patches")
    return grid


def _known(*sizes):
    return all(isinstance(size, int) for size in sizes)


def _check_multiple(number, what, shape):
    if shape[-1] % number:
        raise ValueError(f"{what} need a width divisible by {number}; got {shape[-1]}")


POSITION = Registry(
    "position",
    {
        "index": IndexPosition,
        "learned": LearnedPosition,
        "relative": RelativePosition,
        "rotary": RotaryPosition,
        "sincos_2d": SinCos2DPosition,
        "sinusoidal": SinusoidalPosition,
    },
)
