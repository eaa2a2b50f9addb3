import inspect

import numpy as np
import pytest

from tfx_transformer.models import MODELS
from tfx_transformer.models.base import BaseModel, check_images
from tfx_transformer.models.vit import ViT


def test_the_default_name_is_that_of_the_file_also_in_a_subclass():
    class Own(ViT):
        """A ViT with another class name."""

    sizes = dict(image_size=8, dim=4, depth=1, num_heads=2, mlp_dim=8, patch_size=4)
    assert ViT(3, **sizes).name == Own(3, **sizes).name == "vit"
    assert ViT(3, **sizes, name="mine").name == "mine"


def test_a_model_must_define_its_layer_groups():
    class Own(BaseModel):
        variants = {}

    with pytest.raises(TypeError, match="Own does not define layer_groups"):
        Own().layer_groups()


def test_images_are_a_batch_of_floating_point_pixels():
    check_images(np.zeros((2, 8, 8, 3), "float32"), 3)
    with pytest.raises(ValueError, match=r"got \(8, 8, 3\); add a batch axis: images\[None\]"):
        check_images(np.zeros((8, 8, 3), "float32"), 3)
    with pytest.raises(ValueError, match=r"must have shape \(B, height, width, 3\); got \(2, 8"):
        check_images(np.zeros((2, 8, 8, 1), "float32"), 3)
    with pytest.raises(ValueError, match="images must be floating-point.* got uint8"):
        check_images(np.zeros((2, 8, 8, 3), "uint8"), 3)


@pytest.mark.parametrize("name", MODELS)
def test_the_common_arguments_of_every_model_are_checked(name):
    kind = MODELS[name]
    arguments = inspect.signature(kind).parameters.keys()
    options = kind.variants["test"] | {"vocab_size": 9, "num_classes": 3}
    options = {argument: options[argument] for argument in arguments & options.keys()}
    sizes = {"vocab_size", "dim", "depth", "num_heads", "embedding_dim", "image_size", "channels"}
    for size in sizes & arguments:
        with pytest.raises(ValueError, match=f"{size} must be a whole number above zero; .*=0$"):
            kind(**options | {size: 0})
    for rate in {"dropout", "drop_path"} & arguments:
        with pytest.raises(ValueError, match=f"{rate} must lie in 0 <= {rate} < 1; .*=1.0$"):
            kind(**options | {rate: 1.0})
