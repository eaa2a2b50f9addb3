"""The contract of every encoder in IMAGE_ENCODERS, and what each of them computes."""

from pathlib import Path

import keras
import numpy as np
import pytest

from tfx_transformer.convert import load_weights, read_weights
from tfx_transformer.models import create_model, image_encoders
from tfx_transformer.models.image_encoders import IMAGE_ENCODERS

FIXTURES = Path(__file__).parents[1] / "fixtures"
SPECS = {
    "efficientnet_lite0": {"kind": "efficientnet_lite0", "stage": 3},
    "keras": {"kind": "keras", "backbone": "VGG16"},
    "keras_hub": {
        "kind": "keras_hub",
        "backbone": "DenseNetBackbone",
        "options": {"stackwise_num_repeats": [1, 1], "growth_rate": 4},
    },
    "small": {"kind": "small", "dims": [5, 7, 6], "strides": [2, 1, 2], "kernel_size": 5},
    "vit": {"kind": "vit", "variant": "test", "options": {"depth": 1, "dropout": 0.5}},
    "compact": {"kind": "vit", "variant": "cct_2_3x2", "options": {"dim": 6, "depth": 1}},
}
STRIDE = {
    "efficientnet_lite0": 4,
    "keras": 16,
    "keras_hub": 8,
    "small": 4,
    "vit": 4,
    "compact": 4,
}  # pixels
CONVOLUTIONS = ("efficientnet_lite0", "keras", "small")


def numpy(x):
    return keras.ops.convert_to_numpy(x)


@pytest.fixture(params=SPECS)
def spec(request):
    return SPECS[request.param]


def wrap(encoder, size=(32, 48)):
    """A small model around the encoder: images → (B, 3)."""
    inputs = keras.Input((*size, 3))
    x = keras.layers.GlobalAveragePooling1D()(encoder(inputs))
    return keras.Model(inputs, keras.layers.Dense(3, name="answer")(x))


def train(model, draw):
    """Train one step → the paths of the weights that changed."""
    before = {weight.path: numpy(weight) for weight in model.weights}
    model.compile(keras.optimizers.SGD(1.0), "mse", jit_compile=False)
    model.train_on_batch(draw(4, 32, 48, 3), draw(4, 3))
    return {w.path for w in model.weights if not np.array_equal(before[w.path], numpy(w))}


def test_every_encoder_has_a_spec():
    assert {spec["kind"] for spec in SPECS.values()} == set(IMAGE_ENCODERS)
    assert list(IMAGE_ENCODERS) == sorted(IMAGE_ENCODERS)


@pytest.mark.parametrize("name", SPECS)
def test_there_is_a_feature_for_each_cell_of_the_grid(name, draw):
    encoder, stride = IMAGE_ENCODERS.make(SPECS[name]), STRIDE[name]
    for height, width in ((32, 48), (64, 32)):
        rows, columns = encoder.grid(height, width)
        assert (rows, columns) == (height // stride, width // stride)
        assert numpy(encoder(draw(2, height, width, 3))).shape == (2, rows * columns, encoder.dim)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_the_stride_of_convolutions_need_not_divide_the_size(name, draw):
    encoder = IMAGE_ENCODERS.make(SPECS[name])
    rows, columns = encoder.grid(37, 50)
    model = wrap(encoder, (None, None))
    assert encoder(keras.Input((37, 50, 3))).shape == (None, rows * columns, encoder.dim)
    images = draw(2, 37, 50, 3)
    mean = numpy(encoder(images)).mean(axis=1)
    answer = model.get_layer("answer")
    expected = mean @ numpy(answer.kernel) + numpy(answer.bias)
    np.testing.assert_allclose(numpy(model(images)), expected, atol=1e-4)


@pytest.mark.parametrize("name, trainable", [*[(name, True) for name in SPECS], ("small", False)])
def test_a_saved_encoder_loads(name, trainable, draw, randomize, tmp_path):
    model = randomize(wrap(IMAGE_ENCODERS.make(SPECS[name], trainable=trainable)))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    images = draw(2, 32, 48, 3)
    np.testing.assert_allclose(numpy(again(images)), numpy(model(images)), rtol=1e-5, atol=1e-5)
    count = len(again.trainable_weights)
    assert count == len(model.trainable_weights) and (count == 2) != trainable


def test_training_changes_every_weight(spec, draw):
    encoder = IMAGE_ENCODERS.make(spec)
    model = wrap(encoder)
    assert {weight.path for weight in model.trainable_weights} <= train(model, draw)
    assert len(model.trainable_weights) == len(encoder.trainable_weights) + 2


@pytest.mark.parametrize("when", ["made", "before it is built", "after it is built"])
@pytest.mark.parametrize("name", ["small", "vit"])
def test_a_frozen_encoder_does_not_change(name, when, draw):
    encoder = IMAGE_ENCODERS.make(SPECS[name], trainable=when != "made")
    if when == "after it is built":
        encoder.build((None, 32, 48, 3))
    encoder.trainable = False
    model = wrap(encoder)
    assert {path.split("/")[0] for path in train(model, draw)} == {
        "answer"
    }  # no batch statistics either
    images = draw(4, 32, 48, 3)
    alone = numpy(encoder(images, training=False))
    np.testing.assert_allclose(numpy(encoder(images, training=True)), alone, atol=1e-6)

    encoder.trainable = True
    assert len(model.trainable_weights) > 2
    assert np.abs(numpy(encoder(images, training=True)) - alone).max() > 1e-3


def test_half_precision_stays_half(spec, draw):
    encoder = IMAGE_ENCODERS.make(spec, dtype="mixed_bfloat16")
    y = encoder(draw(2, 32, 48, 3))
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
    assert keras.config.dtype_policy().name == "float32"
    assert all(weight.dtype == "float32" for weight in encoder.weights)


def test_images_of_a_batch_are_independent(spec, draw):
    encoder, images = IMAGE_ENCODERS.make(spec), draw(3, 32, 48, 3)
    alone = np.concatenate([numpy(encoder(images[i : i + 1])) for i in range(3)])
    np.testing.assert_allclose(alone, numpy(encoder(images)), atol=1e-4)


def test_the_small_encoder_has_few_parameters():
    encoder = IMAGE_ENCODERS.make("small")
    encoder.build((None, 160, 160, 3))
    assert encoder.count_params() == 408_416
    assert (encoder.dim, encoder.grid(160, 160)) == (192, (10, 10))


def test_the_small_encoder_is_its_definition_in_loops(draw, randomize):
    options = dict(dims=[5, 4], strides=[2, 1], kernel_size=3)
    images = draw(2, 6, 8, 3)
    encoder = randomize(IMAGE_ENCODERS.make({"kind": "small", **options}), images)
    for weight in encoder.non_trainable_weights:
        weight.assign(0.5 + np.abs(draw(*weight.shape)))

    for image, got in zip(images, numpy(encoder(images)), strict=True):
        x = image
        for layer, stride in zip(encoder.network.layers, options["strides"], strict=True):
            kernel, norm = numpy(layer.convolution.kernel), layer.norm
            rows, columns = x.shape[0] // stride, x.shape[1] // stride
            before = 2 - stride  # with stride 2 and even sizes, one row of zeros at the end
            x = np.pad(x, ((before, 1), (before, 1), (0, 0)))
            y = np.zeros((rows, columns, kernel.shape[-1]))
            for r in range(rows):
                for c in range(columns):
                    part = x[r * stride : r * stride + 3, c * stride : c * stride + 3]
                    y[r, c] = np.einsum("ijc,ijcd->d", part, kernel)
            deviation = np.sqrt(numpy(norm.moving_variance) + 1e-3)
            y = (y - numpy(norm.moving_mean)) / deviation * numpy(norm.gamma) + numpy(norm.beta)
            x = np.maximum(y, 0)
        expected = [x[r, c] for r in range(3) for c in range(4)]
        np.testing.assert_allclose(got, expected, atol=1e-4)


@pytest.mark.parametrize("num_tokens", [0, 1, 2])
def test_a_vit_returns_its_patches_after_the_last_norm(num_tokens, draw, randomize):
    images, options = draw(2, 16, 16, 3), {"num_tokens": num_tokens}
    encoder = randomize(
        IMAGE_ENCODERS.make({"kind": "vit", "variant": "test", "options": options}), images
    )
    whole = create_model("vit", "test", num_classes=5, pool="mean", **options)
    ours = {weight.path.partition("network/")[2]: weight for weight in encoder.weights}
    theirs = {weight.path.partition("/")[2]: weight for weight in whole.weights}
    assert theirs.keys() - ours.keys() == {"head_0/kernel", "head_0/bias"}
    for name, weight in ours.items():
        theirs[name].assign(weight)

    patches = numpy(encoder(images))
    assert patches.shape == (2, 16, 16)
    expected = numpy(whole.encode(images)[0])  # (B, 1, D), the mean of the patches
    np.testing.assert_allclose(patches.mean(axis=1, keepdims=True), expected, atol=1e-5)
    assert np.abs(patches - expected).max() > 0.1


def test_a_vit_loads_pretrained_weights():
    """The mean of its patches and the head in the file give the logits of timm."""
    sizes = dict(image_size=12, patch_size=4, dim=12, depth=2, num_heads=3, mlp_dim=30)
    options = sizes | {"num_tokens": 0}
    encoder = IMAGE_ENCODERS.make({"kind": "vit", "variant": "test", "options": options})
    encoder.build((None, 12, 12, 3))
    weights = read_weights(FIXTURES / "timm_mean.safetensors")
    assert load_weights(encoder.network, weights, head=False) == []
    with np.load(FIXTURES / "timm_mean.npz") as file:
        features = numpy(encoder(file["images"])).mean(axis=1)
        logits = features @ weights["head.weight"].T + weights["head.bias"]
        np.testing.assert_allclose(logits, file["logits"], atol=1e-4)


def test_a_keras_network_preprocesses_images_and_ends_before_pooling():
    encoder = IMAGE_ENCODERS.make({"kind": "keras", "backbone": "VGG19"})
    encoder.build((None, 224, 224, 3))
    assert (encoder.dim, encoder.grid(224, 224)) == (512, (14, 14))  # as in Show, Attend and Tell
    assert encoder.count_params() == 20_024_384

    whole = keras.applications.VGG19(include_top=False, weights=None)
    whole.set_weights(encoder.get_weights())
    last = keras.Model(whole.input, whole.get_layer("block5_conv4").output)
    pixels = np.random.default_rng(0).integers(256, size=(1, 32, 48, 3)).astype("float32")
    expected = numpy(last(keras.applications.vgg19.preprocess_input(pixels.copy())))
    got = numpy(encoder(pixels / 127.5 - 1))
    np.testing.assert_allclose(got, expected.reshape(1, 6, 512), rtol=1e-3, atol=1e-4)


def test_a_keras_network_loads_weights_from_a_file(tmp_path):
    path = tmp_path / "vgg.weights.h5"
    source = keras.applications.VGG16(include_top=False, weights=None)
    source.save_weights(path)
    encoder = IMAGE_ENCODERS.make({"kind": "keras", "backbone": "VGG16", "weights": str(path)})
    for mine, other in zip(encoder.get_weights(), source.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, other)
    assert encoder.get_config()["weights"] is None  # a saved encoder needs no weights file


def test_a_preset_of_keras_hub_reads_its_own_range_of_pixels_and_gives_its_patches(tmp_path):
    import keras_hub

    converter = keras_hub.layers.ViTImageConverter(scale=[0.02, 0.01, 0.03], offset=[-1, 0.5, 0])
    backbone = keras_hub.models.ViTBackbone((24, 24, 3), 8, 1, 2, 10, 12)
    classifier = keras_hub.models.ViTImageClassifier(
        backbone, 3, keras_hub.models.ViTImageClassifierPreprocessor(converter)
    )
    classifier.save_to_preset(tmp_path)
    encoder = IMAGE_ENCODERS.make({"kind": "keras_hub", "backbone": str(tmp_path)})
    assert (encoder.dim, tuple(encoder.grid(24, 24))) == (10, (3, 3))
    pixels = np.random.default_rng(0).integers(256, size=(2, 24, 24, 3)).astype("float32")
    expected = numpy(backbone(pixels * [0.02, 0.01, 0.03] + [-1, 0.5, 0]))[:, 1:]
    np.testing.assert_allclose(numpy(encoder(pixels / 127.5 - 1)), expected, atol=1e-4)
    with pytest.raises(ValueError, match="images of ViTBackbone must be 24 × 24 pixels, as in its"):
        encoder.grid(32, 32)
    again = type(encoder).from_config(encoder.get_config())  # needs no preset
    again.build((None, 24, 24, 3))
    again.set_weights(encoder.get_weights())
    np.testing.assert_allclose(numpy(again(pixels / 127.5 - 1)), expected, atol=1e-4)


def test_a_failed_download_of_imagenet_weights_is_explained(monkeypatch):
    def fail(**options):
        raise Exception("URL fetch failure on https://example.org/vgg16_notop.h5: None -- -3")

    monkeypatch.setattr(keras.applications, "VGG16", fail)
    with pytest.raises(ValueError, match='weights="imagenet" of VGG16 must be downloaded') as error:
        IMAGE_ENCODERS.make({"kind": "keras", "backbone": "VGG16", "weights": "imagenet"})
    assert "https://example.org/vgg16_notop.h5" in str(error.value)
    assert "give its path as weights" in str(error.value)
    assert image_encoders.socket.getdefaulttimeout() is None


def test_wrong_options_are_named():
    def refuses(message, **spec):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            IMAGE_ENCODERS.make(spec)

    refuses(
        "unknown image encoder 'cnn'; known: efficientnet_lite0, keras, keras_hub, small, vit",
        kind="cnn",
    )
    refuses("unknown backbone 'VGG'; known: .*VGG16", kind="keras", backbone="VGG")
    refuses('None, "imagenet" or a file; no file vgg.h5', kind="keras", weights="vgg.h5")
    refuses(
        "EfficientNetB0 must have weights=None.*got weights='imagenet'",
        kind="keras",
        backbone="EfficientNetB0",
        weights="imagenet",
    )
    refuses("dims must be as many as strides; got dims=.3, 4.", kind="small", dims=[3, 4])
    refuses("unknown variant 'xl'; known: test, ti16", kind="vit", variant="xl")
    refuses("unknown stage 10; known: 2, 3", kind="efficientnet_lite0", stage=10)
    with pytest.raises(ValueError, match="patch_size must divide the image's height"):
        IMAGE_ENCODERS.make({"kind": "vit", "variant": "test"}).grid(30, 30)
