"""EfficientNet-Lite0: the published number of parameters, and its stages.

`tests/convert/test_efficientnet_lite.py` compares its outputs with those of PyTorch.
"""

import keras
import numpy as np
import pytest

from tfx_transformer.models.efficientnet_lite import EfficientNetLite0

PUBLISHED = 4_652_008  # with a head of 1000 classes
TABLE = {2: (16, 2), 3: (24, 4), 4: (40, 8), 5: (80, 16), 6: (112, 16), 7: (192, 32), 8: (320, 32)}


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def test_the_parameter_count_is_the_published_one():
    network = EfficientNetLite0()
    network.build((None, 224, 224, 3))
    learned = sum(int(np.prod(weight.shape)) for weight in network.trainable_weights)
    assert learned == PUBLISHED - (1280 + 1) * 1000 == 3_371_008
    statistics = [weight for weight in network.weights if not weight.trainable]
    assert network.count_params() - learned == sum(int(w.shape[0]) for w in statistics) == 42_016


@pytest.mark.parametrize("stage", TABLE)
def test_each_stage_has_the_channels_and_stride_of_the_table(stage, draw):
    network = EfficientNetLite0(stage)
    dim, stride = TABLE[stage]
    assert (network.dim, network.stride) == (dim, stride)
    if stage in (3, 5):  # 6 and 9 are computed in tests/convert
        assert numpy(network(draw(1, 64, 32, 3))).shape == (1, 64 // stride, 32 // stride, dim)


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="unknown stage 1; known: 2, 3, 4, 5, 6, 7, 8, 9"):
        EfficientNetLite0(1)
