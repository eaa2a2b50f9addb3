import dataclasses
import io

import numpy as np
import pytest
from PIL import Image

from tfx_transformer.data import Images
from tfx_transformer.models import create_model
from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.recipes import RECIPES
from tfx_transformer.train.tasks.classification.sizes import propose_sizes

RECIPE = RECIPES["classify"]


def images_of(width, height, mode="RGB", count=3):
    file = io.BytesIO()
    Image.new(mode, (width, height)).save(file, "png")
    return Images("x", [file.getvalue()] * count, np.zeros(count, "int32"), ["a", "b"])


@pytest.mark.parametrize(
    "images, sizes, flip, batch_size",
    [
        (images_of(32, 32, count=20_000), [32] * 3, True, 128),
        (images_of(28, 30, "L"), [32] * 3, False, 32),  # 28 is nearer to 32 than to 24
        (images_of(100, 75), [64], True, 32),
        (images_of(4000, 3000, count=2000), [64, 96, 128, 160], True, 64),
    ],
)
def test_the_image_size_follows_the_images(images, sizes, flip, batch_size):
    found = propose_sizes(RECIPE, images)
    assert [recipe.model.options["image_size"] for recipe in found] == sizes
    assert {recipe.augment.flip for recipe in found} == {flip}
    assert {recipe.data.batch_size for recipe in found} == {batch_size}
    for recipe in found:
        model = create_model("vit", num_classes=2, **recipe.model.options)
        assert model(np.zeros((1, sizes[0], sizes[0], 3), "float32")).shape == (1, 2)


def test_options_that_are_set_stay():
    model = ModelOptions.of("vit", drop_path=0.3)
    found = propose_sizes(dataclasses.replace(RECIPE, model=model), images_of(32, 32))
    assert {recipe.model.options["drop_path"] for recipe in found} == {0.3}
    data = dataclasses.replace(RECIPE.data, batch_size=17)
    augment = dataclasses.replace(RECIPE.augment, flip=False, crop="none")
    set = dataclasses.replace(RECIPE, data=data, augment=augment)
    for recipe in propose_sizes(set, images_of(32, 32)):
        assert (recipe.data, recipe.augment.flip, recipe.augment.crop) == (data, False, "none")
    sized = dataclasses.replace(RECIPE, model=ModelOptions("vit", "ti16"))
    assert propose_sizes(sized, images_of(32, 32)) == [sized]
