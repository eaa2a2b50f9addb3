"""The captioning model against plain numpy, and what must be true of any weights."""

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
SEEN = {"features": FEATURES, "target": TARGET}
SHAPES = {"image": (None, 32, 32, 3), "target": (None, None)}
VIT = {"kind": "vit", "variant": "tiny", "options": {"image_size": 32, "patch_size": 8}}
KINDS = {
    "soft": {},
    "hard": {"hard": True},
    "one look": {"attention": None},
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
    model = create_model("show_attend_tell", "tiny", vocab_size=11, **options)
    model.build(SHAPES)
    return model


@pytest.fixture
def make_model(randomise):
    def make(scale=0.6, **options):
        return randomise(create(**options), scale=scale)

    return make


MADE: dict = {}  # each kind once, and its logits; no test changes it


@pytest.fixture(params=KINDS)
def made(request, make_model):
    if request.param not in MADE:
        model = make_model(**KINDS[request.param])
        MADE[request.param] = model, numpy(model(INPUTS))
    return MADE[request.param]


# what is computed


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def definition(model, regions, target):
    """One picture, word after word: regions (S, C), target (T,) → logits (T, V), looks (T, S)."""

    def dense(layer, x):
        return x @ numpy(layer.kernel) + numpy(layer.bias)

    decoder = model.decoder
    cell, attend = decoder.cells[0].cell, getattr(decoder, "attend", None)
    h, c = (np.tanh(dense(layer, regions.mean(axis=0))) for layer in model.first[0])
    logits, looks = [], []
    for token in target:
        context = regions.mean(axis=0)
        if attend:
            keys = regions @ numpy(attend.key.kernel)
            hidden = np.tanh(dense(attend.query, h) + keys)
            look = softmax(hidden @ numpy(attend.energy)[0])
            if model.hard:
                look = np.eye(len(look))[look.argmax()]
            looks.append(look)
            context = sigmoid(dense(decoder.open, h)) * (look @ regions)
        x = np.concatenate([numpy(decoder.embedding(np.array([[token]])))[0, 0], context])
        gates = x @ numpy(cell.kernel) + h @ numpy(cell.recurrent_kernel) + numpy(cell.bias)
        i, f, new, o = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(new)
        h = sigmoid(o) * np.tanh(c)
        features = np.tanh(dense(decoder.combine, np.concatenate([context, h])))
        logits.append(dense(decoder.head, features))
    return np.array(logits), np.array(looks)


@pytest.mark.parametrize("kind", ["soft", "hard", "one look"])
def test_it_is_its_definition_in_loops(make_model, kind):
    model = make_model(**KINDS[kind])
    logits, maps = numpy(model(SEEN)), model.attention_maps(SEEN)
    for b in range(2):
        expected, looks = definition(model, FEATURES[b], TARGET[b])
        close(logits[b], expected)
        if maps:
            close(maps["decoder/cross"][b, 0], looks)
    assert bool(maps) == (kind != "one look")


def test_what_was_seen_of_an_image_may_stand_for_it(made):
    model, whole = made
    regions = model.look(IMAGES)
    rows, columns = model.grid()
    assert (rows, columns) == (4, 4) and regions.shape == (2, 16, model.regions.dim)
    close(model({"features": regions, "target": TARGET}), whole)
    state = model.initial_state({"features": regions}, max_length=3)
    close(model.step(TARGET[:, 0], state, 0)[0], whole[:, 0])


def test_every_word_looks_anew_unless_it_may_look_but_once(make_model):
    """Other regions of the same mean are the same to a model that looks but once."""
    same_mean = 2 * FEATURES.mean(axis=1, keepdims=True) - FEATURES
    moved = {"features": same_mean, "target": TARGET}
    once, soft = make_model(attention=None), make_model()
    assert once.attention_maps(SEEN) == {}
    close(once(moved), numpy(once(SEEN)))
    assert (np.abs(numpy(soft(moved)) - numpy(soft(SEEN))).max(axis=-1) > 1e-4).all()
    weights = numpy(soft.attention_maps(SEEN)["decoder/cross"])
    assert np.abs(weights[:, :, 1:] - weights[:, :, :-1]).max() > 1e-2
    state = once.initial_state(SEEN, max_length=3)
    for t in range(3):
        close(state["fixed"]["memory"][:, 0], FEATURES.mean(axis=1))
        _, state = once.step(TARGET[:, t], state, t)


# what holds of every model that generates


def test_step_by_step_equals_all_at_once(made):
    model, whole = made
    state = model.initial_state({"image": IMAGES}, max_length=3)
    for t in range(3):
        logits, state = model.step(TARGET[:, t], state, t)
        close(logits, whole[:, t])


def test_more_padding_changes_nothing(made):
    model, whole = made
    padded = {"image": IMAGES, "target": np.pad(TARGET, ((0, 0), (0, 2)))}
    close(numpy(model(padded))[:, :3], whole)


def test_the_past_does_not_see_the_future(made):
    model, whole = made
    changed = numpy(model({"image": IMAGES, "target": np.array([[1, 7, 9], [1, 9, 4]])}))
    close(changed[:, :2], whole[:, :2], atol=1e-6)
    assert (np.abs(changed - whole)[:, 2].max(axis=-1) > 1e-4).all()


@pytest.mark.parametrize("kind", ["soft", "one look", "deep GRU"])
def test_the_loss_reaches_every_weight(kind):
    model = create(**KINDS[kind])
    with tf.GradientTape() as tape:
        value = loss()(TARGETS, model(INPUTS, training=True))
    weights = model.trainable_weights
    gradients = tape.gradient(value, [weight.value for weight in weights])
    still = [
        w.path
        for w, g in zip(weights, gradients, strict=True)
        if g is None or not np.abs(tf.convert_to_tensor(g)).max()
    ]
    assert still == []


@pytest.mark.parametrize(
    "options", [KINDS["hard"] | {"freeze": True}, KINDS["one look"] | {"encoder": VIT}]
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


def test_the_paper_s_model_sees_fourteen_by_fourteen_regions_of_a_frozen_vgg():
    model = create_model("show_attend_tell", "paper", vocab_size=11, encoder="keras", dim=20)
    model.build({"image": (None, 224, 224, 3), "target": (None, None)})
    assert (model.grid(), model.regions.dim, model.freeze) == ((14, 14), 512, True)
    assert not model.regions.trainable_weights and len(model.regions.weights) == 32
    assert type(model).variants["paper"]["encoder"] == {"kind": "keras", "backbone": "VGG19"}


# what training adds: a penalty, and the reward of a hard look


def test_the_penalty_is_how_far_each_region_is_from_being_looked_at_once(make_model):
    model = make_model(coverage=0.7, dropout=0.0)
    target = np.array([[1, 7, 8, 5], [1, 9, 0, 0], [0, 0, 0, 0]])  # the last fills the batch
    features = FEATURES[[0, 1, 0]]
    model({"features": features, "target": target}, training=True)
    total = 0
    for b, length in enumerate([4, 2]):  # words that are not there do not look
        _, looks = definition(model, FEATURES[b], target[b, :length])
        total += sum((1 - looks[:, s].sum()) ** 2 for s in range(16))
    (penalty,) = model.losses
    close(penalty, 0.7 * total / (4 + 2))


@pytest.mark.parametrize("kind", ["soft", "one look"])
def test_nothing_is_added_where_there_is_nothing_to_add(make_model, kind):
    model = make_model(**KINDS[kind])
    model(SEEN)
    assert model.losses == []
    model(SEEN, training=True)
    assert len(model.losses) == (kind == "soft") and float(model.baseline) == 0


def reward(logits, target):
    """(B,): the log-likelihood of the words, but for what follows the last."""
    totals = []
    for b, words in enumerate(target):
        following = [(t, word) for t, word in enumerate(words[1:]) if word]
        totals.append(sum(np.log(softmax(logits[b, t])[word]) for t, word in following))
    return np.array(totals)


@pytest.fixture
def drawn(draw):
    """Logits (B, T, V), what was seen (B, 1, T, S) by chance, and words of different number."""
    b, t, s, v = 3, 4, 6, 11
    soft = np.apply_along_axis(softmax, -1, draw(b, 1, t, s)).astype("float32")
    place = np.random.default_rng(1).integers(s, size=(b, 1, t))
    seen = {"soft": soft, "weights": np.eye(s, dtype="float32")[place]}
    return draw(b, t, v), seen, np.array([[1, 7, 8, 5], [1, 9, 0, 0], [1, 4, 10, 0]])


def test_a_hard_look_is_rewarded_by_what_it_is_better_than_usual(drawn):
    model = create(hard=True, entropy=0.3)
    model.baseline.assign(-2.0)
    logits, seen, target = drawn
    value = model.unlucky(*keras.tree.map_structure(ops.convert_to_tensor, (logits, seen, target)))

    rewards = reward(logits, target)
    usual = 0.9 * -2.0 + 0.1 * rewards.mean()
    close(model.baseline, usual)
    gain = 0
    for b, count in enumerate([3, 1, 2]):  # words of which the next is known
        for t in range(count):
            soft, place = seen["soft"][b, 0, t], seen["weights"][b, 0, t].argmax()
            entropy = -(soft * np.log(soft)).sum()
            gain += (rewards[b] - usual) * np.log(soft[place]) + 0.3 * entropy
    close(value, -gain / 6)


def test_rows_that_fill_a_batch_and_more_heads_change_nothing_but_their_share(drawn):
    logits, seen, target = drawn

    def value(logits, seen, target):
        model = create(hard=True, entropy=0.3)
        model.baseline.assign(-2.0)
        inputs = keras.tree.map_structure(ops.convert_to_tensor, (logits, seen, target))
        return float(model.unlucky(*inputs)), float(model.baseline)

    own = value(logits, seen, target)
    filled = keras.tree.map_structure(lambda x: x[[0, 1, 2, 0]], seen)
    empty = np.concatenate([target, 0 * target[:1]])
    assert value(logits[[0, 1, 2, 0]], filled, empty) == pytest.approx(own, abs=1e-5)
    twice = keras.tree.map_structure(lambda x: np.repeat(x, 2, axis=1), seen)  # two equal heads
    assert value(logits, twice, target)[0] == pytest.approx(2 * own[0], abs=1e-4)


def test_the_scores_move_to_the_region_that_was_drawn_if_it_was_a_good_one(drawn):
    """The gradient by the scores is REINFORCE's: −(reward − usual) (drawn − soft)."""
    model = create(hard=True, entropy=0.0)
    model.baseline.assign(-6.0)
    logits, seen, target = drawn
    scores, weights = tf.Variable(np.log(seen["soft"])), tf.constant(seen["weights"])
    words = tf.Variable(logits)
    with tf.GradientTape() as tape:
        soft = {"soft": tf.nn.softmax(scores), "weights": weights}
        value = model.unlucky(words, soft, tf.constant(target))
    gradient, of_words = tape.gradient(value, [scores, words])
    assert of_words is None  # they learn from the words that follow, not from the reward

    advantage = reward(logits, target) - float(model.baseline)
    assert advantage.min() < -0.5 and advantage.max() > 0.5  # a bad look and a good one
    real = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0]])[:, None, :, None]
    expected = -advantage[:, None, None, None] * (seen["weights"] - seen["soft"]) * real / 6
    close(gradient, expected)


def test_in_training_the_reward_is_of_the_words_it_said(make_model):
    model = make_model(hard=True, dropout=0.0)
    usual = 0.0
    for _ in range(2):
        logits = numpy(model(SEEN, training=True))
        usual = 0.9 * usual + 0.1 * reward(logits, TARGET).mean()
        close(model.baseline, usual)
        assert len(model.losses) == 1  # what teaches the look; a drawn one has no penalty


def test_a_hard_look_learns_where_to_look():
    """One region of four is marked, and it alone tells the word: the others tell any word."""
    rng = np.random.default_rng(0)

    def draw(count):
        places, words = rng.integers(4, size=count), rng.integers(3, size=(count, 4))
        regions = 2 * np.eye(5, dtype="float32")[1 + words]
        regions[np.arange(count), places, 0] = 2  # the mark
        word = 4 + words[np.arange(count), places]
        target = np.stack([np.ones_like(word), word], axis=1)
        return {"features": regions, "target": target}, word, places

    model = create(hard=True, dropout=0.0, freeze=True)
    model.compile(keras.optimizers.Adam(0.03), loss(), jit_compile=False)
    inputs, words, _ = draw(120 * 64)
    targets = np.stack([words, np.full_like(words, 2)], axis=1)
    model.fit(inputs, targets, batch_size=64, shuffle=False, verbose=0)
    inputs, words, places = draw(300)
    looks = numpy(model.attention_maps(inputs)["decoder/cross"])[:, 0, 0]
    assert (looks.argmax(axis=-1) == places).mean() > 0.95
    assert (numpy(model(inputs))[:, 0].argmax(axis=-1) == words).mean() > 0.95


def test_half_precision_keeps_the_baseline_whole(make_model):
    model = make_model(hard=True, dtype="mixed_bfloat16")
    logits = model(SEEN, training=True)
    assert keras.backend.standardize_dtype(logits.dtype) == model.compute_dtype
    assert model.baseline.dtype == "float32"
    assert all(np.isfinite(float(value)) for value in model.losses)


# the encoder


def test_a_frozen_encoder_stays_with_its_batch_statistics(make_model):
    model = make_model(freeze=True)
    before = {weight.path: numpy(weight).copy() for weight in model.weights}
    model.compile(keras.optimizers.SGD(1.0), loss(), run_eagerly=True)
    model.train_on_batch(INPUTS, TARGETS)
    moved = {w.path for w in model.weights if not np.array_equal(before[w.path], numpy(w))}
    assert len(moved) > 10 and not moved & {weight.path for weight in model.regions.weights}

    free = make_model()
    before = [numpy(weight).copy() for weight in free.regions.non_trainable_weights]
    free(INPUTS, training=True)
    for weight, old in zip(free.regions.non_trainable_weights, before, strict=True):
        assert np.abs(numpy(weight) - old).max() > 1e-4


def test_a_frozen_encoder_gets_no_gradient_and_sees_the_same_in_training(make_model):
    frozen, free = make_model(freeze=True), make_model()
    assert not frozen.regions.trainable_weights and free.regions.trainable_weights
    frozen.set_weights(free.get_weights())
    expected = numpy(free.look(IMAGES))
    close(frozen.look(IMAGES, training=True), expected)
    assert np.abs(numpy(free.look(IMAGES, training=True)) - expected).max() > 1e-2


# decoding


def decode(model, kind, max_length=4, **options):
    decoder = DECODERS.make({"kind": kind} | options)
    state = model.initial_state({"image": IMAGES}, max_length)
    result = decoder(model.step, state, 2, max_length, start_id=1, end_id=2, pad_id=0)
    return {name: numpy(value) for name, value in result.items()}


DECODING = {
    "greedy": {},
    "beam": {"width": 3, "n_best": 2},
    "sample": {"seed": 3, "num_samples": 3},
}


@pytest.mark.parametrize(
    "kind, decoder", [*(("soft", name) for name in DECODERS), ("deep GRU", "beam")]
)
def test_hypotheses_keep_their_own_state(make_model, kind, decoder):
    """A state handed to the wrong hypothesis would not give the whole model's log-probability."""
    model = make_model(**KINDS[kind], scale=0.9)
    found = decode(model, decoder, **DECODING[decoder])
    for n in range(found["tokens"].shape[1]):
        tokens = found["tokens"][:, n]
        target = np.concatenate([np.ones((2, 1), int), tokens[:, :-1]], axis=1)
        logs = numpy(ops.log_softmax(model({"image": IMAGES, "target": target})))
        chosen = np.take_along_axis(logs, tokens[..., None], axis=-1)[..., 0]
        real = np.arange(4) < found["length"][:, n, None]
        close(found["log_prob"][:, n], np.where(real, chosen, 0).sum(axis=1), atol=1e-4)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"coverage": -1.0}, "coverage must be above zero; got coverage=-1.0"),
        ({"entropy": -1}, "entropy must be above zero; got entropy=-1"),
        ({"dropout": 1.0}, "dropout must lie in 0 <= dropout < 1"),
        ({"image_size": 0}, "image_size must be a whole number above zero; got image_size=0"),
        ({"embedding_dim": 0}, "embedding_dim must be a whole number above zero"),
        ({"encoder": "cnn"}, "unknown regions 'cnn'; known: efficientnet_lite0, keras, small, vit"),
        ({"hard": True, "attention": None}, "hard=True must have an attention to harden"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        create_model("show_attend_tell", "tiny", vocab_size=11, **options)
