"""The Vision Transformer: published parameter counts, its definition in NumPy, its options."""

import re

import keras
import numpy as np
import pytest

from tfx_transformer.models import create_model

COUNTS = {
    "ti16": 5_717_416,
    "s16": 22_050_664,
    "s32": 22_878_952,
    "b16": 86_567_656,
    "b32": 88_224_232,
    "deit_ti16_distilled": 5_910_800,
    "deit_s16_distilled": 22_436_432,
    "deit_b16_distilled": 87_338_192,
}
LARGE = {"l16": 304_326_632, "h14": 632_045_800}
COMPACT = {"cct_2_3x2": 283_723, "cct_7_3x1": 3_760_139}
KINDS = {
    "patches": {},
    "distilled": {"num_tokens": 2},
    "mean": {"num_tokens": 0, "layer_scale": 0.1},
    "mean beside tokens": {"num_tokens": 2, "pool": "mean"},
    "mean first": {"num_tokens": 0, "pool": "mean_first"},
    "fixed positions": {"position": "sincos_2d"},
    "compact": {"patch_size": None, "conv_depth": 2, "num_tokens": 0, "pool": "sequence"},
}


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def count(variant, num_classes):
    return create_model("vit", variant, num_classes=num_classes).count_params()


@pytest.mark.parametrize("variant", COUNTS)
def test_the_parameter_counts_are_the_published_ones(variant):
    assert count(variant, 1000) == COUNTS[variant]


@pytest.mark.slow
@pytest.mark.parametrize("variant", LARGE)
def test_the_parameter_counts_of_large_variants_are_the_published_ones(variant):
    assert count(variant, 1000) == LARGE[variant]


@pytest.mark.parametrize("variant", COMPACT)
def test_the_parameter_counts_of_compact_variants_are_the_published_ones(variant):
    assert count(variant, 10) == COMPACT[variant]


@pytest.fixture
def images(draw):
    return draw(3, 16, 16, 3)


@pytest.fixture(params=KINDS)
def model(request, randomize, images):
    return randomize(create_model("vit", "test", num_classes=5, **KINDS[request.param]), images)


def test_logits_and_attention_maps_have_their_shapes(model, images):
    assert numpy(model(images)).shape == (3, 5)
    maps = model.attention_maps(images)
    tokens = 16 + model.num_tokens
    assert {name: numpy(x).shape for name, x in maps.items()} == {
        f"block_{i}/self": (3, 4, tokens, tokens) for i in range(2)
    }


def test_images_of_a_batch_are_independent(model, images):
    alone = np.concatenate([numpy(model(images[i : i + 1])) for i in range(3)])
    np.testing.assert_allclose(alone, numpy(model(images)), atol=1e-4)


def test_the_position_of_a_patch_matters(model, images):
    flipped = images[:, ::-1]
    assert np.abs(numpy(model(flipped)) - numpy(model(images))).max() > 1e-3


def test_a_saved_model_loads(model, images, tmp_path):
    model.save(tmp_path / "vit.keras")
    again = keras.saving.load_model(tmp_path / "vit.keras")
    np.testing.assert_allclose(numpy(again(images)), numpy(model(images)), atol=1e-6)


@pytest.mark.parametrize("num_tokens", [0, 1, 2])
def test_each_pool_is_its_definition(num_tokens, randomize, images):
    """Output of the last block → input of the head, in NumPy."""

    def norm(x):
        unit = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
        return unit * numpy(model.last_norm.scale) + numpy(model.last_norm.offset)

    def weighted(x):
        weights = np.exp(x @ numpy(model.importance.kernel) + numpy(model.importance.bias))
        return (x * weights / weights.sum(1, keepdims=True)).sum(1)

    pools = {
        "mean": lambda x: norm(x[:, num_tokens:]).mean(1),
        "mean_first": lambda x: norm(x[:, num_tokens:].mean(1)),
        "sequence": lambda x: weighted(norm(x[:, num_tokens:])),
        None: lambda x: norm(x)[:, 0] if num_tokens else norm(x).mean(1),
    }
    for pool, definition in pools.items():
        options = {"num_tokens": num_tokens, "pool": pool}
        model = randomize(create_model("vit", "test", num_classes=5, **options), images)
        x = model.position_embedding(model.patches(images), grid=(4, 4))
        if num_tokens:
            x = np.concatenate([np.zeros((3, num_tokens, 16)), numpy(x)], axis=1).astype("float32")
            x[:, :num_tokens] = numpy(model.tokens.tokens) + numpy(model.token_position)
        for block in model.blocks:
            x = block(x)
        pooled = numpy(model.encode(images)[0])
        assert pooled.shape == (3, num_tokens if pool is None and num_tokens else 1, 16)
        np.testing.assert_allclose(pooled[:, 0], definition(numpy(x)), atol=1e-4)


def test_the_features_of_a_distilled_model_are_the_mean_of_its_class_tokens(randomize, images):
    model = randomize(create_model("vit", "test", num_classes=0, num_tokens=2))
    tokens = numpy(model.encode(images)[0])
    assert tokens.shape == (3, 2, 16)
    np.testing.assert_allclose(numpy(model(images)), tokens.mean(axis=1), atol=1e-6)


def test_attention_maps_need_no_earlier_call(images):
    model = create_model("vit", "test", num_classes=5)
    maps = model.attention_maps(images)
    for name, weights in model.attention_maps(images).items():
        np.testing.assert_array_equal(numpy(maps[name]), numpy(weights))
        np.testing.assert_allclose(numpy(weights).sum(-1), 1, atol=1e-5)


def test_images_may_have_another_size(randomize, images, draw):
    model = randomize(create_model("vit", "test", num_classes=5), images)
    assert numpy(model(draw(2, 24, 32, 3))).shape == (2, 5)


def test_without_positions_the_order_of_patches_does_not_matter(randomize, images):
    model = randomize(create_model("vit", "test", num_classes=5), images)
    table = np.asarray(model.position_embedding.table).copy()
    model.position_embedding.table.assign(np.tile(table.mean(axis=0), (16, 1)))
    shuffled = images.reshape(3, 4, 4, 4, 4, 3)[:, ::-1].reshape(images.shape)
    np.testing.assert_allclose(numpy(model(shuffled)), numpy(model(images)), atol=1e-4)


def test_it_is_its_definition_in_loops(randomize, draw):
    """Patches, positions, the class token first; the block has its own test."""
    options = dict(depth=1, num_heads=1)
    images = draw(2, 16, 16, 3)
    model = randomize(create_model("vit", "test", num_classes=5, **options), images)
    w = {v.path.split("/", 1)[1]: np.asarray(v.value) for v in model.weights}

    for image, logits in zip(images, numpy(model(images)), strict=True):
        patches = [
            image[r : r + 4, c : c + 4].reshape(-1)
            for r in range(0, 16, 4)
            for c in range(0, 16, 4)
        ]
        x = np.array(patches) @ w["patches/kernel"].reshape(48, 16) + w["patches/bias"]
        x = x + w["position_embedding/table"]
        x = np.concatenate([w["tokens/tokens"] + w["token_position"], x]).astype("float32")
        y = numpy(model.last_norm(model.blocks[0](x[None])))[0]
        head = model.heads[0]
        expected = y[0] @ np.asarray(head.kernel) + np.asarray(head.bias)
        np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="patch_size must divide the image's height"):
        create_model("vit", "test", num_classes=5, patch_size=5)
    with pytest.raises(ValueError, match="unknown pool 'max'; known: None, mean, mean_first, seq"):
        create_model("vit", "test", num_classes=5, pool="max")
    with pytest.raises(ValueError, match="unknown num_tokens 3; known: 0, 1, 2"):
        create_model("vit", "test", num_classes=5, num_tokens=3)


@pytest.mark.parametrize("name", ["vit", "pixel_transformer"])
@pytest.mark.parametrize("position", ["rotary", "relative"])
def test_positions_inside_attention_are_options_of_attention(name, position):
    message = f'set attention={{"kind": "multi_head", "position": \'{position}\'}}'
    with pytest.raises(ValueError, match=re.escape(message)):
        create_model(name, "test", num_classes=3, position=position)
    create_model(
        name, "test", num_classes=3, attention={"kind": "multi_head", "position": position}
    )
