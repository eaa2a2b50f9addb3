"""Embeddings against loops over tokens, patches and pixels."""

import math

import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy

from tfx_transformer.layers.embedding import ClassToken, PatchEmbedding, TokenEmbedding

B, T, D, V = 2, 5, 6, 9
HEIGHT, WIDTH, C, P = 6, 8, 3, 2  # 3 × 4 patches of 2 × 2 pixels
IDS = np.array([[4, 0, 8, 1, 4], [0, 0, 7, 2, 3]])


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("pad_id", [0, 4, None])
def test_a_token_is_its_row_of_the_table(scale, pad_id, randomize):
    layer = randomize(TokenEmbedding(V, D, scale=scale, pad_id=pad_id), IDS)
    table = convert_to_numpy(layer.table)
    result = convert_to_numpy(layer(IDS))
    for b, t in np.ndindex(B, T):
        expected = table[IDS[b, t]] * (math.sqrt(D) if scale else 1)
        if IDS[b, t] == pad_id:
            expected = np.zeros(D)
        np.testing.assert_allclose(result[b, t], expected, rtol=1e-6)


def test_the_table_starts_with_rows_of_length_one():
    layer = TokenEmbedding(vocab_size=2000, dim=50)
    layer.build((None, None))
    np.testing.assert_allclose(convert_to_numpy(layer.table).std(), 1 / math.sqrt(50), rtol=0.02)


def test_logits_are_products_with_each_row_of_the_table(draw, randomize):
    layer = randomize(TokenEmbedding(V, D), IDS)
    x, table = draw(B, T, D), convert_to_numpy(layer.table)
    logits = convert_to_numpy(layer.logits(ops.convert_to_tensor(x)))
    assert logits.shape == (B, T, V)
    np.testing.assert_allclose(layer.logits(x, layer.transpose()), logits, atol=1e-5)
    for b, t, v in np.ndindex(B, T, V):  # the row of padding too, and without the scale
        np.testing.assert_allclose(logits[b, t, v], x[b, t] @ table[v], atol=1e-5)


@pytest.mark.parametrize("pad_id", [9, -1])
def test_the_padding_must_be_in_the_vocabulary(pad_id):
    with pytest.raises(ValueError, match=f"vocab_size=9; got pad_id={pad_id}"):
        TokenEmbedding(V, D, pad_id=pad_id)


def test_patches_are_projected_row_by_row(draw, randomize):
    images = draw(B, HEIGHT, WIDTH, C)
    layer = randomize(PatchEmbedding(P, D), images)
    kernel, bias = convert_to_numpy(layer.kernel), convert_to_numpy(layer.bias)
    rows, columns = HEIGHT // P, WIDTH // P
    assert layer.grid(images.shape) == (rows, columns)
    expected = np.zeros((B, rows * columns, D))
    for b, row, column in np.ndindex(B, rows, columns):
        total = bias.astype("float64")
        for i, j, c in np.ndindex(P, P, C):
            total = total + images[b, row * P + i, column * P + j, c] * kernel[i, j, c]
        expected[b, row * columns + column] = total
    np.testing.assert_allclose(convert_to_numpy(layer(images)), expected, atol=1e-5)


def test_it_is_a_convolution_whose_stride_is_its_size(draw, randomize):
    images = draw(B, HEIGHT, WIDTH, C)
    layer = randomize(PatchEmbedding(P, D), images)
    convolved = ops.conv(images, layer.kernel, strides=P, data_format="channels_last")
    expected = convert_to_numpy(convolved).reshape(B, -1, D) + convert_to_numpy(layer.bias)
    np.testing.assert_allclose(convert_to_numpy(layer(images)), expected, atol=1e-5)


@pytest.mark.parametrize(("height", "width"), [(7, 8), (6, 9)])
def test_an_image_must_be_whole_patches(height, width, draw):
    name, pixels = ("height", 7) if height == 7 else ("width", 9)
    with pytest.raises(ValueError, match=f"image's {name}; got patch_size=2, {name}={pixels}"):
        PatchEmbedding(P, D)(draw(B, height, width, C))


def test_the_grid_of_an_unknown_size_is_unknown():
    assert PatchEmbedding(P, D).grid((None, None, WIDTH, C)) == (None, 4)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="got patch_size=0"):
        PatchEmbedding(0, D)
    with pytest.raises(ValueError, match="got num_tokens=0"):
        ClassToken(0)
    with pytest.raises(ValueError, match="got vocab_size=-5"):
        TokenEmbedding(-5, D)


@pytest.mark.parametrize("num_tokens", [1, 2])
def test_class_tokens_come_first(num_tokens, draw, randomize):
    x = draw(B, T, D)
    layer = randomize(ClassToken(num_tokens), x)
    result = convert_to_numpy(layer(x))
    assert result.shape == (B, num_tokens + T, D)
    for b in range(B):
        np.testing.assert_array_equal(result[b, :num_tokens], convert_to_numpy(layer.tokens))
    np.testing.assert_array_equal(result[:, num_tokens:], x)
    if num_tokens == 2:
        assert (result[:, 0] != result[:, 1]).any()
