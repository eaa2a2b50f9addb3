"""Presets of keras-hub: our models give the outputs of its own, which are random and small."""

import json

import h5py
import keras
import numpy as np
import pytest

from tfx_transformer.convert import load_pretrained, load_weights, read_normalization
from tfx_transformer.convert.keras_file import read_keras
from tfx_transformer.models import create_model

models = pytest.importorskip("keras_hub").models
pytestmark = [
    pytest.mark.xdist_group("keras_hub"),
    # keras-hub's own, of its Swin
    pytest.mark.filterwarnings("ignore:.*unbuilt state"),
    pytest.mark.filterwarnings("ignore:Exception encountered when calling SwinTransformerBlock"),
    pytest.mark.filterwarnings("ignore:Layer 'attn' "),
]
TEXT = dict(
    vocabulary_size=37,
    num_layers=2,
    num_heads=4,
    hidden_dim=20,
    intermediate_dim=28,
    max_sequence_length=13,
)


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def randomize(model, seed=0):
    """Random values instead of initial ones, many of which are 0 or 1."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(rng.normal(0, 0.2, weight.shape) + ("gamma" in weight.path))
    return model


@pytest.fixture(scope="module")
def tokens():
    tokens = np.random.default_rng(1).integers(1, 37, (2, 11))
    tokens[0, 7:] = 0  # padding, for BERT
    return tokens


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Makes and saves a model of keras-hub, once → the model, its folder."""
    made = {}

    vit = (24, 24, 3), 8, 2, 4, 20, 28
    swin = dict(embed_dim=8, depths=(2, 3), num_heads=(2, 4), window_size=3, mlp_ratio=3)
    swin |= dict(image_shape=(24, 24, 3), patch_size=2)
    makers = {
        "bert": lambda: models.BertTextClassifier(models.BertBackbone(**TEXT), num_classes=3),
        "bert_masked": lambda: models.BertMaskedLM(models.BertBackbone(**TEXT)),
        "gpt": lambda: models.GPT2CausalLM(models.GPT2Backbone(**TEXT)),
        "swin": lambda: models.SwinTransformerImageClassifier(
            models.SwinTransformerBackbone(**swin), num_classes=5
        ),
        "vit": lambda: models.ViTImageClassifier(
            models.ViTBackbone(*vit, layer_norm_epsilon=1e-3), num_classes=5
        ),
    }

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("presets") / name
            model = randomize(makers[name]())
            model.save_to_preset(folder)
            made[name] = model, folder
        return made[name]

    return get


@pytest.mark.parametrize("name", ["vit", "swin"])
def test_image_models_give_the_outputs_of_keras_hub(name, folders, draw):
    theirs, folder = folders(name)
    images = draw(2, 24, 24, 3)
    logits = numpy(theirs(images))
    assert logits.shape == (2, 5) and logits.std() > 0.1
    model = load_pretrained(name, folder)
    np.testing.assert_allclose(numpy(model(images)), logits, rtol=0, atol=1e-4)


def test_a_preset_without_a_head_gives_features(folders, draw, tmp_path):
    theirs, _ = folders("swin")
    theirs.backbone.save_to_preset(tmp_path)
    images = draw(2, 24, 24, 3)
    features = numpy(theirs.backbone(images)).mean(axis=1)
    ours = load_pretrained("swin", tmp_path)(images)
    np.testing.assert_allclose(numpy(ours), features, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["bert", "bert_masked"])
def test_bert_gives_the_outputs_of_keras_hub(name, folders, tokens):
    theirs, folder = folders(name)
    segments = (np.arange(11) > 4).astype(int) * np.ones_like(tokens)
    inputs = {"token_ids": tokens, "segment_ids": segments, "padding_mask": tokens > 0}
    outputs = load_pretrained("bert", folder)({"tokens": tokens, "segments": segments})
    if name == "bert":
        np.testing.assert_allclose(numpy(outputs), numpy(theirs(inputs)), rtol=0, atol=1e-4)
        return
    expected = {key: numpy(value) for key, value in theirs.backbone(inputs).items()}
    np.testing.assert_allclose(numpy(outputs["sentence"]), expected["pooled_output"], atol=1e-4)
    real = tokens > 0
    states = numpy(outputs["tokens"])[real], expected["sequence_output"][real]
    np.testing.assert_allclose(*states, rtol=0, atol=1e-4)


def test_gpt_gives_the_logits_of_keras_hub(folders, tokens):
    theirs, folder = folders("gpt")
    logits = theirs({"token_ids": tokens, "padding_mask": np.ones_like(tokens)})
    model = load_pretrained("gpt", f"keras_hub:{folder}")
    np.testing.assert_allclose(numpy(model(tokens)), numpy(logits), rtol=0, atol=1e-4)


def test_another_number_of_classes_gives_a_new_head_on_the_same_blocks(folders, draw):
    _, folder = folders("vit")
    images = draw(2, 24, 24, 3)
    model = load_pretrained("vit", folder, num_classes=7)
    assert model(images).shape == (2, 7)
    features = load_pretrained("vit", folder, num_classes=0)(images)
    np.testing.assert_array_equal(numpy(model.encode(images)[0])[:, 0], numpy(features))


def test_an_encoder_without_its_pooler_becomes_a_masked_language_model(folders):
    _, folder = folders("bert_masked")
    new = load_weights(load_pretrained("bert", folder, head="mlm"), folder, head=False)
    assert new and all(name.startswith("head") for name in new)


def test_a_model_that_does_not_fit_is_refused_and_nothing_is_loaded(folders):
    _, folder = folders("gpt")
    sizes = dict(vocab_size=37, dim=20, depth=1, num_heads=4, mlp_dim=28, max_length=13)
    model = create_model("gpt", **sizes)
    before = numpy(model.weights[0])
    message = r"keras-hub weights of .* do not fit the model:\n  layers/transformer_decoder_1/"
    with pytest.raises(ValueError, match=message):
        load_weights(model, folder)
    np.testing.assert_array_equal(numpy(model.weights[0]), before)


@pytest.fixture
def changed(folders, tmp_path):
    """Copies a folder with changes of the config in one of its JSON files."""

    def change(name, file="config.json", **changes):
        _, folder = folders(name)
        for path in folder.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        content = json.loads((folder / file).read_text())
        content["config"] |= changes.pop("config", {})
        (tmp_path / file).write_text(json.dumps(content | changes))
        return tmp_path

    return change


@pytest.mark.parametrize(
    "name, file, changes, message",
    [
        ("vit", "config.json", {"class_name": "Lambda"}, "class_name must be one of BertBackbone,"),
        ("gpt", "config.json", {"config": {"num_layers": "3"}}, "depth must be a whole number"),
        ("gpt", "config.json", {"config": {"hidden_dim": 10**7}}, "its sizes need .* weights"),
        ("gpt", "config.json", {"config": {"num_layers": 10**7}}, "its sizes need .* weights"),
        ("vit", "config.json", {"config": {"use_mha_bias": False}}, "use_mha_bias must be True"),
        ("vit", "config.json", {"config": {"image_shape": [24, 16, 3]}}, "must be square"),
        (
            "vit",
            "task.json",
            {"config": {"pooling": "gap"}},
            "pooling must be that of the class token; got 'gap'",
        ),
        (
            "vit",
            "task.json",
            {"config": {"intermediate_dim": 9}},
            "intermediate_dim must be null",
        ),
    ],
)
def test_an_unsupported_or_hostile_config_is_refused(name, file, changes, message, changed):
    with pytest.raises(ValueError, match=message):
        load_pretrained(name, changed(name, file, **changes))


def test_a_missing_size_is_named(changed, tmp_path):
    folder = changed("gpt")
    content = json.loads((folder / "config.json").read_text())
    del content["config"]["hidden_dim"]
    (folder / "config.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="it has no 'hidden_dim'"):
        load_pretrained("gpt", folder)


def test_the_range_of_pixels_is_that_of_the_image_converter(tmp_path):
    mean, deviation = np.array([0.5, 0.4, 0.3]), np.array([0.2, 0.25, 0.3])
    config = {"scale": (1 / 255 / deviation).tolist(), "offset": (-mean / deviation).tolist()}
    path = tmp_path / "image_converter.json"
    path.write_text(json.dumps({"class_name": "ViTImageConverter", "config": config}))
    np.testing.assert_allclose(read_normalization(tmp_path / "model.weights.h5"), [mean, deviation])
    path.write_text(json.dumps({"config": {"scale": 1 / 255, "offset": 0}}))
    range_ = read_normalization(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(range_, [[0] * 3, [1] * 3], atol=1e-9)


def test_weights_in_bfloat16_are_read(tmp_path):
    backbone = models.GPT2Backbone(**TEXT, dtype="bfloat16")
    table = backbone.token_embedding.embeddings
    table.assign(np.arange(37 * 20).reshape(37, 20) / 64 - 5)
    backbone.save_weights(tmp_path / "model.weights.h5")
    arrays = read_keras(tmp_path / "model.weights.h5")
    read = arrays["layers/reversible_embedding/vars/0"]
    assert read.dtype == "float32"
    np.testing.assert_array_equal(read, numpy(keras.ops.cast(table, "float32")))


def test_data_outside_of_the_file_and_objects_are_refused(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(64))
    path = tmp_path / "model.weights.h5"
    with h5py.File(path, "w") as file:
        file["linked"] = h5py.ExternalLink(tmp_path / "other.h5", "a")
        file["here"] = np.arange(3.0)
    assert list(read_keras(path)) == ["here"]
    with h5py.File(path, "w") as file:
        file.create_dataset("a", (8,), "float64", external=[(str(tmp_path / "secret"), 0, 64)])
    with pytest.raises(ValueError, match="a must be an array of numbers within the file"):
        read_keras(path)
    with h5py.File(path, "w") as file:
        file["a"] = ["text"]
    with pytest.raises(ValueError, match="a must be an array of numbers within the file"):
        read_keras(path)


def test_a_file_must_not_expand_to_many_times_its_size(tmp_path):
    path = tmp_path / "model.weights.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=np.zeros(2**22), compression="gzip")
    with pytest.raises(ValueError, match="must not expand to 33,554,432 bytes"):
        read_keras(path)


def test_a_damaged_file_is_refused(folders, tmp_path):
    _, folder = folders("gpt")
    path = tmp_path / "model.weights.h5"
    path.write_bytes((folder / path.name).read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"model\.weights\.h5 is damaged or not supported"):
        read_keras(path)
