"""Convolution over a sequence against its definition in loops."""

import numpy as np
import pytest
from keras import ops

from tfx_transformer.layers import SequenceConv

SIZES = [(1, 1), (2, 1), (2, 3), (3, 1), (3, 2), (4, 2)]  # kernel_size, dilation


def numpy(x):
    return ops.convert_to_numpy(x)


def make(randomize, kernel_size, dilation, causal=True):
    layer = SequenceConv(5, kernel_size, dilation, causal)
    layer.build((None, None, 3))
    return randomize(layer)


def convolve(x, kernel, bias, dilation, causal):
    """The definition: a sum over the positions that the kernel spans."""
    size = len(kernel)
    offset = size - 1 if causal else (size - 1) // 2
    y = np.tile(bias, (*x.shape[:2], 1))
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            for j in range(size):
                position = t + (j - offset) * dilation
                if 0 <= position < x.shape[1]:
                    y[b, t] += x[b, position] @ kernel[j]
    return y


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kernel_size, dilation", [*SIZES, (5, 3)])
def test_it_is_the_sum_over_the_positions_of_the_kernel(
    draw, randomize, kernel_size, dilation, causal
):
    if not causal and kernel_size % 2 == 0:
        with pytest.raises(ValueError, match=f"kernel_size must be odd.*got .*{kernel_size}"):
            make(randomize, kernel_size, dilation, causal)
        return
    layer, x = make(randomize, kernel_size, dilation, causal), draw(2, 7, 3)
    expected = convolve(x, numpy(layer.kernel), numpy(layer.bias), dilation, causal)
    np.testing.assert_allclose(numpy(layer(x)), expected, atol=1e-5)


@pytest.mark.parametrize("parts", [(1,) * 7, (7,), (2, 4, 1)])
@pytest.mark.parametrize("kernel_size, dilation", SIZES)
def test_parts_with_a_cache_equal_the_whole(draw, randomize, kernel_size, dilation, parts):
    layer, x = make(randomize, kernel_size, dilation), draw(2, 7, 3)
    cache, outputs, start = layer.empty_cache(2), [], 0
    shape = (2, (kernel_size - 1) * dilation, 3)
    for size in parts:
        y, cache = layer(x[:, start : start + size], cache=cache)
        assert tuple(cache.shape) == shape  # the same for any length
        outputs.append(numpy(y))
        start += size
    np.testing.assert_allclose(np.concatenate(outputs, axis=1), numpy(layer(x)), atol=1e-5)


def test_a_cache_needs_a_causal_convolution(draw, randomize):
    layer = make(randomize, 3, 1, causal=False)
    with pytest.raises(ValueError, match="cache needs causal=True; got causal=False"):
        layer(draw(2, 7, 3), cache=layer.empty_cache(2))


@pytest.mark.parametrize("name", ["dim", "kernel_size", "dilation"])
def test_sizes_are_checked(name):
    with pytest.raises(ValueError, match=f"{name} must be a whole number above zero; got {name}=0"):
        SequenceConv(**{"dim": 5, "kernel_size": 3, "dilation": 1} | {name: 0})
