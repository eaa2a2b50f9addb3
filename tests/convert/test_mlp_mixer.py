"""MLP-Mixer checkpoints give the logits of their libraries."""

import keras
import numpy as np
import pytest

from tfx_transformer.convert import load_weights, read_weights
from tfx_transformer.models import MLPMixer

NAME = "timm_mlp_mixer"
SIZES = dict(image_size=12, patch_size=4, dim=10, depth=2, token_mlp_dim=7, mlp_dim=25)
GOOGLE = {  # timm's names → Google's
    "blocks.": "MixerBlock_",
    "norm1.weight": "LayerNorm_0/scale",
    "norm1.bias": "LayerNorm_0/bias",
    "norm2.weight": "LayerNorm_1/scale",
    "norm2.bias": "LayerNorm_1/bias",
    "mlp_tokens.fc1": "token_mixing/Dense_0",
    "mlp_tokens.fc2": "token_mixing/Dense_1",
    "mlp_channels.fc1": "channel_mixing/Dense_0",
    "mlp_channels.fc2": "channel_mixing/Dense_1",
    "norm.weight": "pre_head_layer_norm/scale",
    "norm.bias": "pre_head_layer_norm/bias",
    "stem.proj": "stem",
    "weight": "kernel",
    ".": "/",
}


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def make(**options):
    return MLPMixer(num_classes=5, **SIZES | options)


@pytest.fixture
def google(read):
    """The same weights in the format of Google."""
    weights = {}
    for name, array in read(NAME).items():
        for one, other in GOOGLE.items():
            name = name.replace(one, other)
        if name.endswith("kernel"):
            array = np.einsum("dcpq->pqcd" if array.ndim == 4 else "oi->io", array)
        weights[name] = array
    return weights


def test_the_logits_are_those_of_timm(read, stored):
    model = make()
    assert load_weights(model, read(NAME)) == []
    images, logits = stored(NAME)
    np.testing.assert_allclose(numpy(model(images)), logits, atol=1e-5)


def test_the_logits_are_those_of_the_installed_timm(live, stored):
    model = make()
    load_weights(model, read_weights(live / f"{NAME}.safetensors"))
    images, logits = stored(NAME, live)
    assert np.abs(logits - stored(NAME)[1]).max() > 0.1  # other weights than the stored ones
    np.testing.assert_allclose(numpy(model(images)), logits, atol=1e-5)


def test_a_file_of_google_gives_the_same_logits(google, stored, tmp_path):
    assert google["MixerBlock_1/token_mixing/Dense_0/kernel"].shape == (9, 7)
    np.savez(tmp_path / "mixer.npz", **google)
    model = make()
    assert load_weights(model, tmp_path / "mixer.npz") == []
    images, logits = stored(NAME)
    np.testing.assert_allclose(numpy(model(images)), logits, atol=1e-5)


def test_another_number_of_patches_is_refused(read):
    message = r"mlp_tokens.fc1.weight must be \(7, 4\) for block_0/token_mlp/.*; got \(7, 9\)"
    with pytest.raises(ValueError, match=message):
        load_weights(make(image_size=8), read(NAME))
