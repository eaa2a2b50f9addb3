"""`load_weights` finds the layouts for the class of a model."""

from pathlib import Path

import keras
import numpy as np
import pytest

from tfx_transformer.convert import load_weights
from tfx_transformer.models import MLPMixer, create_model

FIXTURES = Path(__file__).parents[1] / "fixtures"
SIZES = dict(image_size=12, patch_size=4, dim=10, depth=2, token_mlp_dim=7, mlp_dim=25)


class CustomMixer(MLPMixer):
    """A subclass of a user."""


@pytest.mark.parametrize("make", [MLPMixer, CustomMixer])
def test_a_file_loads_into_a_model_that_is_not_built(make, stored):
    model = make(num_classes=5, **SIZES)
    assert load_weights(model, FIXTURES / "timm_mlp_mixer.safetensors") == []
    images, logits = stored("timm_mlp_mixer")
    np.testing.assert_allclose(keras.ops.convert_to_numpy(model(images)), logits, atol=1e-5)


def test_other_models_are_refused_before_the_file_is_read():
    model = create_model("transformer", "test", vocab_size=7)
    with pytest.raises(ValueError, match="must be one of .*Swin, ViT; got Transformer"):
        load_weights(model, "none.npz")
