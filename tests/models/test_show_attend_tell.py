"""The captioning model: its definition in NumPy, its losses, its encoder, decoding."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tfx_transformer.decoding import DECODERS
from tfx_transformer.models import create_model

RNG = np.random.default_rng(5)
IMAGES = RNG.normal(size=(2, 32, 32, 3)).astype("float32")
FEATURES = RNG.normal(size=(2, 16, 5)).astype("float32")
TARGET = np.array([[1, 7, 8], [1, 9, 5]])
TARGETS = np.array([[7, 8, 2], [9, 5, 2]])
INPUTS = {"image": IMAGES, "target": TARGET}
FROM_FEATURES = {"features": FEATURES, "target": TARGET}
VIT = {"kind": "vit", "variant": "test", "options": {"image_size": 32, "patch_size": 8}}
KINDS = {
    "soft": {},
    "hard": {"hard": True},
    "no attention": {"attention": None},
    "no attention, deep GRU": {"attention": None, "cell": "gru", "depth": 2},
    "ViT": {"encoder": VIT},
    "deep GRU": {"cell": "gru", "depth": 2, "attention": "bilinear"},
}


def numpy(x):
    return ops.convert_to_numpy(x)


def close(result, expected, atol=1e-5):
    np.testing.assert_allclose(numpy(result), expected, atol=atol)


def loss():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def create(**options):
    return create_model("show_attend_tell", "test", vocab_size=11, **options)


@pytest.fixture
def make_model(randomize):
    def make(scale=0.6, **options):
        return randomize(create(**options), scale=scale)

    return make


MADE: dict = {}  # each kind once, and its logits; no test changes it


@pytest.fixture(params=KINDS)
def made(request, make_model):
    if request.param not in MADE:
        model = make_model(**KINDS[request.param])
        MADE[request.param] = model, numpy(model(INPUTS))
    return MADE[request.param]


# definition


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def definition(model, features, target):
    """One image, token by token: features (S, C), target (T,) → logits (T, V), weights (T, S)."""

    def dense(layer, x):
        return x @ numpy(layer.kernel) + numpy(layer.bias)

    decoder = model.decoder
    cell, attention = decoder.cells[0].cell, getattr(decoder, "attention_layer", None)

    def step(x, h, c):
        gates = x @ numpy(cell.kernel) + h @ numpy(cell.recurrent_kernel) + numpy(cell.bias)
        i, f, new, o = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(new)
        return sigmoid(o) * np.tanh(c), c

    if attention:
        h, c = (np.tanh(dense(layer, features.mean(axis=0))) for layer in model.first_state[0])
    else:  # Show and Tell: the image is the input before the first token, and of no other step
        zeros = np.zeros(model.dim)
        h, c = step(dense(model.image_embedding, features.mean(axis=0)), zeros, zeros)
    logits, weights = [], []
    for token in target:
        context = np.zeros(0)
        if attention:
            keys = features @ numpy(attention.key.kernel)
            hidden = np.tanh(dense(attention.query, h) + keys)
            weight = softmax(hidden @ numpy(attention.energy)[0])
            if model.hard:
                weight = np.eye(len(weight))[weight.argmax()]
            weights.append(weight)
            context = sigmoid(dense(decoder.gate_layer, h)) * (weight @ features)
        x = np.concatenate([numpy(decoder.embedding(np.array([[token]])))[0, 0], context])
        h, c = step(x, h, c)
        readout = h
        if attention:
            readout = np.tanh(dense(decoder.combine, np.concatenate([context, h])))
        logits.append(dense(decoder.head, readout))
    return np.array(logits), np.array(weights)


@pytest.mark.parametrize("kind", ["soft", "hard", "no attention"])
def test_it_is_its_definition_in_loops(make_model, kind):
    model = make_model(**KINDS[kind])
    logits, maps = numpy(model(FROM_FEATURES)), model.attention_maps(FROM_FEATURES)
    for b in range(2):
        expected, weights = definition(model, FEATURES[b], TARGET[b])
        close(logits[b], expected)
        if maps:
            close(maps["decoder/cross"][b, 0], weights)
    assert bool(maps) == (kind != "no attention")


def test_features_may_replace_the_image(made):
    model, whole = made
    features = model.encode_image(IMAGES)
    rows, columns = model.grid()
    assert (rows, columns) == (4, 4) and features.shape == (2, 16, model.image_encoder.dim)
    close(model({"features": features, "target": TARGET}), whole)
    state = model.initial_state({"features": features}, max_length=3)
    close(model.step(TARGET[:, 0], state, 0)[0], whole[:, 0])


def test_attention_changes_with_each_token_and_without_it_only_the_mean_matters(make_model):
    same_mean = 2 * FEATURES.mean(axis=1, keepdims=True) - FEATURES
    moved = {"features": same_mean, "target": TARGET}
    without, soft = make_model(attention=None), make_model()
    assert without.attention_maps(FROM_FEATURES) == {}
    close(without(moved), numpy(without(FROM_FEATURES)))
    assert (np.abs(numpy(soft(moved)) - numpy(soft(FROM_FEATURES))).max(axis=-1) > 1e-4).all()
    weights = numpy(soft.attention_maps(FROM_FEATURES)["decoder/cross"])
    assert np.abs(weights[:, :, 1:] - weights[:, :, :-1]).max() > 1e-2


# every generating model


def test_step_by_step_equals_all_at_once(made):
    model, whole = made
    state = model.initial_state({"image": IMAGES}, max_length=3)
    close(model.step(TARGET, state, 0)[0], whole)  # a chunk
    for t in range(3):
        logits, state = model.step(TARGET[:, t], state, t)
        close(logits, whole[:, t])


def test_more_padding_changes_nothing(made):
    model, whole = made
    padded = {"image": IMAGES, "target": np.pad(TARGET, ((0, 0), (0, 2)))}
    close(numpy(model(padded))[:, :3], whole)


def test_logits_depend_on_earlier_tokens_only(made):
    model, whole = made
    changed = numpy(model({"image": IMAGES, "target": np.array([[1, 7, 9], [1, 9, 4]])}))
    close(changed[:, :2], whole[:, :2], atol=1e-6)
    assert (np.abs(changed - whole)[:, 2].max(axis=-1) > 1e-4).all()


@pytest.mark.parametrize("kind", ["soft", "no attention", "deep GRU"])
def test_the_loss_reaches_every_weight(kind):
    model = create(**KINDS[kind])
    with tf.GradientTape() as tape:
        value = loss()(TARGETS, model(INPUTS, training=True))
    weights = model.trainable_weights
    gradients = tape.gradient(value, [weight.value for weight in weights])
    unreached = [
        w.path
        for w, g in zip(weights, gradients, strict=True)
        if g is None or not np.abs(tf.convert_to_tensor(g)).max()
    ]
    assert unreached == []


@pytest.mark.parametrize(
    "options", [KINDS["hard"] | {"freeze": True}, KINDS["no attention"] | {"encoder": VIT}]
)
def test_saved_and_loaded_gives_the_same_logits(make_model, options, tmp_path):
    model = make_model(**options)
    model.baseline.assign(-3.5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    close(loaded(INPUTS), numpy(model(INPUTS)), atol=1e-6)
    assert loaded.get_config() == model.get_config() and float(loaded.baseline) == -3.5
    assert len(loaded.trainable_weights) == len(model.trainable_weights)


def test_the_decoder_gets_its_options():
    options = {
        "dim": 9,
        "depth": 2,
        "embedding_dim": 7,
        "cell": "gru",
        "attention": {"kind": "additive", "dim": 5},
        "hard": True,
        "dropout": 0.2,
        "initializer": "he_normal",
    }
    model = create(**options)
    assert {name: getattr(model.decoder, name) for name in options} == options
    assert model.decoder.gate and not create(attention=None).decoder.gate


def test_the_paper_s_model_has_a_frozen_vgg_with_a_grid_of_fourteen_by_fourteen():
    model = create_model("show_attend_tell", "paper", vocab_size=11, encoder="keras", dim=20)
    assert (model.grid(), model.image_encoder.dim, model.freeze) == ((14, 14), 512, True)
    assert not model.image_encoder.trainable_weights and len(model.image_encoder.weights) == 32
    assert type(model).variants["paper"]["encoder"] == {"kind": "keras", "backbone": "VGG19"}


# losses of training


def test_the_coverage_loss_is_its_definition(make_model):
    model = make_model(coverage=0.7, dropout=0.0)
    target = np.array([[1, 7, 8, 5], [1, 9, 0, 0], [0, 0, 0, 0]])  # the last is padding
    features = FEATURES[[0, 1, 0]]
    model({"features": features, "target": target}, training=True)
    total = 0
    for b, length in enumerate([4, 2]):  # without padding
        _, weights = definition(model, FEATURES[b], target[b, :length])
        total += sum((1 - weights[:, s].sum()) ** 2 for s in range(16))
    (penalty,) = model.losses
    close(penalty, 0.7 * total / (4 + 2))


@pytest.mark.parametrize("kind", ["soft", "no attention"])
def test_only_soft_attention_in_training_adds_a_coverage_loss(make_model, kind):
    model = make_model(**KINDS[kind])
    model(FROM_FEATURES)
    assert model.losses == []
    model(FROM_FEATURES, training=True)
    assert len(model.losses) == (kind == "soft") and float(model.baseline) == 0


def reward(logits, target):
    """(B,): the log-likelihood of each caption, without the token after the last."""
    totals = []
    for b, words in enumerate(target):
        following = [(t, word) for t, word in enumerate(words[1:]) if word]
        totals.append(sum(np.log(softmax(logits[b, t])[word]) for t, word in following))
    return np.array(totals)


@pytest.fixture
def sampled(draw):
    """Logits (B, T, V), scores (B, 1, T, S) with random samples, and captions of three lengths."""
    b, t, s, v = 3, 4, 6, 11
    soft = np.apply_along_axis(softmax, -1, draw(b, 1, t, s)).astype("float32")
    index = np.random.default_rng(1).integers(s, size=(b, 1, t))
    scores = {"soft": soft, "weights": np.eye(s, dtype="float32")[index]}
    return draw(b, t, v), scores, np.array([[1, 7, 8, 5], [1, 9, 0, 0], [1, 4, 10, 0]])


def test_the_policy_gradient_loss_is_its_definition(sampled):
    model = create(hard=True, entropy=0.3)
    model.baseline.assign(-2.0)
    logits, scores, target = sampled
    value = model.policy_gradient_loss(*keras.tree.map_structure(ops.convert_to_tensor, sampled))

    rewards = reward(logits, target)
    baseline = 0.9 * -2.0 + 0.1 * rewards.mean()
    close(model.baseline, baseline)
    gain = 0
    for b, count in enumerate([3, 1, 2]):  # tokens whose next token is known
        for t in range(count):
            soft, index = scores["soft"][b, 0, t], scores["weights"][b, 0, t].argmax()
            entropy = -(soft * np.log(soft)).sum()
            gain += (rewards[b] - baseline) * np.log(soft[index]) + 0.3 * entropy
    close(value, -gain / 6)


def test_rows_of_padding_do_not_count_and_heads_add_up(sampled):
    logits, scores, target = sampled

    def value(logits, scores, target):
        model = create(hard=True, entropy=0.3)
        model.baseline.assign(-2.0)
        inputs = keras.tree.map_structure(ops.convert_to_tensor, (logits, scores, target))
        return float(model.policy_gradient_loss(*inputs)), float(model.baseline)

    expected = value(logits, scores, target)
    padded = keras.tree.map_structure(lambda x: x[[0, 1, 2, 0]], scores)
    empty = np.concatenate([target, 0 * target[:1]])
    assert value(logits[[0, 1, 2, 0]], padded, empty) == pytest.approx(expected, abs=1e-5)
    twice = keras.tree.map_structure(lambda x: np.repeat(x, 2, axis=1), scores)  # two equal heads
    assert value(logits, twice, target)[0] == pytest.approx(2 * expected[0], abs=1e-4)


def test_the_gradient_of_the_energies_is_that_of_reinforce(sampled):
    """−(reward − baseline) (sampled − soft)."""
    model = create(hard=True, entropy=0.0)
    model.baseline.assign(-6.0)
    logits, scores, target = sampled
    energies, weights = tf.Variable(np.log(scores["soft"])), tf.constant(scores["weights"])
    variable = tf.Variable(logits)
    with tf.GradientTape() as tape:
        soft = {"soft": tf.nn.softmax(energies), "weights": weights}
        value = model.policy_gradient_loss(variable, soft, tf.constant(target))
    gradient, logits_gradient = tape.gradient(value, [energies, variable])
    assert logits_gradient is None  # logits are trained by the cross-entropy only

    advantage = reward(logits, target) - float(model.baseline)
    assert advantage.min() < -0.5 and advantage.max() > 0.5  # below and above the baseline
    real = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0]])[:, None, :, None]
    expected = -advantage[:, None, None, None] * (scores["weights"] - scores["soft"]) * real / 6
    close(gradient, expected)


def test_the_baseline_is_the_moving_average_of_the_reward(make_model):
    model = make_model(hard=True, dropout=0.0)
    baseline = 0.0
    for _ in range(2):
        logits = numpy(model(FROM_FEATURES, training=True))
        baseline = 0.9 * baseline + 0.1 * reward(logits, TARGET).mean()
        close(model.baseline, baseline)
        assert len(model.losses) == 1  # hard attention has no coverage loss


def test_hard_attention_learns_to_attend_to_the_marked_region():
    """One region of four is marked and determines the token; the others show random tokens."""
    rng = np.random.default_rng(0)

    def sample(count):
        marked, words = rng.integers(4, size=count), rng.integers(3, size=(count, 4))
        features = 2 * np.eye(5, dtype="float32")[1 + words]
        features[np.arange(count), marked, 0] = 2
        word = 4 + words[np.arange(count), marked]
        target = np.stack([np.ones_like(word), word], axis=1)
        return {"features": features, "target": target}, word, marked

    model = create(hard=True, dropout=0.0, freeze=True)
    model.compile(keras.optimizers.Adam(0.03), loss(), jit_compile=False)
    inputs, words, _ = sample(120 * 64)
    targets = np.stack([words, np.full_like(words, 2)], axis=1)
    model.fit(inputs, targets, batch_size=64, shuffle=False, verbose=0)
    inputs, words, marked = sample(300)
    weights = numpy(model.attention_maps(inputs)["decoder/cross"])[:, 0, 0]
    assert (weights.argmax(axis=-1) == marked).mean() > 0.95
    assert (numpy(model(inputs))[:, 0].argmax(axis=-1) == words).mean() > 0.95


def test_half_precision_keeps_the_baseline_in_float32(make_model):
    model = make_model(hard=True, dtype="mixed_bfloat16")
    logits = model(FROM_FEATURES, training=True)
    assert keras.backend.standardize_dtype(logits.dtype) == model.compute_dtype
    assert model.baseline.dtype == "float32"
    assert all(np.isfinite(float(value)) for value in model.losses)


# the encoder


def test_a_frozen_encoder_and_its_batch_statistics_do_not_change(make_model):
    model = make_model(freeze=True)
    before = {weight.path: numpy(weight).copy() for weight in model.weights}
    model.compile(keras.optimizers.SGD(1.0), loss(), run_eagerly=True)
    model.train_on_batch(INPUTS, TARGETS)
    changed = {w.path for w in model.weights if not np.array_equal(before[w.path], numpy(w))}
    assert len(changed) > 10 and not changed & {
        weight.path for weight in model.image_encoder.weights
    }

    free = make_model()
    before = [numpy(weight).copy() for weight in free.image_encoder.non_trainable_weights]
    free(INPUTS, training=True)
    for weight, old in zip(free.image_encoder.non_trainable_weights, before, strict=True):
        assert np.abs(numpy(weight) - old).max() > 1e-4


def test_a_frozen_encoder_gets_no_gradient_and_runs_in_inference_mode(make_model):
    frozen, free = make_model(freeze=True), make_model()
    assert not frozen.image_encoder.trainable_weights and free.image_encoder.trainable_weights
    frozen.set_weights(free.get_weights())
    expected = numpy(free.encode_image(IMAGES))
    close(frozen.encode_image(IMAGES, training=True), expected)
    assert np.abs(numpy(free.encode_image(IMAGES, training=True)) - expected).max() > 1e-2


# decoding


def decode(model, kind, max_length=4, **options):
    decoder = DECODERS.make({"kind": kind} | options)
    state = model.initial_state({"image": IMAGES}, max_length)
    result = decoder(model.step, state, 2, max_length, start_id=1, end_id=2, pad_id=0)
    return {name: numpy(value) for name, value in result.items()}


DECODING = {
    "greedy": {},
    "beam": {"width": 3, "n_best": 2},
    "sample": {"seed": 3, "n_best": 3},
}


@pytest.mark.parametrize(
    "kind, decoder", [*(("soft", name) for name in DECODERS), ("deep GRU", "beam")]
)
def test_hypotheses_keep_their_own_state(make_model, kind, decoder):
    """A state handed to the wrong hypothesis would change the log-probability."""
    model = make_model(**KINDS[kind], scale=0.9)
    result = decode(model, decoder, **DECODING[decoder])
    for n in range(result["tokens"].shape[1]):
        tokens = result["tokens"][:, n]
        target = np.concatenate([np.ones((2, 1), int), tokens[:, :-1]], axis=1)
        logs = numpy(ops.log_softmax(model({"image": IMAGES, "target": target})))
        chosen = np.take_along_axis(logs, tokens[..., None], axis=-1)[..., 0]
        real = np.arange(4) < result["length"][:, n, None]
        close(result["log_prob"][:, n], np.where(real, chosen, 0).sum(axis=1), atol=1e-4)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"coverage": -1.0}, "coverage must be above zero; got coverage=-1.0"),
        ({"entropy": -1}, "entropy must be above zero; got entropy=-1"),
        ({"dropout": 1.0}, "dropout must lie in 0 <= dropout < 1"),
        ({"image_size": 0}, "image_size must be a whole number above zero; got image_size=0"),
        ({"embedding_dim": 0}, "embedding_dim must be a whole number above zero"),
        (
            {"encoder": "cnn"},
            "unknown image encoder 'cnn'; known: efficientnet_lite0, keras",
        ),
        ({"hard": True, "attention": None}, "hard=True needs an attention"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        create_model("show_attend_tell", "test", vocab_size=11, **options)
