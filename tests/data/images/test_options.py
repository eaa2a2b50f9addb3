"""The options of image files."""

import pytest

from tfx_transformer.data.images.options import ImageOptions


def test_the_options_are_arguments_of_pipelines():
    options = ImageOptions(resize="pad", crop_ratio=0.5).image_options
    assert options == {
        "resize": "pad",
        "crop_ratio": 0.5,
        "normalization": "half",
        "max_pixels": 2**26,
    }


@pytest.mark.parametrize(
    "options, message",
    [
        ({"resize": "stretch"}, "unknown resize 'stretch'; known: crop, squash, pad"),
        ({"crop_ratio": 1.5}, "crop_ratio must lie in 0 < crop_ratio <= 1"),
        ({"max_pixels": 0}, "max_pixels must be a whole number above zero"),
    ],
)
def test_an_invalid_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        ImageOptions(**options)
