"""BERT: published parameter counts, its definition in NumPy, and its heads."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.models import create_model

TOKENS = np.array([[1, 5, 6, 2, 7, 2], [1, 9, 2, 0, 0, 0]])
SEGMENTS = np.array([[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]])
INPUTS = {"tokens": TOKENS, "segments": SEGMENTS}
HEADS = {
    "features": {},
    "mlm": {"head": "mlm"},
    "pretraining": {"head": "mlm", "next_sentence": True},
    "classify": {"head": "classify", "num_classes": 5},
}
COUNTS = {  # with the pooler and 30,522 tokens
    "tiny": 4_385_920,
    "mini": 11_170_560,
    "small": 28_763_648,
    "medium": 41_373_184,
    "base": 109_482_240,
}
HEAD_COUNTS = {"mlm": 109_514_298, "pretraining": 110_106_428, "classify": 109_486_085}
LARGE = {"features": 335_141_888, "mlm": 335_174_458, "pretraining": 336_226_108}


def numpy(x):
    return keras.tree.map_structure(keras.ops.convert_to_numpy, x)


def flat(outputs):
    return keras.tree.flatten(numpy(outputs))


def count(variant, **options):
    options |= {"initializer": "zeros"}  # fast
    return create_model("bert", variant, vocab_size=30_522, **options).count_params()


@pytest.mark.parametrize("variant", COUNTS)
def test_the_parameter_counts_are_the_published_ones(variant):
    assert count(variant) == COUNTS[variant]


@pytest.mark.parametrize("head", HEAD_COUNTS)
def test_the_parameter_counts_of_the_heads_are_the_published_ones(head):
    assert count("base", **HEADS[head]) == HEAD_COUNTS[head]


@pytest.mark.slow
@pytest.mark.parametrize("head", LARGE)
def test_the_parameter_counts_of_the_large_variant_are_the_published_ones(head):
    assert count("large", **HEADS[head]) == LARGE[head]


@pytest.fixture(params=HEADS)
def model(request, randomize):
    return randomize(create_model("bert", "test", vocab_size=11, **HEADS[request.param]), INPUTS)


def test_each_head_has_its_output_shapes(randomize):
    shapes = {}
    for head, options in HEADS.items():
        outputs = create_model("bert", "test", vocab_size=11, **options)(INPUTS)
        shapes[head] = keras.tree.map_structure(lambda x: x.shape, numpy(outputs))
    assert shapes == {
        "features": {"tokens": (2, 6, 16), "sentence": (2, 16)},
        "mlm": (2, 6, 11),
        "pretraining": {"tokens": (2, 6, 11), "sentence": (2, 2)},
        "classify": (2, 5),
    }


def reference(model, inputs, activation):
    """BERT in NumPy, row by row and head by head: features, sentence vector, token logits."""
    w = {v.path.split("/", 1)[1]: np.asarray(v.value, "float64") for v in model.weights}

    def norm(x, name):
        unit = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return unit * w[f"{name}/scale"] + w[f"{name}/offset"]

    def dense(x, name):
        return x @ w[f"{name}/kernel"] + w[f"{name}/bias"]

    def attend(x, name):
        q = dense(x, f"{name}/query")
        k, v = np.split(dense(x, f"{name}/key_value"), 2, axis=1)
        heads = []
        for i in range(0, 16, 4):
            part = slice(i, i + 4)
            weights = np.exp(q[:, part] @ k[:, part].T / 2)
            heads.append(weights / weights.sum(-1, keepdims=True) @ v[:, part])
        return dense(np.concatenate(heads, axis=1), f"{name}/output")

    for tokens, segments in zip(inputs["tokens"], inputs["segments"], strict=True):
        tokens = tokens[tokens != 0]  # without padding
        segments = segments[: len(tokens)]
        x = w["tokens/table"][tokens] + w["segments/table"][segments]
        x = norm(x + w["position_embedding/table"][: len(tokens)], "first_norm")
        for i in range(2):
            x = norm(x + attend(x, f"block_{i}/self_attention"), f"block_{i}/self_norm")
            y = activation(dense(x, f"block_{i}/mlp/up"))
            x = norm(x + dense(y, f"block_{i}/mlp/down"), f"block_{i}/mlp_norm")
        y = norm(activation(dense(x, "head_dense")), "head_norm")
        yield x, np.tanh(dense(x[0], "pooler")), y @ w["tokens/table"].T + w["head_bias"]


GELU = {
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
}


@pytest.mark.parametrize("activation", GELU)
def test_it_is_its_definition_in_loops(randomize, activation):
    options = HEADS["pretraining"] | {"activation": activation}
    model = randomize(create_model("bert", "test", vocab_size=11, **options), INPUTS)
    features, _, _ = model.encode(INPUTS)
    sentences, features = numpy(model.pool_tokens(features)), numpy(features)
    logits = numpy(model(INPUTS))
    head_next = [numpy(x) for x in (model.head_next.kernel, model.head_next.bias)]
    for i, (x, sentence, expected) in enumerate(reference(model, INPUTS, GELU[activation])):
        np.testing.assert_allclose(features[i, : len(x)], x, atol=1e-4)
        np.testing.assert_allclose(sentences[i], sentence, atol=1e-4)
        np.testing.assert_allclose(logits["tokens"][i, : len(x)], expected, atol=1e-4)
        np.testing.assert_allclose(
            logits["sentence"][i], sentence @ head_next[0] + head_next[1], atol=1e-4
        )


def test_more_padding_changes_nothing(model):
    padded = {name: np.pad(x, ((0, 0), (0, 4))) for name, x in INPUTS.items()}
    for before, after in zip(flat(model(INPUTS)), flat(model(padded)), strict=True):
        after = after[:, :6] if after.ndim == 3 else after
        np.testing.assert_allclose(after[0], before[0], atol=1e-5)
        before, after = (x[1, :3] if x.ndim == 3 else x[1] for x in (before, after))
        np.testing.assert_allclose(after, before, atol=1e-5)


def test_rows_of_a_batch_are_independent(model):
    for i in range(2):
        alone = flat(model({name: x[i : i + 1] for name, x in INPUTS.items()}))
        for one, both in zip(alone, flat(model(INPUTS)), strict=True):
            np.testing.assert_allclose(one[0], both[i], atol=1e-5)


@pytest.mark.parametrize(
    "changed",
    [
        {"tokens": TOKENS[:, [0, 2, 1, 3, 4, 5]], "segments": SEGMENTS},
        {"tokens": TOKENS, "segments": 0 * SEGMENTS},
    ],
    ids=["order", "segments"],
)
def test_changes_at_the_end_reach_the_first_token(model, changed):
    before, after = (flat(model(x))[0][0] for x in (INPUTS, changed))
    assert np.abs(after - before).reshape(-1, before.shape[-1])[0].max() > 1e-3


def test_without_segments_all_are_segment_0(model):
    for one, other in zip(
        flat(model({"tokens": TOKENS})),
        flat(model({"tokens": TOKENS, "segments": 0 * SEGMENTS})),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_attention_maps_are_distributions_over_the_real_tokens(model):
    maps = numpy(model.attention_maps(INPUTS))
    assert sorted(maps) == ["block_0/self", "block_1/self"]
    for weights in maps.values():
        assert weights.shape == (2, 4, 6, 6)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
        assert (weights[1, :, :, 3:] == 0).all() and (weights[0] > 0).all()


def test_it_comes_back_from_a_file(model, tmp_path):
    model.save(tmp_path / "bert.keras")
    again = keras.saving.load_model(tmp_path / "bert.keras")
    for one, other in zip(flat(again(INPUTS)), flat(model(INPUTS)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert again.get_config() == model.get_config()


def test_it_starts_as_the_paper_says():
    model = create_model("bert", "test", vocab_size=2000, dim=64, mlp_dim=128, head="mlm")
    for weight in model.weights:
        values = numpy(weight)
        if values.ndim == 1:
            assert (values == (weight.name == "scale")).all(), weight.path
        elif values.size > 2000:  # a normal of deviation 0.02, cut at twice that
            assert np.abs(values).max() <= 0.04 and 0.016 < values.std() < 0.019, weight.path


def test_it_learns_the_masked_tokens_of_one_batch():
    model = create_model("bert", "test", vocab_size=11, head="mlm", dropout=0.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    weights = np.array([[0, 1, 0, 0, 1, 0], [0, 1, 0, 0, 0, 0]], "float32")
    masked = {"tokens": np.where(weights == 1, 10, TOKENS), "segments": SEGMENTS}
    with tf.GradientTape() as tape:
        value = loss(TOKENS, model(masked, training=True), weights)
    gradients = tape.gradient(value, [weight.value for weight in model.trainable_weights])
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, weight.path
    model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=False)
    losses = [float(model.train_on_batch(masked, TOKENS, weights)) for _ in range(40)]
    assert losses[-1] < 0.2 * losses[0]
    predicted = numpy(model(masked)).argmax(-1)
    assert (predicted == TOKENS)[weights == 1].all()


def test_half_precision_gives_nearly_the_same(randomize):
    for options in HEADS.values():
        whole = randomize(create_model("bert", "test", vocab_size=11, **options), INPUTS)
        half = create_model("bert", "test", vocab_size=11, dtype="mixed_float16", **options)
        half.set_weights(whole.get_weights())
        for one, other in zip(flat(half(INPUTS)), flat(whole(INPUTS)), strict=True):
            assert one.dtype == "float16"
            np.testing.assert_allclose(one, other, atol=0.1)


def test_dropout_applies_to_embeddings_layers_scores_and_the_class_head():
    model = create_model("bert", "test", vocab_size=11, dropout=0.3, **HEADS["classify"])
    attention = model.blocks[0].self_attention
    assert [x.drop.rate for x in (model, model.blocks[0], attention)] == [0.3] * 3
    first, second = (numpy(model(INPUTS, training=True)) for _ in range(2))
    assert np.abs(first - second).max() > 0


def test_wrong_options_are_named():
    def make(**options):
        create_model("bert", "test", vocab_size=11, **options)

    with pytest.raises(ValueError, match="unknown head 'qa'; known: None, mlm, classify"):
        make(head="qa")
    with pytest.raises(ValueError, match='num_classes is for head="classify", and needed'):
        make(num_classes=3)
    with pytest.raises(ValueError, match="got head='classify', num_classes=None"):
        make(head="classify")
    with pytest.raises(ValueError, match="num_classes must be a whole number above zero"):
        make(head="classify", num_classes=0)
    with pytest.raises(ValueError, match='next_sentence needs head="mlm"; got head=None'):
        make(next_sentence=True)
    model = create_model("bert", "test", vocab_size=11, max_length=4)
    with pytest.raises(ValueError, match="must fit into max_length=4; got length 6"):
        model(INPUTS)
