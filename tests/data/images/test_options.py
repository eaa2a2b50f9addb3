"""Options of image files and of augmentation are checked, and light to import."""

import subprocess
import sys

import pytest

from tfx_transformer.data.images.options import CAPTION_AUGMENTATION, Augmentation, ImageOptions

LIGHT = """
import sys
sys.argv = ["tfx-transformer"]
import tfx_transformer.data.images.options
print("tensorflow" in sys.modules)
"""


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


@pytest.mark.parametrize(
    "options, message",
    [
        ({"crop": "middle"}, "unknown crop 'middle'; known: resized, pad, none"),
        ({"magnitude": 11}, "magnitude must lie in 0 <= magnitude <= 10; got magnitude=11"),
        ({"rand_augment": -1}, "rand_augment must be a whole number, zero or more"),
        ({"repeats": 0}, "repeats must be a whole number above zero"),
        ({"padding": 1.5}, "padding must lie in 0 <= padding < 1"),
        ({"min_area": -0.1}, "min_area must lie in 0 <= min_area < 1"),
    ],
)
def test_an_invalid_option_of_augmentation_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        Augmentation(**options)


def test_an_augmentation_knows_what_it_changes():
    assert Augmentation().changes_images and not Augmentation().mixes_images
    assert not CAPTION_AUGMENTATION.changes_images
    for options in ({"crop": "pad"}, {"flip": True}, {"rand_augment": 1}, {"erase": 0.1}):
        assert Augmentation(**{"crop": "none", "flip": False} | options).changes_images
    for options in ({"mixup": 0.1}, {"cutmix": 1.0}, {"repeats": 2}):
        assert Augmentation(**options).mixes_images


def test_the_command_line_reads_the_options_without_tensorflow():
    command = [sys.executable, "-c", LIGHT]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"False\n"
