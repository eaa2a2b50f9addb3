"""ViT and DeiT checkpoints give the logits of their libraries; problems are named.

The fixtures and the outputs of their libraries were stored by `fixtures/make_vit_fixtures.py`.
"""

import math

import keras
import numpy as np
import pytest

from tfx_transformer.convert import load_weights
from tfx_transformer.models import ViT

SIZES = dict(num_classes=5, image_size=12, patch_size=4, dim=12, depth=2, num_heads=3, mlp_dim=30)
HUGGING_FACE = {"norm": {"kind": "layer", "epsilon": 1e-12}}
DEIT3 = {"layer_scale": 0.1, "attention": {"kind": "multi_head", "qkv_bias": False}}
OPTIONS = {
    "timm": {},
    "timm_distilled": {"num_tokens": 2},
    "timm_mean": {"num_tokens": 0},
    "timm_mean_first": {"num_tokens": 0, "pool": "mean_first"},
    "timm_token_mean": {"pool": "mean"},
    "timm_token_mean_first": {"pool": "mean_first"},
    "timm_deit3": DEIT3,
    "hugging_face_vit": HUGGING_FACE,
    "hugging_face_deit": HUGGING_FACE | {"num_tokens": 2},
}
QKV = "blocks.1.attn.qkv.weight"
ATTENTION = "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/"


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def make(**options):
    return ViT(**SIZES | options)


@pytest.fixture
def augreg(draw):
    """Random weights in the format of AugReg; 2 heads of 6, so that all axes differ."""
    shapes = {
        "embedding/kernel": (4, 4, 3, 12),
        "embedding/bias": (12,),
        "cls": (1, 1, 12),
        "Transformer/posembed_input/pos_embedding": (1, 10, 12),
        "Transformer/encoder_norm/scale": (12,),
        "Transformer/encoder_norm/bias": (12,),
        "head/kernel": (12, 5),
        "head/bias": (5,),
    }
    for i in range(2):
        at = f"Transformer/encoderblock_{i}/"
        for name in ("query", "key", "value"):
            shapes |= {
                f"{ATTENTION.format(i)}{name}/kernel": (12, 2, 6),
                f"{ATTENTION.format(i)}{name}/bias": (2, 6),
            }
        shapes |= {
            f"{ATTENTION.format(i)}out/kernel": (2, 6, 12),
            f"{ATTENTION.format(i)}out/bias": (12,),
            f"{at}MlpBlock_3/Dense_0/kernel": (12, 30),
            f"{at}MlpBlock_3/Dense_0/bias": (30,),
            f"{at}MlpBlock_3/Dense_1/kernel": (30, 12),
            f"{at}MlpBlock_3/Dense_1/bias": (12,),
        }
        for norm in ("LayerNorm_0", "LayerNorm_2"):
            shapes |= {f"{at}{norm}/scale": (12,), f"{at}{norm}/bias": (12,)}
    return {name: 0.4 * draw(*shape) for name, shape in shapes.items()}


def augreg_logits(w, image):
    """The model of an AugReg file in plain numpy, one image, one head at a time."""

    def norm(x, name):
        unit = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
        return unit * w[f"{name}/scale"] + w[f"{name}/bias"]

    def dense(x, name):
        return x @ w[f"{name}/kernel"] + w[f"{name}/bias"]

    def gelu(x):
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    def attend(x, name):
        y = w[f"{name}out/bias"]
        for head in range(2):
            q, k, v = (
                x @ w[f"{name}{part}/kernel"][:, head] + w[f"{name}{part}/bias"][head]
                for part in ("query", "key", "value")
            )
            scores = np.exp(q @ k.T / math.sqrt(6))
            y = y + scores / scores.sum(-1, keepdims=True) @ v @ w[f"{name}out/kernel"][head]
        return y

    w = {name: array.astype("float64") for name, array in w.items()}
    patches = [
        np.einsum("hwc,hwcd->d", image[r : r + 4, c : c + 4], w["embedding/kernel"])
        for r in range(0, 12, 4)
        for c in range(0, 12, 4)
    ]
    x = np.concatenate([w["cls"][0], np.array(patches) + w["embedding/bias"]])
    x = x + w["Transformer/posembed_input/pos_embedding"][0]
    for i in range(2):
        at = f"Transformer/encoderblock_{i}/"
        x = x + attend(norm(x, f"{at}LayerNorm_0"), ATTENTION.format(i))
        y = gelu(dense(norm(x, f"{at}LayerNorm_2"), f"{at}MlpBlock_3/Dense_0"))
        x = x + dense(y, f"{at}MlpBlock_3/Dense_1")
    return dense(norm(x, "Transformer/encoder_norm")[0], "head")


@pytest.mark.parametrize("name", OPTIONS)
def test_the_logits_are_those_of_the_library(name, read, stored):
    model = make(**OPTIONS[name])
    assert load_weights(model, read(name)) == []
    images, logits = stored(name)
    np.testing.assert_allclose(numpy(model(images)), logits, atol=1e-5)


def test_a_state_dict_gives_the_same_logits(read, stored):
    images, logits = stored("hugging_face_deit")
    model = make(**OPTIONS["hugging_face_deit"])
    state = read("hugging_face_deit_state")
    assert "deit.layers.1.attention.q_proj.weight" in state
    load_weights(model, state)
    np.testing.assert_allclose(numpy(model(images)), logits, atol=1e-5)


def test_an_augreg_file_gives_the_logits_of_a_numpy_model(augreg, draw, tmp_path):
    model = make(num_heads=2, activation="gelu_tanh")
    np.savez(tmp_path / "augreg.npz", **augreg)
    assert load_weights(model, str(tmp_path / "augreg.npz")) == []
    images = draw(3, 12, 12, 3)
    expected = [augreg_logits(augreg, image) for image in images]
    np.testing.assert_allclose(numpy(model(images)), expected, atol=1e-5)


@pytest.mark.parametrize(
    "name, prefix", [("hugging_face_vit", "vit."), ("hugging_face_deit", "deit.")]
)
def test_an_encoder_saved_without_head_loads(name, prefix, draw, read, stored):
    state = {key.removeprefix(prefix): array for key, array in read(name).items()}
    whole, alone = make(**OPTIONS[name]), make(**OPTIONS[name])
    load_weights(whole, state)
    state = {key: array for key, array in state.items() if "classifier" not in key}
    kept = load_weights(alone, state | {"pooler.dense.weight": draw(12, 12)}, head=False)
    heads = range(whole.num_tokens)
    assert kept == [f"head_{i}/{leaf}" for i in heads for leaf in ("kernel", "bias")]
    images, _ = stored(name)
    np.testing.assert_array_equal(numpy(alone.encode(images)[0]), numpy(whole.encode(images)[0]))


def test_a_new_head_keeps_its_values(augreg, draw, read, weights_by_path):
    augreg["pre_logits/kernel"] = draw(12, 12)
    for num_heads, weights in ((3, read("timm")), (2, augreg)):
        model = make(num_classes=7, num_heads=num_heads)
        model.build((None, 12, 12, 3))
        before = weights_by_path(model)
        assert load_weights(model, weights, head=False) == ["head_0/kernel", "head_0/bias"]
        for path, array in weights_by_path(model).items():
            assert np.array_equal(array, before[path]) == ("/head_0/" in path), path


def test_learned_pooling_counts_as_head(read):
    kept = load_weights(make(num_tokens=0, pool="sequence"), read("timm_mean"), head=False)
    assert kept == ["importance/kernel", "importance/bias", "head_0/kernel", "head_0/bias"]


@pytest.mark.parametrize(
    "name, size", [("timm", 8), ("timm", 20), ("timm_distilled", 20), ("timm_deit3", 20)]
)
def test_positions_are_resized_as_the_model_does(name, size, draw, read):
    images = draw(2, size, size, 3)
    models = [make(image_size=pixels, **OPTIONS[name]) for pixels in (12, size)]
    for model in models:
        load_weights(model, read(name))
    assert models[1].position_embedding.table.shape == ((size // 4) ** 2, 12)
    np.testing.assert_allclose(numpy(models[1](images)), numpy(models[0](images)), atol=1e-5)


def test_images_of_another_size_give_the_logits_of_timm(read, stored):
    images, logits = stored("timm_larger")
    model = make()
    load_weights(model, read("timm"))
    np.testing.assert_allclose(numpy(model(images)), logits, atol=1e-5)


WRONG = {  # options of the model, fixture, changes of it (None: removed), the message
    "missing": (
        {},
        "timm",
        {"norm.bias": None},
        r"norm.bias is missing, must be \(12,\) for last_",
    ),
    "missing part": ({}, "timm", {QKV: None}, r"1.attn.qkv.weight\[query\] is missing.*\(12, 12\)"),
    "unexpected": (
        {},
        "timm",
        {"reg": np.zeros((1, 4))},
        r"reg \(1, 4\) has no counterpart in the model",
    ),
    "shape": (
        {"mlp_dim": 24},
        "timm",
        {},
        r"blocks.0.mlp.fc1.weight must be \(24, 12\) for block_0/mlp/up/kernel; got \(30, 12\)",
    ),
    "part": ({}, "timm", {QKV: np.zeros((30, 12))}, r"\[key\] must be \(12, 12\).*got \(10, 12\)"),
    "rank": ({}, "timm", {"norm.bias": np.zeros((1, 12))}, r"must be \(12,\) .* got \(1, 12\)"),
    "patch": (
        {"patch_size": 6},
        "timm",
        {},
        r"\(12, 3, 6, 6\) for patches/kernel; got \(12, 3, 4,",
    ),
    "token": ({}, "timm", {"cls_token": np.zeros((1, 12))}, r"be \(1, 1, 12\) .* got \(1, 12\)"),
    "classes": (
        {"num_classes": 7},
        "timm",
        {},
        r"head.weight must be \(7, 12\) for head_0/kernel; got \(5, 12\); head=False skips it",
    ),
    "no head": ({}, "timm", {"head.weight": None}, "head.weight is missing.*head=False skips it"),
    "fewer blocks": (
        {"depth": 1},
        "timm",
        {},
        r"blocks.1.attn.proj.bias \(12,\) has(.*\n)+  and 8 more",
    ),
    "more blocks": ({"depth": 3}, "timm", {}, "blocks.2.norm1.weight is missing"),
    "no biases": ({}, "timm_deit3", {}, r"blocks.0.attn.qkv.bias\[query\] is missing"),
    "biases": (
        DEIT3 | {"layer_scale": None},
        "timm",
        {},
        r"qkv.bias\[value\] \(12,\) has no counterpart",
    ),
    "no scale": ({"layer_scale": 0.1}, "timm", {}, "blocks.0.ls1.gamma is missing"),
    "never a scale": (
        {"layer_scale": 0.1},
        "hugging_face_vit",
        {},
        "block_0/self_scale of the model has no counterpart in Hugging Face weights",
    ),
    "one token": ({}, "timm_distilled", {}, r"pos_embed must .* num_tokens=1; got \(1, 11, 12\)"),
    "no square": ({}, "timm", {"pos_embed": np.zeros((1, 8, 12))}, "pos_embed must .* square"),
    "two tables": ({}, "timm", {"pos_embed": np.zeros((2, 5, 12))}, r"\(1, N, D\) .*\(2, 5, 12\)"),
    "fixed": (
        {"position": "sincos_2d"},
        "timm",
        {},
        r"pos_embed\[patches\] \(9, 12\) has no counterpart",
    ),
    "mean first": (
        {"num_tokens": 0},
        "timm_mean_first",
        {},
        r'fc_norm.weight \(12,\) has no counterpart in the model; pool="mean_first" has one',
    ),
    "mean beside a token": ({}, "timm_token_mean_first", {}, 'pool="mean_first" has one'),
    "norm first": (
        {"num_tokens": 0, "pool": "mean_first"},
        "timm_mean",
        {},
        r"fc_norm.weight is missing, must be \(12,\) for last_norm/scale",
    ),
    "never mean first": (
        {"pool": "mean_first"},
        "hugging_face_vit",
        {},
        "last_norm/scale of the model has no counterpart in Hugging Face weights",
    ),
    "one head for the mean": (
        {"num_tokens": 2, "pool": "mean"},
        "timm_distilled",
        {},
        r"head_dist.weight \(5, 12\) has no counterpart in the model",
    ),
    "learned mean": (
        {"num_tokens": 0, "pool": "sequence"},
        "timm_mean",
        {},
        "importance/kernel of the model has no counterpart in timm weights; head=False skips it",
    ),
    "one head": (
        {"num_tokens": 2},
        "hugging_face_deit",
        {"distillation_classifier.bias": None},
        r"distillation_classifier.bias is missing, must be \(5,\) for head_1/bias",
    ),
}


@pytest.fixture(scope="module")
def build():
    """Built models by their options; shared, because refused weights must not change them."""
    models = {}

    def get(options):
        key = repr(options)
        if key not in models:
            models[key] = make(**options)
            models[key].build((None, 12, 12, 3))
        return models[key]

    return get


@pytest.mark.parametrize("options, name, changes, message", WRONG.values(), ids=WRONG)
def test_weights_that_do_not_fit_are_named_and_nothing_is_loaded(
    build, options, name, changes, message, read, weights_by_path
):
    model = build(options)
    before = weights_by_path(model)
    weights = {key: array for key, array in (read(name) | changes).items() if array is not None}
    with pytest.raises(ValueError, match=message):
        load_weights(model, weights)
    for path, array in weights_by_path(model).items():
        np.testing.assert_array_equal(array, before[path])


def test_an_augreg_file_with_another_number_of_heads_is_refused(build, augreg):
    with pytest.raises(ValueError, match=r"query/kernel must be \(12, 3, 4\).*got \(12, 2, 6\)"):
        load_weights(build({}), augreg)
