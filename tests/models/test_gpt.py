"""GPT-2: published parameter counts, its definition in NumPy, and generation from a prompt."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.decoding import DECODERS
from tfx_transformer.models import GPT, create_model

TOKENS = np.array([[1, 5, 6, 7, 4], [1, 9, 3, 0, 0]])
OPTIONS = {
    "the paper": {},
    "rotary, grouped": {
        "attention": {"kind": "grouped_query", "num_kv_heads": 2, "position": "rotary"}
    },
    "rms": {"norm": "rms", "activation": "swiglu"},
}
SIZES = {  # with 50,257 tokens
    "small": 124_439_808,
    "medium": 354_823_168,
    "large": 774_030_080,
    "xl": 1_557_611_200,
}
START, END, PAD = 1, 2, 0
DECODER = {
    "greedy": {"kind": "greedy"},
    "beam": {"kind": "beam", "width": 3, "n_best": 2},
    "sample": {"kind": "sample", "seed": 3, "n_best": 4},
}


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def count(variant):
    return create_model("gpt", variant, vocab_size=50_257, initializer="zeros").count_params()


def test_the_parameter_count_of_the_small_variant_is_the_published_one():
    assert count("small") == SIZES["small"]


@pytest.mark.slow
def test_the_parameter_count_of_the_medium_variant_is_the_published_one():
    assert count("medium") == SIZES["medium"]


@pytest.mark.parametrize("variant", SIZES)
def test_the_sizes_of_all_variants_give_the_published_counts(variant):
    """By arithmetic: the largest would take 6 GB."""
    d, f, depth = (GPT.variants[variant][name] for name in ("dim", "mlp_dim", "depth"))
    block = 4 * (d * d + d) + d * f + f + f * d + d + 4 * d
    assert 50_257 * d + 1024 * d + depth * block + 2 * d == SIZES[variant]
    assert d // GPT.variants[variant]["num_heads"] == 64


MADE: dict[str, keras.Model] = {}  # each model once; no test changes it


@pytest.fixture(params=OPTIONS)
def model(request, randomize):
    if request.param not in MADE:
        model = create_model("gpt", "test", vocab_size=11, **OPTIONS[request.param])
        MADE[request.param] = randomize(model, TOKENS)
    return MADE[request.param]


@pytest.fixture
def plain(randomize):
    return randomize(create_model("gpt", "test", vocab_size=11), TOKENS)


def reference(model, tokens):
    """GPT-2 in NumPy, row by row and head by head: (T,) → (T, V)."""
    w = {v.path.split("/", 1)[1]: np.asarray(v.value, "float64") for v in model.weights}

    def norm(x, name):
        unit = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return unit * w[f"{name}/scale"] + w[f"{name}/offset"]

    def dense(x, name):
        return x @ w[f"{name}/kernel"] + w[f"{name}/bias"]

    def gelu(x):
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    def attend(x, name):
        q = dense(x, f"{name}/query")
        k, v = np.split(dense(x, f"{name}/key_value"), 2, axis=1)
        y = np.zeros_like(q)
        for t in range(len(x)):
            for i in range(0, 16, 4):
                part = slice(i, i + 4)
                weights = np.exp(k[: t + 1, part] @ q[t, part] / 2)
                y[t, part] = weights / weights.sum() @ v[: t + 1, part]
        return dense(y, f"{name}/output")

    x = w["tokens/table"][tokens] + w["position_embedding/table"][: len(tokens)]
    for i in range(2):
        x = x + attend(norm(x, f"block_{i}/self_norm"), f"block_{i}/self_attention")
        y = gelu(dense(norm(x, f"block_{i}/mlp_norm"), f"block_{i}/mlp/up"))
        x = x + dense(y, f"block_{i}/mlp/down")
    return norm(x, "last_norm") @ w["tokens/table"].T


def test_it_is_its_definition_in_loops(plain):
    for tokens, logits in zip(TOKENS, numpy(plain(TOKENS)), strict=True):
        np.testing.assert_allclose(logits, reference(plain, tokens), atol=1e-4)


def test_step_by_step_equals_all_at_once(model):
    whole = numpy(model(TOKENS))
    state = model.initial_state(TOKENS, max_length=9)
    np.testing.assert_allclose(numpy(model.step(TOKENS, state, 0)[0]), whole, atol=1e-5)  # a chunk
    for t in range(5):
        logits, state = model.step(TOKENS[:, t], state, t)
        np.testing.assert_allclose(numpy(logits), whole[:, t], atol=1e-5)


def test_attention_is_causal(model):
    changed = TOKENS.copy()
    changed[:, 3:] = [[8, 10], [2, 6]]
    before, after = numpy(model(TOKENS)), numpy(model(changed))
    np.testing.assert_allclose(after[:, :3], before[:, :3], atol=1e-5)
    assert (np.abs(after[:, 3:] - before[:, 3:]).max(axis=-1) > 1e-3).all()


def test_padding_on_the_right_changes_nothing(model):
    padded = np.pad(TOKENS, ((0, 0), (0, 3)))
    np.testing.assert_allclose(numpy(model(padded))[:, :5], numpy(model(TOKENS)), atol=1e-5)


def test_every_token_and_its_position_matter(model):
    swapped = TOKENS[:, [0, 2, 1, 3, 4]]
    difference = np.abs(numpy(model(swapped)) - numpy(model(TOKENS)))[:, 2:]
    assert (difference.max(axis=-1) > 1e-3).all()


def test_attention_maps_are_distributions_over_the_past(model):
    maps = {name: numpy(x) for name, x in model.attention_maps(TOKENS).items()}
    assert sorted(maps) == ["block_0/self", "block_1/self"]
    for weights in maps.values():
        assert weights.shape == (2, 4, 5, 5)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
        assert (np.triu(weights, 1) == 0).all() and (weights[:, :, -1] > 0).all()


def generate(model, decoder, prompt, max_length=9, **options):
    """Tokens generated after START, (B, n_best, max_length), and their scores."""
    state = model.initial_state(prompt, max_length)
    result = DECODERS.make(decoder)(
        model.step, state, len(prompt), max_length, START, END, PAD, prefix=prompt, **options
    )
    return {name: numpy(x) for name, x in result.items()}


def log_probs(model, tokens):
    """Log-probability of each token (L,), given START and the tokens before it."""
    logits = reference(model, np.concatenate([[START], tokens[:-1]]))
    logits = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return logits[np.arange(len(tokens)), tokens]


PROMPT = np.array([[5, 6, 7], [9, 3, PAD], [4, PAD, PAD]])
LENGTHS = (3, 2, 1)


@pytest.mark.parametrize("decoder", DECODER)
def test_decoders_continue_the_prompt(plain, decoder):
    result = generate(plain, DECODER[decoder], PROMPT)
    for row, length in enumerate(LENGTHS):
        for tokens, total, score in zip(
            *(result[name][row] for name in ("tokens", "length", "log_prob")), strict=True
        ):
            np.testing.assert_array_equal(tokens[:length], PROMPT[row, :length])
            assert total > length
            assert (tokens[total:] == PAD).all()
            np.testing.assert_allclose(score, log_probs(plain, tokens[:total]).sum(), atol=1e-3)


def test_greedy_decoding_takes_the_likeliest_token(plain):
    result = generate(plain, "greedy", PROMPT)
    for row, length in enumerate(LENGTHS):
        tokens = [START, *PROMPT[row, :length]]
        while len(tokens) < 10 and tokens[-1] != END:
            logits = reference(plain, np.array(tokens))[-1]
            logits[[START, PAD]] = -np.inf
            tokens.append(int(logits.argmax()))
        tokens += [PAD] * (10 - len(tokens))
        assert result["tokens"][row, 0].tolist() == tokens[1:]


def test_a_beam_finds_tokens_at_least_as_likely_as_greedy(plain):
    greedy = generate(plain, "greedy", PROMPT[:, :1])
    beam = {"kind": "beam", "width": 8, "length_penalty": 0.0}
    wide = generate(plain, beam, PROMPT[:, :1])
    assert (wide["log_prob"] >= greedy["log_prob"] - 1e-4).all()


def test_samples_depend_on_the_seed_alone(plain):
    samples = [
        generate(plain, {"kind": "sample", "seed": seed, "n_best": 6}, PROMPT)["tokens"]
        for seed in (3, 3, 4)
    ]
    np.testing.assert_array_equal(samples[0], samples[1])
    assert (samples[0] != samples[2]).any()
    assert len({tuple(tokens) for tokens in samples[0][0]}) > 1


@pytest.mark.parametrize("decoder", DECODER)
def test_generation_runs_in_a_graph_with_any_batch_and_length(plain, decoder):
    @tf.function(
        input_signature=[tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], "int32")],
        autograph=False,
    )
    def run(prompt, max_length):
        state = plain.initial_state(prompt, max_length)
        options = {"prefix": prompt, "num_known": tf.reduce_min(tf.math.count_nonzero(prompt, 1))}
        return DECODERS.make(DECODER[decoder])(
            plain.step, state, tf.shape(prompt)[0], max_length, START, END, PAD, **options
        )

    for prompt in (PROMPT, PROMPT[:2], PROMPT[:1], np.zeros_like(PROMPT)):
        expected = generate(plain, DECODER[decoder], prompt)  # token by token
        result = run(prompt.astype("int32"), 9)
        np.testing.assert_array_equal(numpy(result["tokens"]), expected["tokens"])
        np.testing.assert_allclose(numpy(result["score"]), expected["score"], atol=1e-4)


def test_one_token_may_be_start_end_and_padding(plain):
    """As in OpenAI's vocabulary."""
    prompt = np.array([[5, 6], [9, 10]])  # the second is shorter
    state = plain.initial_state(prompt, 7)
    result = DECODERS.make("greedy")(plain.step, state, 2, 7, 10, 10, 10, prefix=prompt)
    tokens = numpy(result["tokens"])[:, 0]
    assert tokens[0, :2].tolist() == [5, 6] and tokens[1, 0] == 9
    expected = reference(plain, np.array([10, 9]))[-1].argmax()
    assert tokens[1, 1] == expected


def test_more_tokens_than_positions_are_refused(plain):
    with pytest.raises(
        ValueError, match="must not exceed the model's 32 positions; got max_length=33"
    ):
        plain.initial_state(TOKENS, 33)
    with pytest.raises(ValueError, match="must fit into max_length=32; got length 33"):
        plain(np.ones((1, 33), int))


def test_initial_weights_have_the_published_deviation():
    model = create_model("gpt", "test", vocab_size=2000, dim=64, mlp_dim=128, max_length=300)
    for weight in model.weights:
        values = numpy(weight)
        if values.ndim == 1:
            assert (values == (weight.name == "scale")).all(), weight.path
        else:
            assert 0.0185 < values.std() < 0.0215 and np.abs(values).max() > 0.05, weight.path


TARGETS, WEIGHTS = TOKENS[:, 1:], (TOKENS[:, 1:] != PAD).astype("float32")
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@pytest.mark.parametrize("options", OPTIONS)
def test_the_loss_reaches_every_weight(options):
    model = create_model("gpt", "test", vocab_size=11, **OPTIONS[options])
    with tf.GradientTape() as tape:
        value = LOSS(TARGETS, model(TOKENS[:, :-1], training=True), WEIGHTS)
    gradients = tape.gradient(value, [weight.value for weight in model.trainable_weights])
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, weight.path


def test_it_learns_one_batch():
    model = create_model("gpt", "test", vocab_size=11, dropout=0.0)
    model.compile(keras.optimizers.Adam(0.01), LOSS, jit_compile=False)
    losses = [float(model.train_on_batch(TOKENS[:, :-1], TARGETS, WEIGHTS)) for _ in range(60)]
    assert losses[-1] < 0.2 * losses[0]


def test_a_saved_model_loads(model, tmp_path):
    model.save(tmp_path / "gpt.keras")
    again = keras.saving.load_model(tmp_path / "gpt.keras")
    np.testing.assert_allclose(numpy(again(TOKENS)), numpy(model(TOKENS)), atol=1e-6)
    assert again.get_config() == model.get_config()


def test_half_precision_gives_nearly_the_same(plain):
    half = create_model("gpt", "test", vocab_size=11, dtype="mixed_float16")
    half.set_weights(plain.get_weights())
    logits, _ = half.step(TOKENS[:, 0], half.initial_state(TOKENS, 3), 0)
    assert numpy(logits).dtype == "float16"
    np.testing.assert_allclose(numpy(logits), numpy(plain(TOKENS))[:, 0], atol=0.1)
    np.testing.assert_allclose(numpy(half(TOKENS)), numpy(plain(TOKENS)), atol=0.1)


def test_dropout_applies_to_embeddings_layers_and_scores():
    model = create_model("gpt", "test", vocab_size=11, dropout=0.3)
    attention = model.blocks[0].self_attention
    assert [x.drop.rate for x in (model, model.blocks[0], attention)] == [0.3] * 3
    first, second = (numpy(model(TOKENS, training=True)) for _ in range(2))
    assert np.abs(first - second).max() > 0
