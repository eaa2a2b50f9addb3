"""Positions: attention is a function of a set until it is told about order.

One call for all kinds, which says what there is to know of positions start, start + 1, …:

    x = layer(x, start=0)

The class attribute `acts_on` tells what x is, and so where the layer belongs:

    tokens  (B, T, D)     before the first block
    heads   (B, H, T, K)  queries and keys, inside attention
    scores  (B, H, T, S)  inside attention; the keys stand at 0, 1, …
"""

import math

import keras
from keras import ops

from tfx_transformer.checks import check_above_zero, check_choice, check_positive
from tfx_transformer.config import Configured
from tfx_transformer.registry import Registry


class TokenPosition(Configured, keras.layers.Layer):
    """A vector for each position, joined to the token's. Subclasses `encode` the positions.

    Args:
        combine: "add", or "concat" to append the position to the token: (B, T, D + P).
        project: whether a learned layer brings the position to width D first.

    Call arguments:
        x: (B, T, D).
        start: the first token's position.
        grid: (height, width) where x are the patches of an image, row by row; None is a square.
            Only the kinds that know images look at it.
    """

    acts_on = "tokens"

    def __init__(self, combine="add", project=False, **kwargs):
        super().__init__(**kwargs)
        check_choice("add", "concat", combine=combine)
        self.combine, self.project = combine, project

    def build(self, x_shape):
        if self.project:
            self.projection = keras.layers.Dense(
                x_shape[-1], dtype=self.dtype_policy, name="projection"
            )
            self.projection.build((None, self.width(x_shape[-1])))

    def call(self, x, start=0, grid=None):
        position = ops.cast(self.encode(x, start, grid), x.dtype)  # (T, P)
        if self.project:
            position = self.projection(position)
        if self.combine == "add":
            return x + position
        position = ops.broadcast_to(position, (*ops.shape(x)[:2], position.shape[-1]))
        return ops.concatenate([x, position], axis=-1)

    def width(self, dim):
        """P, the width of a position beside tokens of width `dim`."""
        return dim

    def encode(self, x, start, grid):
        """The positions (T, P) of the tokens x (B, T, D)."""
        raise TypeError(f"{type(self).__name__} does not say how to encode positions")


class IndexPosition(TokenPosition):
    """The step number itself, times a learned vector: the naive idea, unbounded, for comparison.

    Args:
        combine, project: as in `TokenPosition`; adding needs `project`. The bare number is appended
            with combine="concat", project=False.
    """

    def __init__(self, combine="add", project=True, **kwargs):
        super().__init__(combine, project, **kwargs)
        if combine == "add" and not project:
            raise ValueError("a step number can be added only with project=True; got project=False")

    def width(self, dim):
        return 1

    def encode(self, x, start, grid):
        return _positions(ops.shape(x)[1], start)[:, None]


class SinusoidalPosition(TokenPosition):
    """sin(t/base^(2i/D)) and cos(t/base^(2i/D)), section 3.5 of arXiv:1706.03762.

    Args:
        layout: "interleaved" has sines on even and cosines on odd dimensions (the paper's
            formula), "halves" all sines left of all cosines (its first code).
        base: the longest wave is 2π·base long.
        combine, project: as in `TokenPosition`.
    """

    def __init__(self, layout="interleaved", base=10_000, combine="add", project=False, **kwargs):
        super().__init__(combine, project, **kwargs)
        check_choice("interleaved", "halves", layout=layout)
        check_above_zero(base=base)
        self.layout, self.base = layout, base

    def build(self, x_shape):
        super().build(x_shape)
        _check_multiple(2, "sinusoidal positions", x_shape)

    def encode(self, x, start, grid):
        angle = _angles(_positions(ops.shape(x)[1], start), x.shape[-1], self.base)  # (T, D/2)
        return _join(ops.sin(angle), ops.cos(angle), self.layout)


class SinCos2DPosition(TokenPosition):
    """Sines and cosines of a patch's column and row, [sin x, cos x, sin y, cos y].

    The fixed positions of arXiv:2104.02057, section 5, and of the plain ViT, arXiv:2205.01580; the
    waves grow from 2π to 2π·base in D/4 equal factors.

    Args:
        base: the longest wave is 2π·base long.
        combine, project: as in `TokenPosition`.
    """

    def __init__(self, base=10_000, combine="add", project=False, **kwargs):
        super().__init__(combine, project, **kwargs)
        check_above_zero(base=base)
        self.base = base

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
    """A learned vector for each position (arXiv:1705.03122, section 3.1).

    Args:
        max_length: how many positions there are; a longer sequence is an error.
        grid: (height, width) if the positions are the patches of an image, row by row; the table
            is then resized (bicubic) for an image of another size.
        initializer: of the table.
        combine, project: as in `TokenPosition`.
    """

    def __init__(
        self,
        max_length,
        grid=None,
        initializer="random_normal",
        combine="add",
        project=False,
        **kwargs,
    ):
        super().__init__(combine, project, **kwargs)
        check_positive(max_length=max_length)
        if grid is not None and math.prod(grid) != max_length:
            raise ValueError(f"grid must have max_length={max_length} cells; got grid={grid}")
        self.max_length, self.grid, self.initializer = max_length, grid, initializer

    def build(self, x_shape):
        super().build(x_shape)
        self.table = self.add_weight(
            shape=(self.max_length, x_shape[-1]), initializer=self.initializer, name="table"
        )

    def encode(self, x, start, grid):
        length = ops.shape(x)[1]
        table = ops.convert_to_tensor(self.table)
        if self.grid is not None and (grid is not None or length != self.max_length):
            table = self.resize(table, _grid_of(x, start, grid))
        elif _known(start, length) and start + length > self.max_length:
            raise ValueError(
                f"the sequence reaches length {start + length}, but max_length={self.max_length}"
            )
        return ops.slice(table, (start, 0), (length, x.shape[-1]))

    def resize(self, table, grid):
        """The table for the patches of an image of another size: (height · width, D)."""
        if grid == tuple(self.grid):
            return table
        table = ops.reshape(ops.cast(table, "float32"), (*self.grid, -1))
        table = ops.image.resize(
            table, grid, interpolation="bicubic", antialias=True, data_format="channels_last"
        )
        return ops.reshape(table, (math.prod(grid), -1))


class RotaryPosition(Configured, keras.layers.Layer):
    """Turns pairs of features by an angle that grows with the position (arXiv:2104.09864).

    The product of a query and a key then depends on their distance alone.

    Args:
        layout: the pairs are neighbours ("interleaved", the paper) or i and i + K/2 ("halves").
        base: the slowest pair turns once in 2π·base steps.
    """

    acts_on = "heads"

    def __init__(self, layout="interleaved", base=10_000, **kwargs):
        super().__init__(**kwargs)
        check_choice("interleaved", "halves", layout=layout)
        check_above_zero(base=base)
        self.layout, self.base = layout, base

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


class RelativePosition(Configured, keras.layers.Layer):
    """A learned number for each head and distance, added to the score (arXiv:1910.10683, 2.1).

    Args:
        max_distance: distances beyond it, either way, share one number.
    """

    acts_on = "scores"

    def __init__(self, max_distance=32, **kwargs):
        super().__init__(**kwargs)
        check_positive(max_distance=max_distance)
        self.max_distance = max_distance

    def build(self, x_shape):
        self.table = self.add_weight(
            shape=(2 * self.max_distance + 1, x_shape[1]), initializer="zeros", name="table"
        )

    def call(self, x, start=0):
        query_length, key_length = ops.shape(x)[2:]
        query = ops.arange(query_length)[:, None] + start
        distance = ops.clip(
            ops.arange(key_length) - query, -self.max_distance, self.max_distance
        )  # (T, S)
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
    """Two halves (…, D/2) → (…, D), side by side or in turns."""
    if layout == "halves":
        return ops.concatenate([a, b], axis=-1)
    pairs = ops.stack([a, b], axis=-1)
    return ops.reshape(pairs, (*ops.shape(a)[:-1], 2 * a.shape[-1]))


def _grid_of(x, start, grid):
    """(height, width) of the image whose patches are x (B, N, D); a square if it is not given."""
    length = x.shape[1]
    if grid is None:
        side = 0 if length is None else math.isqrt(length)
        if side * side != length:
            raise ValueError(f"{length} patches are no square: say which grid=(height, width)")
        return side, side
    grid = tuple(grid)
    if _known(start, length) and start + length > math.prod(grid):
        raise ValueError(f"there are {start + length} patches, too many for grid={grid}")
    return grid


def _known(*sizes):
    return all(isinstance(size, int) for size in sizes)


def _check_multiple(number, what, shape):
    if shape[-1] % number:
        raise ValueError(f"{what} need a width that {number} divides; got {shape[-1]}")


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
