"""Files are read without running code; weights are assigned all or none."""

import keras
import numpy as np
import pytest
from safetensors.numpy import save_file

from tfx_transformer.convert import load_weights
from tfx_transformer.convert.checkpoint import assign_weights, find_layout, read_weights
from tfx_transformer.convert.mlp_mixer import LAYOUTS
from tfx_transformer.models import MLPMixer

SIZES = dict(image_size=12, patch_size=4, dim=10, depth=2, token_mlp_dim=7, mlp_dim=25)


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def make(num_classes=5, **options):
    model = MLPMixer(num_classes, **SIZES | options)
    model.build((None, 12, 12, 3))
    return model


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_stored_in_half_precision_load(dtype, tmp_path, read):
    dtype = numpy(keras.ops.zeros(1, dtype)).dtype
    weights = {name: array.astype(dtype) for name, array in read("timm_mlp_mixer").items()}
    save_file(weights, tmp_path / "half.safetensors")
    models = make(), make()
    load_weights(models[0], tmp_path / "half.safetensors")
    load_weights(models[1], {key: array.astype("float32") for key, array in weights.items()})
    for one, other in zip(*(model.weights for model in models), strict=True):
        np.testing.assert_array_equal(numpy(one), numpy(other))


def test_a_torch_state_dict_saved_by_numpy_is_read(tmp_path, read):
    state = read("timm_mlp_mixer")
    np.savez(tmp_path / "state.npz", **state)
    loaded = read_weights(str(tmp_path / "state.npz"))
    assert list(loaded) == list(state)
    for name, array in state.items():
        np.testing.assert_array_equal(loaded[name], array)


@pytest.mark.parametrize("name", ["mlp", "outer"])
def test_a_nested_model_loads_whatever_its_name(name, draw, read):
    inner, alone = make(name=name), make()
    outer = keras.Sequential([keras.layers.Rescaling(2.0), inner], name="outer")
    images = draw(2, 12, 12, 3)
    outer(images)
    for model in (inner, alone):
        assert load_weights(model, read("timm_mlp_mixer")) == []
    np.testing.assert_allclose(numpy(outer(images)), numpy(alone(2 * images)), atol=1e-6)


def test_all_problems_are_listed_and_nothing_is_loaded(read, weights_by_path):
    model = make()
    before = weights_by_path(model)
    weights = read("timm_mlp_mixer")
    del weights["norm.bias"]
    weights |= {"stem.proj.bias": np.zeros(9), "extra": np.zeros((2, 3)), "head.bias": np.zeros(4)}
    with pytest.raises(ValueError) as error:
        assign_weights(model, weights, find_layout(LAYOUTS, weights, model))
    assert str(error.value).splitlines() == [
        "the timm weights do not fit the model:",
        "  stem.proj.bias must be (10,) for patches/bias; got (9,)",
        "  norm.bias is missing, must be (10,) for last_norm/offset",
        "  head.bias must be (5,) for head/bias; got (4,); head=False skips it",
        "  extra (2, 3) has no counterpart in the model",
    ]
    for path, array in weights_by_path(model).items():
        np.testing.assert_array_equal(array, before[path])


def test_a_long_list_of_problems_is_shortened(read):
    weights = read("timm_mlp_mixer")
    with pytest.raises(ValueError, match=r"(\n  blocks.1.*){8}\n  and 4 more$"):
        load_weights(make(depth=1), weights)


def test_without_head_the_head_keeps_its_values(read, weights_by_path):
    model = make(num_classes=7)
    before = weights_by_path(model)
    assert load_weights(model, read("timm_mlp_mixer"), head=False) == ["head/kernel", "head/bias"]
    for path, array in weights_by_path(model).items():
        assert np.array_equal(array, before[path]) == ("/head/" in path), path


def test_unknown_weights_are_refused():
    message = "unknown MLPMixer weights; known: timm, Google; got conv1.weight, fc.bias, …"
    with pytest.raises(ValueError, match=message):
        load_weights(make(), {"conv1.weight": np.zeros(3), "fc.bias": np.zeros(3)})


@pytest.mark.parametrize("suffix", [".pth", ".pt", ".bin"])
def test_a_damaged_torch_file_is_refused(suffix, tmp_path):
    path = tmp_path / f"vit{suffix}"
    path.write_bytes(b"code")
    with pytest.raises(ValueError, match=rf"must be a file of torch.save; got .*vit{suffix}"):
        read_weights(path)


def test_missing_files_and_unknown_suffixes_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such file: .*none.npz"):
        read_weights(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"ends in .safetensors, .npz, .bin, .* got .*vit.h5"):
        read_weights(tmp_path / "vit.h5")
