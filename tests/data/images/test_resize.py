"""Parts of resized images against the whole image of TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.images.resize import KERNELS, resize_part


@pytest.mark.parametrize("method", KERNELS)
@pytest.mark.parametrize("size", [(7, 30), (40, 11), (19, 23), (1, 3)])
def test_a_part_is_that_of_the_whole_image_of_tensorflow(method, size):
    image = np.random.default_rng(0).integers(0, 256, (19, 23, 3), "uint8")
    expected = tf.image.resize(image, size, method, antialias=True)
    np.testing.assert_allclose(resize_part(image, size, method), expected, atol=1e-3)
    top, left = size[0] // 3, size[1] // 4
    part = resize_part(image, size, method, (top, left), (size[0] - top, size[1] // 2))
    np.testing.assert_allclose(part, expected[top:, left : left + size[1] // 2], atol=5e-3)
