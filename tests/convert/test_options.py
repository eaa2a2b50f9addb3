"""The config.json of Hugging Face and timm gives the options of our models."""

import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest

from tfx_transformer.convert import load_pretrained, read_normalization, read_options

FIXTURES = Path(__file__).parents[1] / "fixtures"
INPUTS = ("tokens", "segments")  # of a BERT


@pytest.fixture
def folder(tmp_path):
    """Makes a folder of save_pretrained from a fixture, with changes of its config."""

    def make(name, **changes):
        shutil.copy(FIXTURES / f"{name}.safetensors", tmp_path / "model.safetensors")
        config = json.loads((FIXTURES / f"{name}.json").read_text()) | changes
        (tmp_path / "config.json").write_text(json.dumps(config))
        return tmp_path

    return make


@pytest.fixture
def timm(tmp_path):
    """Makes the config.json of timm on the Hub → the path of its weights."""

    def make(architecture, image_size=224, **rest):
        config = {"architecture": architecture, "num_classes": 1000}
        config |= {"pretrained_cfg": {"input_size": [3, image_size, image_size]}} | rest
        (tmp_path / "config.json").write_text(json.dumps(config))
        return tmp_path / "model.safetensors"

    return make


@pytest.mark.parametrize("name", ["vit", "deit", "swin"])
def test_a_folder_loads_as_a_model_with_the_same_logits(name, folder, stored):
    ours = "vit" if name == "deit" else name
    model = load_pretrained(ours, folder(f"hugging_face_{name}"))
    images, logits = stored(f"hugging_face_{name}")
    np.testing.assert_allclose(keras.ops.convert_to_numpy(model(images)), logits, atol=1e-5)


@pytest.mark.parametrize(
    "name, outputs",
    [
        ("bert", {"tokens": "last_hidden_state", "sentence": "pooler_output"}),
        ("bert_mlm", {None: "logits"}),
        ("bert_pretraining", {None: "prediction_logits"}),
        ("bert_classify", {None: "logits"}),
        ("gpt", {None: "logits"}),
    ],
)
def test_a_folder_loads_as_a_text_model_with_the_same_outputs(name, outputs, folder):
    model = load_pretrained(name.split("_")[0], folder(f"hugging_face_{name}"))
    with np.load(FIXTURES / f"hugging_face_{name}.npz") as stored:
        results = model(stored["tokens"] if name == "gpt" else {k: stored[k] for k in INPUTS})
        is_real = stored["tokens"] != 0
        for ours, theirs in outputs.items():
            pair = np.asarray(results if ours is None else results[ours]), stored[theirs]
            if pair[0].ndim == 3:
                pair = tuple(array[is_real] for array in pair)
            np.testing.assert_allclose(*pair, atol=1e-4)


def test_another_number_of_classes_gives_a_new_head_on_the_same_blocks(folder, stored):
    weights = folder("hugging_face_vit")
    whole = load_pretrained("vit", weights)
    model = load_pretrained("vit", weights, num_classes=3)
    assert (model.num_classes, whole.num_classes) == (3, 5)
    for one, other in zip(model.weights[:-2], whole.weights[:-2], strict=True):
        np.testing.assert_array_equal(one, other)


def test_options_win_over_the_config_and_the_config_over_the_variant(folder):
    model = load_pretrained("vit", folder("hugging_face_vit"), "b16", dropout=0.25)
    assert (model.dim, model.dropout, model.norm["epsilon"]) == (12, 0.25, 1e-12)


@pytest.mark.parametrize(
    "architecture, size, kind, expected",
    [
        ("vit_base_patch32_384", 384, "vit", {"dim": 768, "patch_size": 32, "image_size": 384}),
        ("deit_tiny_patch16_224", 224, "vit", {"dim": 192, "num_heads": 3}),
        ("deit_small_distilled_patch16_224", 224, "vit", {"dim": 384, "num_tokens": 2}),
        ("swin_large_patch4_window12_384", 384, "swin", {"dim": 192, "window": 12}),
        ("mixer_l16_224", 224, "mlp_mixer", {"dim": 1024, "token_mlp_dim": 512}),
    ],
)
def test_a_timm_architecture_gives_the_options_of_a_variant(
    architecture, size, kind, expected, timm
):
    options = read_options(kind, timm(architecture, size))
    assert expected | {"image_size": size, "num_classes": 1000} == {
        name: options[name] for name in {*expected, "image_size", "num_classes"}
    }


def test_the_normalization_of_pixels_is_read(timm, tmp_path):
    weights = timm("vit_tiny_patch16_224")
    assert read_normalization(weights) is None
    stored = {"mean": [0.5, 0.4, 0.3], "std": [0.1, 0.2, 0.3]}
    timm("vit_tiny_patch16_224", pretrained_cfg=stored)
    assert read_normalization(weights) == ([0.5, 0.4, 0.3], [0.1, 0.2, 0.3])
    theirs = {"image_mean": [0.5] * 3, "image_std": [0.6] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(theirs))
    assert read_normalization(weights) == ([0.5] * 3, [0.6] * 3)


@pytest.mark.parametrize(
    "architecture, rest",
    [
        ("vit_base_patch16_clip_224", {}),
        ("vit_gigantic_patch14_224", {}),
        ("resnet50", {}),
        ("vit_base_patch16_224", {"model_args": {"class_token": False}}),
    ],
)
def test_unknown_architectures_are_refused_with_advice(architecture, rest, timm):
    message = f"unknown architecture '{architecture}'; use create_model .*, then load_weights"
    with pytest.raises(ValueError, match=message):
        read_options("vit", timm(architecture, **rest))


def test_without_a_config_the_variant_or_all_sizes_must_be_given(tmp_path):
    shutil.copy(FIXTURES / "timm.safetensors", tmp_path / "model.safetensors")
    assert read_options("vit", tmp_path / "model.safetensors") == {}
    with pytest.raises(
        ValueError, match="has no config.json: vit needs .* a variant: test, "
    ) as error:
        load_pretrained("vit", tmp_path, num_classes=5)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="unknown vit variant 'b17'; known: test, "):
        load_pretrained("vit", tmp_path, "b17", num_classes=5)
    sizes = dict(image_size=12, patch_size=4, dim=12, num_heads=3, mlp_dim=30)
    model = load_pretrained("vit", tmp_path, "test", num_classes=5, **sizes)
    assert np.asarray(model.weights[-1]).any()  # the bias of a new head is zero


@pytest.mark.parametrize(
    "name, changes, message",
    [
        ("vit", {"model_type": "beit"}, "model_type must be one of bert, .*; got 'beit'"),
        ("vit", {"model_type": "marian"}, "use convert.marian.load_marian"),
        (
            "vit",
            {"hidden_act": "quick_gelu"},
            "activation in config.json must be .*; got 'quick_gelu'",
        ),
        ("swin", {}, "model must be 'swin' for .*config.json; got 'vit'"),
    ],
)
def test_an_unsupported_config_is_refused(name, changes, message, folder):
    with pytest.raises(ValueError, match=message):
        load_pretrained("vit", folder(f"hugging_face_{name}", **changes))


@pytest.mark.parametrize(
    "name, kind, activation, epsilon",
    [
        ("bert", "bert", "gelu", 1e-12),
        ("vit", "vit", "gelu", 1e-12),
        ("deit", "vit", "gelu", 1e-12),
        ("swin", "swin", "gelu", 1e-5),
        ("gpt", "gpt", "gelu_tanh", 1e-5),
    ],
)
@pytest.mark.parametrize("are_null", [False, True], ids=["missing", "null"])
def test_a_missing_activation_or_epsilon_is_that_of_hugging_face(
    name, kind, activation, epsilon, are_null, folder
):
    path = folder(f"hugging_face_{name}") / "config.json"
    config = json.loads(path.read_text())
    for key in ("hidden_act", "layer_norm_eps", "activation_function", "layer_norm_epsilon"):
        if config.pop(key, None) is not None and are_null:
            config[key] = None
    path.write_text(json.dumps(config))
    options = read_options(kind, path.with_name("model.safetensors"))
    assert options["activation"] == activation
    assert options["norm"] == {"kind": "layer", "epsilon": epsilon}


HOSTILE = {  # changes of a config → a part of the message
    "huge width": ({"hidden_size": 10**7}, r"its sizes need [\d,]+ weights or more; model.safet"),
    "huge depth": ({"num_hidden_layers": 10**7}, r"its sizes need [\d,]+ weights or more"),
    "huge feed-forward": ({"intermediate_size": 10**9}, "its sizes need"),
    "huge image": ({"image_size": 10**7}, "image_size must not exceed 8192 pixels"),
    "huge patches": ({"patch_size": 10**5}, "its sizes need"),
    "negative": ({"hidden_size": -12}, "dim must be a whole number above zero"),
    "text": ({"num_attention_heads": "3"}, "num_heads must be a whole number above zero"),
    "list": ({"num_hidden_layers": [[2]]}, "depth must be a whole number above zero"),
    "activation": ({"hidden_act": ["gelu"]}, "activation in config.json must be one of"),
    "epsilon": ({"layer_norm_eps": "tiny"}, "epsilon must be above zero"),
    "type": ({"model_type": ["vit"]}, "model_type must be one of"),
    "class": ({"architectures": 7}, "config.json is damaged or not supported"),
    "labels": ({"id2label": 7}, "config.json is damaged or not supported"),
    "scaling": ({"scale_attn_weights": False}, "scale_attn_weights must be True; got False"),
    "decoder": ({"is_decoder": True}, "is_decoder must be False; got True"),
}


@pytest.mark.parametrize("changes, message", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_config_is_refused_before_the_model_is_built(changes, message, folder):
    path = folder("hugging_face_vit", **changes) / "model.safetensors"
    with pytest.raises(ValueError, match=message) as error:
        read_options("vit", path)
    assert "config.json" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("content", ["[" * 100_000, "[1]", "{", '{"x": NaN}', "\x00", "{}" * 9])
def test_a_config_that_is_no_json_object_is_refused(content, folder):
    path = folder("hugging_face_vit") / "config.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"config.json is damaged or not supported: [^\n]*$"):
        read_options("vit", path)


def test_missing_sizes_are_named(folder):
    path = folder("hugging_face_vit") / "config.json"
    config = json.loads(path.read_text())
    del config["hidden_size"], config["patch_size"]
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="config.json must contain hidden_size, patch_size"):
        load_pretrained("vit", path.parent)
