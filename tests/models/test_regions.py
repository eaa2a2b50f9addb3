"""What every encoder in REGIONS promises, and what each of them computes."""

from pathlib import Path

import keras
import numpy as np
import pytest

from tfx_transformer.convert import load_weights, read_weights
from tfx_transformer.models import create_model, regions
from tfx_transformer.models.regions import REGIONS

FIXTURES = Path(__file__).parents[1] / "fixtures"
SPECS = {
    "efficientnet_lite0": {"kind": "efficientnet_lite0", "stage": 3},
    "keras": {"kind": "keras", "backbone": "VGG16"},
    "small": {"kind": "small", "dims": [5, 7, 6], "strides": [2, 1, 2], "kernel_size": 5},
    "vit": {"kind": "vit", "variant": "tiny", "options": {"depth": 1, "dropout": 0.5}},
    "compact": {"kind": "vit", "variant": "cct_2_3x2", "options": {"dim": 6, "depth": 1}},
}
STEP = {"efficientnet_lite0": 4, "keras": 16, "small": 4, "vit": 4, "compact": 4}  # pixels
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


def move(model, draw):
    """Trains one step → the paths of the weights that moved."""
    before = {weight.path: numpy(weight) for weight in model.weights}
    model.compile(keras.optimizers.SGD(1.0), "mse", jit_compile=False)
    model.train_on_batch(draw(4, 32, 48, 3), draw(4, 3))
    return {w.path for w in model.weights if not np.array_equal(before[w.path], numpy(w))}


def test_every_entry_is_tried():
    assert {spec["kind"] for spec in SPECS.values()} == set(REGIONS)
    assert list(REGIONS) == sorted(REGIONS)


@pytest.mark.parametrize("name", SPECS)
def test_the_regions_fill_the_grid_at_any_size(name, draw):
    encoder, step = REGIONS.make(SPECS[name]), STEP[name]
    for height, width in ((32, 48), (64, 32)):
        rows, columns = encoder.grid((height, width))
        assert (rows, columns) == (height // step, width // step)
        assert numpy(encoder(draw(2, height, width, 3))).shape == (2, rows * columns, encoder.dim)
    assert encoder.grid(64) == (64 // step, 64 // step)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_also_read_sizes_that_their_step_does_not_divide(name, draw):
    encoder = REGIONS.make(SPECS[name])
    rows, columns = encoder.grid((37, 50))
    model = wrap(encoder, (None, None))
    assert encoder(keras.Input((37, 50, 3))).shape == (None, rows * columns, encoder.dim)
    images = draw(2, 37, 50, 3)
    mean = numpy(encoder(images)).mean(axis=1)
    answer = model.get_layer("answer")
    expected = mean @ numpy(answer.kernel) + numpy(answer.bias)
    np.testing.assert_allclose(numpy(model(images)), expected, atol=1e-4)


@pytest.mark.parametrize("name, trainable", [*[(name, True) for name in SPECS], ("small", False)])
def test_it_comes_back_from_a_file(name, trainable, draw, randomise, tmp_path):
    model = randomise(wrap(REGIONS.make(SPECS[name], trainable=trainable)))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    images = draw(2, 32, 48, 3)
    np.testing.assert_allclose(numpy(again(images)), numpy(model(images)), rtol=1e-5, atol=1e-5)
    count = len(again.trainable_weights)
    assert count == len(model.trainable_weights) and (count == 2) != trainable


def test_a_gradient_reaches_every_weight(spec, draw):
    encoder = REGIONS.make(spec)
    model = wrap(encoder)
    assert {weight.path for weight in model.trainable_weights} <= move(model, draw)
    assert len(model.trainable_weights) == len(encoder.trainable_weights) + 2


@pytest.mark.parametrize("when", ["made", "before it is built", "after it is built"])
@pytest.mark.parametrize("name", ["small", "vit"])
def test_what_is_frozen_stays_as_it_is(name, when, draw):
    encoder = REGIONS.make(SPECS[name], trainable=when != "made")
    if when == "after it is built":
        encoder.build((None, 32, 48, 3))
    encoder.trainable = False
    model = wrap(encoder)
    assert {path.split("/")[0] for path in move(model, draw)} == {"answer"}  # no statistics either
    images = draw(4, 32, 48, 3)
    alone = numpy(encoder(images, training=False))
    np.testing.assert_allclose(numpy(encoder(images, training=True)), alone, atol=1e-6)

    encoder.trainable = True
    assert len(model.trainable_weights) > 2
    assert np.abs(numpy(encoder(images, training=True)) - alone).max() > 1e-3


def test_half_precision_stays_half(spec, draw):
    encoder = REGIONS.make(spec, dtype="mixed_bfloat16")
    y = encoder(draw(2, 32, 48, 3))
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
    assert keras.config.dtype_policy().name == "float32"
    assert all(weight.dtype == "float32" for weight in encoder.weights)


def test_images_do_not_see_each_other(spec, draw):
    encoder, images = REGIONS.make(spec), draw(3, 32, 48, 3)
    alone = np.concatenate([numpy(encoder(images[i : i + 1])) for i in range(3)])
    np.testing.assert_allclose(alone, numpy(encoder(images)), atol=1e-4)


def test_the_small_one_has_few_parameters():
    encoder = REGIONS.make("small")
    encoder.build((None, 160, 160, 3))
    assert encoder.count_params() == 408_416
    assert (encoder.dim, encoder.grid(160)) == (192, (10, 10))


def test_the_small_one_is_its_definition_in_loops(draw, randomise):
    options = dict(dims=[5, 4], strides=[2, 1], kernel_size=3)
    images = draw(2, 6, 8, 3)
    encoder = randomise(REGIONS.make({"kind": "small", **options}), images)
    for weight in encoder.non_trainable_weights:
        weight.assign(0.5 + np.abs(draw(*weight.shape)))

    for image, got in zip(images, numpy(encoder(images)), strict=True):
        x = image
        for layer, stride in zip(encoder.network.layers, options["strides"], strict=True):
            kernel, norm = numpy(layer.convolution.kernel), layer.norm
            rows, columns = x.shape[0] // stride, x.shape[1] // stride
            before = 2 - stride  # with a stride of 2 and even sides, one row of zeros at the end
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
def test_a_vit_gives_its_patches_behind_the_last_norm(num_tokens, draw, randomise):
    images, options = draw(2, 16, 16, 3), {"num_tokens": num_tokens}
    encoder = randomise(
        REGIONS.make({"kind": "vit", "variant": "tiny", "options": options}), images
    )
    whole = create_model("vit", "tiny", num_classes=5, pool="mean", **options)
    whole.build(images.shape)
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


def test_a_vit_reads_the_weights_of_others():
    """The mean of its patches and the head in the file give the logits that timm computed."""
    sizes = dict(image_size=12, patch_size=4, dim=12, depth=2, num_heads=3, mlp_dim=30)
    options = sizes | {"num_tokens": 0}
    encoder = REGIONS.make({"kind": "vit", "variant": "tiny", "options": options})
    encoder.build((None, 12, 12, 3))
    weights = read_weights(FIXTURES / "timm_mean.safetensors")
    assert load_weights(encoder.network, weights, head=False) == []
    with np.load(FIXTURES / "timm_mean.npz") as file:
        features = numpy(encoder(file["images"])).mean(axis=1)
        logits = features @ weights["head.weight"].T + weights["head.bias"]
        np.testing.assert_allclose(logits, file["logits"], atol=1e-4)


def test_a_network_of_keras_sees_the_pixels_it_was_made_for_and_ends_before_pooling():
    encoder = REGIONS.make({"kind": "keras", "backbone": "VGG19"})
    encoder.build((None, 224, 224, 3))
    assert (encoder.dim, encoder.grid(224)) == (512, (14, 14))  # as in Show, Attend and Tell
    assert encoder.count_params() == 20_024_384

    whole = keras.applications.VGG19(include_top=False, weights=None)
    whole.set_weights(encoder.get_weights())
    last = keras.Model(whole.input, whole.get_layer("block5_conv4").output)
    pixels = np.random.default_rng(0).integers(256, size=(1, 32, 48, 3)).astype("float32")
    expected = numpy(last(keras.applications.vgg19.preprocess_input(pixels.copy())))
    got = numpy(encoder(pixels / 127.5 - 1))
    np.testing.assert_allclose(got, expected.reshape(1, 6, 512), rtol=1e-3, atol=1e-4)


def test_a_network_of_keras_takes_its_weights_from_a_file(tmp_path):
    path = tmp_path / "vgg.weights.h5"
    source = keras.applications.VGG16(include_top=False, weights=None)
    source.save_weights(path)
    encoder = REGIONS.make({"kind": "keras", "backbone": "VGG16", "weights": str(path)})
    for mine, other in zip(encoder.get_weights(), source.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, other)
    assert encoder.get_config()["weights"] is None  # what is loaded from a file asks for no other


def test_without_network_the_weights_of_imagenet_are_explained(monkeypatch):
    def fail(**options):
        raise Exception("URL fetch failure on https://example.org/vgg16_notop.h5: None -- -3")

    monkeypatch.setattr(keras.applications, "VGG16", fail)
    with pytest.raises(ValueError, match='weights="imagenet" of VGG16 must be downloaded') as error:
        REGIONS.make({"kind": "keras", "backbone": "VGG16", "weights": "imagenet"})
    assert "https://example.org/vgg16_notop.h5" in str(error.value)
    assert "give its path as weights" in str(error.value)
    assert regions.socket.getdefaulttimeout() is None


def test_wrong_options_are_named():
    def refuses(message, **spec):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            REGIONS.make(spec)

    refuses("unknown regions 'cnn'; known: efficientnet_lite0, keras, small, vit", kind="cnn")
    refuses("unknown backbone 'VGG'; known: .*VGG16", kind="keras", backbone="VGG")
    refuses('None, "imagenet" or a file; no file vgg.h5', kind="keras", weights="vgg.h5")
    refuses(
        "EfficientNetB0 must have weights=None.*got weights='imagenet'",
        kind="keras",
        backbone="EfficientNetB0",
        weights="imagenet",
    )
    refuses("dims must be as many as strides; got dims=.3, 4.", kind="small", dims=[3, 4])
    refuses("unknown variant 'xl'; known: tiny, ti16", kind="vit", variant="xl")
    refuses("unknown stage 10; known: 2, 3", kind="efficientnet_lite0", stage=10)
    with pytest.raises(ValueError, match="width must be a whole number above zero; got width=0"):
        REGIONS.make("small").grid((32, 0))
    with pytest.raises(ValueError, match="patch_size must divide the image's height"):
        REGIONS.make({"kind": "vit", "variant": "tiny"}).grid(30)
