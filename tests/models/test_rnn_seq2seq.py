"""Recurrent translation models: published parameter counts, encoder, decoding."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tfx_transformer.decoding import DECODERS
from tfx_transformer.models import create_model
from tfx_transformer.models.rnn_seq2seq import reverse_sequences

SOURCE = np.array([[4, 5, 6, 2, 0], [4, 7, 2, 0, 0]])
BACKWARDS = np.array([[2, 6, 5, 4, 0], [2, 7, 4, 0, 0]])
ORDER = np.array([[3, 2, 1, 0, 4], [2, 1, 0, 3, 4]])  # indices of SOURCE in it
TARGET = np.array([[1, 7, 8], [1, 9, 5]])
TARGETS = np.array([[7, 8, 2], [9, 5, 2]])
INPUTS = {"source": SOURCE, "target": TARGET}
KINDS = {
    "Sutskever": {"reverse_source": True},
    "Cho": {"cell": "gru", "feed": "context", "readout": "deep", "depth": 1},
    "Bahdanau": {
        "cell": "gru",
        "depth": 1,
        "bidirectional": True,
        "attention": "additive",
        "feed": "context",
        "readout": "deep",
    },
    "Luong": {
        "reverse_source": True,
        "attention": "bilinear",
        "feed": "features",
        "readout": "combined",
    },
    "bidirectional, without attention": {"bidirectional": True, "feed": "context", "depth": 2},
}
PAIRS = [(f, r) for f in ("none", "context", "features") for r in ("state", "combined", "deep")]
UNUSED = [("none", "state"), ("features", "state")]  # refused: nothing would use the attention
USED = [
    (attention, *pair)
    for pair, attention in zip(
        [pair for pair in PAIRS if pair not in UNUSED],
        ["additive", "bilinear", "dot"] * 3,  # each in turn
        strict=False,
    )
]


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.fixture
def make_model(randomize):
    def make(scale=0.5, **options):
        return randomize(create_model("rnn_seq2seq", "test", vocab_size=11, **options), scale=scale)

    return make


MADE: dict[str, keras.Model] = {}  # one of each kind; no test changes it


@pytest.fixture(params=KINDS)
def model(request, make_model):
    if request.param not in MADE:
        MADE[request.param] = make_model(**KINDS[request.param])
    return MADE[request.param]


# models published in one series of notebooks, on Multi30k


def count(name, variant, **options):
    model = create_model(name, variant, vocab_size=5_893, source_vocab_size=7_853, **options)
    return model.count_params()


@pytest.mark.parametrize(
    "variant, size", [("sutskever", 13_890_309), ("cho", 14_219_781), ("bahdanau", 20_518_405)]
)
def test_the_parameter_counts_are_the_published_ones(variant, size):
    assert count("rnn_seq2seq", variant) == size


def test_the_transformer_of_that_series_has_the_published_count_without_its_output_bias():
    sizes = {"dim": 256, "depth": 3, "num_heads": 8, "mlp_dim": 512, "tie": "none"}
    position = {"kind": "learned", "max_length": 100}
    assert count("transformer", "test", position=position, **sizes) + 5_893 == 9_038_341


# the encoder


def test_rows_are_reversed_up_to_their_padding(draw):
    mask = ops.convert_to_tensor(SOURCE != 0)
    np.testing.assert_array_equal(
        numpy(reverse_sequences(ops.convert_to_tensor(SOURCE), mask)), BACKWARDS
    )
    x = draw(2, 5, 3)
    expected = np.stack([row[order] for row, order in zip(x, ORDER, strict=True)])
    np.testing.assert_array_equal(
        numpy(reverse_sequences(ops.convert_to_tensor(x), mask)), expected
    )


@pytest.mark.parametrize("kind", KINDS)
def test_reverse_source_reverses_the_source(make_model, kind):
    forwards, backwards = (
        make_model(**KINDS[kind] | {"reverse_source": reverse}) for reverse in (False, True)
    )
    backwards.set_weights(forwards.get_weights())
    by_hand = {"source": BACKWARDS, "target": TARGET}
    expected = numpy(forwards(by_hand))
    np.testing.assert_allclose(numpy(backwards(INPUTS)), expected, atol=1e-5)
    assert np.abs(numpy(forwards(INPUTS)) - expected).max() > 1e-3
    if forwards.attention:  # scores are in the order of the source
        expected = numpy(forwards.attention_maps(by_hand)["decoder/cross"])
        expected = np.stack([row[..., order] for row, order in zip(expected, ORDER, strict=True)])
        result = numpy(backwards.attention_maps(INPUTS)["decoder/cross"])
        np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_bidirectional_encoder_is_two_recurrent_layers(make_model, cell):
    options = {"bidirectional": True, "attention": "additive", "feed": "context", "depth": 1}
    model = make_model(cell=cell, **options)
    constant, carry = model.encode({"source": SOURCE})
    kind = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}[cell]
    layers = []
    for layer in (model.encoder[0].forward_layer, model.encoder[0].backward_layer):
        copy = kind(8, return_sequences=True, return_state=True)
        copy.build((None, None, 6))
        copy.set_weights(layer.get_weights())
        layers.append(copy)
    for b, length in enumerate([4, 3]):
        x = model.source_embedding(SOURCE[b : b + 1, :length])
        forward, *forward_state = layers[0](x)
        backward, *backward_state = layers[1](x[:, ::-1])
        memory = np.concatenate([numpy(forward)[0], numpy(backward)[0, ::-1]], axis=-1)
        np.testing.assert_allclose(numpy(constant["memory"][1])[b, 0, :length], memory, atol=1e-5)
        for j, (a, z) in enumerate(zip(forward_state, backward_state, strict=True)):
            bridge = model.bridges[0][j]
            both = np.concatenate([numpy(a)[0], numpy(z)[0]])
            state = np.tanh(both @ numpy(bridge.kernel) + numpy(bridge.bias))
            np.testing.assert_allclose(numpy(carry["states"][0][j])[b], state, atol=1e-5)


def test_without_attention_the_context_is_the_last_state(make_model):
    model = make_model(**KINDS["Cho"])
    constant, carry = model.encode({"source": SOURCE})
    np.testing.assert_array_equal(numpy(constant["memory"])[:, 0], numpy(carry["states"][-1][0]))


def test_every_source_token_and_its_position_matter(model):
    swapped = {"source": SOURCE[:, [1, 0, 2, 3, 4]], "target": TARGET}
    assert (np.abs(numpy(model(swapped)) - numpy(model(INPUTS))).max(axis=(1, 2)) > 1e-4).all()


# every generating model


def test_more_padding_changes_nothing(model):
    padded = {
        "source": np.pad(SOURCE, ((0, 0), (0, 3))),
        "target": np.pad(TARGET, ((0, 0), (0, 2))),
    }
    whole = numpy(model(INPUTS))
    np.testing.assert_allclose(numpy(model(padded))[:, :3], whole, atol=1e-5)
    alone = {"source": SOURCE[1:, :3], "target": TARGET[1:]}
    np.testing.assert_allclose(numpy(model(alone)), whole[1:], atol=1e-5)


def test_logits_depend_on_earlier_tokens_only(model):
    changed = {"source": SOURCE, "target": np.array([[1, 7, 9], [1, 9, 4]])}
    before, after = numpy(model(INPUTS)), numpy(model(changed))
    np.testing.assert_allclose(after[:, :2], before[:, :2], atol=1e-6)
    assert (np.abs(after - before)[:, 2].max(axis=-1) > 1e-4).all()


def check_steps(model):
    whole, state = numpy(model(INPUTS)), model.initial_state(INPUTS, max_length=3)
    logits, last = model.step(TARGET[:, :1], state, 0)
    np.testing.assert_allclose(numpy(logits), whole[:, :1], atol=1e-5)
    logits, last = model.step(TARGET[:, 1:], last, 1)  # a chunk
    np.testing.assert_allclose(numpy(logits), whole[:, 1:], atol=1e-5)
    for t in range(3):
        logits, state = model.step(TARGET[:, t], state, t)
        np.testing.assert_allclose(numpy(logits), whole[:, t], atol=1e-5)
    return state["carry"]


@pytest.mark.parametrize("attention, feed, readout", [*((None, *pair) for pair in PAIRS), *USED])
def test_step_by_step_equals_all_at_once(make_model, attention, feed, readout):
    options = {"attention": attention, "feed": feed, "readout": readout, "depth": 1}
    check_steps(make_model(cell="gru", **options))


def test_the_coverage_is_the_attention_summed_over_the_steps(model):
    carry = check_steps(model)  # here too: LSTM and GRU, deep, reversed, bidirectional
    if not model.attention:
        assert "coverage" not in carry
        return
    scores = numpy(model.attention_maps(INPUTS)["decoder/cross"])[:, 0]
    np.testing.assert_allclose(numpy(carry["coverage"]), scores.sum(axis=1), atol=1e-5)


@pytest.mark.parametrize("feed, readout", UNUSED)
def test_unused_attention_is_refused(feed, readout):
    options = {"attention": "dot", "feed": feed, "readout": readout}
    with pytest.raises(ValueError, match="attention='dot' must be used"):
        create_model("rnn_seq2seq", "test", vocab_size=11, **options)


def test_attention_maps_are_distributions_over_the_real_source(model):
    maps = model.attention_maps(INPUTS)
    if not model.attention:
        assert maps == {}
        return
    weights = numpy(maps.pop("decoder/cross"))
    assert maps == {} and weights.shape == (2, 1, 3, 5)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert not weights[0, :, :, 4:].any() and not weights[1, :, :, 3:].any()
    assert (weights[0, :, :, :4] > 0).all() and (weights[1, :, :, :3] > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_reaches_every_weight(kind):
    model = create_model("rnn_seq2seq", "test", vocab_size=11, **KINDS[kind])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with tf.GradientTape() as tape:
        value = loss(TARGETS, model(INPUTS, training=True))
    weights = model.trainable_weights
    gradients = tape.gradient(value, [weight.value for weight in weights])
    unreached = [
        w.path
        for w, g in zip(weights, gradients, strict=True)
        if g is None or not np.abs(tf.convert_to_tensor(g)).max()
    ]
    assert unreached == []


def test_it_learns_one_batch():
    options = KINDS["Luong"] | {"depth": 1, "dropout": 0.0, "scheduled_sampling": 0.2}
    model = create_model("rnn_seq2seq", "test", vocab_size=11, **options)
    model.compile(
        keras.optimizers.Adam(0.05),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    losses = [float(model.train_on_batch(INPUTS, TARGETS)) for _ in range(40)]
    assert losses[-1] < 0.2 * losses[0]


def test_saved_and_loaded_gives_the_same_logits(model, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(numpy(loaded(INPUTS)), numpy(model(INPUTS)), atol=1e-6)
    assert loaded.get_config() == model.get_config()


def test_the_decoder_gets_its_options():
    options = {
        "cell": "gru",
        "attention": {"kind": "additive", "dim": 5},
        "feed": "context",
        "readout": "deep",
        "dropout": 0.3,
        "scheduled_sampling": 0.2,
        "initializer": "he_normal",
    }
    model = create_model("rnn_seq2seq", "test", vocab_size=11, **options)
    assert {name: getattr(model.decoder, name) for name in options} == options
    assert model.decoder.attention_layer.dim == 5


# decoding


def decode(model, kind, max_length=4, **options):
    decoder = DECODERS.make({"kind": kind} | options)
    state = model.initial_state(INPUTS, max_length)
    result = decoder(model.step, state, 2, max_length, start_id=1, end_id=2, pad_id=0)
    return {name: numpy(value) for name, value in result.items()}


def log_probs(model, tokens):
    """Log-probabilities of tokens (B, T), of all tokens, and attention scores (B, T, S), if any."""
    target = np.concatenate([np.ones((2, 1), int), tokens[:, :-1]], axis=1)
    inputs = {"source": SOURCE, "target": target}
    logs = numpy(ops.log_softmax(model(inputs)))
    scores = model.attention_maps(inputs).get("decoder/cross")
    chosen = np.take_along_axis(logs, tokens[..., None], axis=-1)[..., 0]
    return chosen, logs, None if scores is None else numpy(scores)[:, 0]


def test_greedy_decoding_takes_the_most_likely_token(make_model):
    model = make_model(**KINDS["Luong"])
    result = decode(model, "greedy")
    tokens, length = result["tokens"][:, 0], result["length"][:, 0]
    _, logs, _ = log_probs(model, tokens)
    logs[..., :2] = -np.inf  # never PAD nor START
    for b in range(2):
        np.testing.assert_array_equal(tokens[b, : length[b]], logs[b, : length[b]].argmax(axis=-1))


@pytest.mark.parametrize(
    "kind, decoder, options, num",
    [
        ("Luong", "beam", {"width": 3, "n_best": 2}, 2),
        ("Cho", "beam", {"width": 2, "n_best": 2}, 2),
        ("Luong", "sample", {"seed": 3, "n_best": 3}, 3),
    ],
)
def test_hypotheses_keep_their_own_state(make_model, kind, decoder, options, num):
    """A state handed to the wrong hypothesis would change the log-probability."""
    model = make_model(**KINDS[kind] | {"depth": 1}, scale=0.8)
    result = decode(model, decoder, **options)
    assert result["tokens"].shape == (2, num, 4)
    for n in range(num):
        tokens = result["tokens"][:, n]
        chosen, _, _ = log_probs(model, tokens)
        real = np.arange(4) < result["length"][:, n, None]
        total = np.where(real, chosen, 0).sum(axis=1)
        np.testing.assert_allclose(result["log_prob"][:, n], total, atol=1e-4)


def test_the_coverage_penalty_is_computed_from_the_scores(make_model):
    model = make_model(**KINDS["Luong"])
    penalties = {"length_penalty": 0.0, "coverage_penalty": 0.7}
    result = decode(model, "beam", max_length=2, width=3, **penalties)  # too short to cover all
    tokens, length = result["tokens"][:, 0], result["length"][:, 0]
    _, _, scores = log_probs(model, tokens)
    for b, size in enumerate([4, 3]):
        coverage = np.minimum(scores[b, : length[b], :size].sum(axis=0), 1)
        penalty = 0.7 * np.log(coverage).sum()
        assert penalty < -1e-2
        np.testing.assert_allclose(
            result["score"][b, 0], result["log_prob"][b, 0] + penalty, atol=1e-4
        )


def test_a_coverage_penalty_needs_attention(make_model):
    with pytest.raises(ValueError, match="coverage_penalty=0.7 needs state.*does not keep"):
        decode(make_model(), "beam", coverage_penalty=0.7)
