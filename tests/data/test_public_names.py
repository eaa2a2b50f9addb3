"""The names of `tfx_transformer.data`, which are imported on first use."""

import pytest

import tfx_transformer.data


@pytest.mark.parametrize("name", tfx_transformer.data.__all__)
def test_every_public_name_exists_and_is_documented(name):
    value = getattr(tfx_transformer.data, name)
    assert isinstance(value, int) or value.__doc__
    assert name in dir(tfx_transformer.data)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'load_videos'"):
        tfx_transformer.data.load_videos  # noqa: B018
