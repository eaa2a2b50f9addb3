"""The recurrent decoder against its definition: NumPy loops over examples and tokens."""

import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.layers.recurrent import RecurrentDecoder

B, T, S, M, D, E, V = 2, 3, 4, 8, 6, 7, 11  # all different, so that a swapped axis cannot pass
TOKENS = np.array([[1, 9, 10], [1, 5, 0]])
REAL = np.array([[1, 1, 1, 1], [1, 1, 1, 0]], bool)

KINDS = {
    "Sutskever": {},
    "Cho": {"cell": "gru", "feed": "context", "readout": "deep"},
    "Bahdanau": {"cell": "gru", "attention": "additive", "feed": "context", "readout": "deep"},
    "Luong": {"attention": "bilinear", "feed": "features", "readout": "combined"},
    "dot": {"attention": "dot", "readout": "combined"},
    "Xu": {"attention": "additive", "feed": "context", "readout": "combined", "gate": True},
    "context to the state alone": {"attention": "additive", "feed": "context"},
    "deep, without feeding": {"attention": "bilinear", "readout": "deep", "cell": "gru"},
    "features without attention": {"feed": "features", "readout": "combined"},
}


def numpy(x):
    return ops.convert_to_numpy(x)


def close(result, expected, atol=1e-5):
    np.testing.assert_allclose(numpy(result), expected, atol=atol)


class Case:
    """A decoder with random weights, a memory (B, S, M) and first states for it."""

    def __init__(self, draw, randomize, scale=0.4, **options):
        self.options = {"depth": 2} | options
        self.decoder = RecurrentDecoder(V, D, embedding_dim=E, **self.options)
        attention = options.get("attention")
        width = D if attention == "dot" else M  # dot attention needs equal widths
        self.memory = draw(B, S if attention else 1, width)
        self.decoder.build((None, None), (None, None, width))
        randomize(self.decoder, scale=scale)
        parts = 2 if self.decoder.cell == "lstm" else 1
        self.states = [[draw(B, D) for _ in range(parts)] for _ in range(self.decoder.depth)]

    def start(self, rows=slice(None), memory=None):
        memory = ops.convert_to_tensor((self.memory if memory is None else memory)[rows])
        states = [[ops.convert_to_tensor(x[rows]) for x in state] for state in self.states]
        real = ops.convert_to_tensor(REAL[rows])
        return self.decoder.make_constant(memory, real), self.decoder.make_carry(states, real)

    def __call__(self, tokens=TOKENS, memory=None, **options):
        return self.decoder.attend(
            ops.convert_to_tensor(tokens), *self.start(memory=memory), **options
        )


@pytest.fixture(params=KINDS)
def case(request, draw, randomize):
    return Case(draw, randomize, **KINDS[request.param])


@pytest.fixture
def make_case(draw, randomize):
    return lambda **options: Case(draw, randomize, **options)


# the definition


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(layer, x, state):
    h, c = state
    gates = x @ number(layer.cell.kernel) + h @ number(layer.cell.recurrent_kernel)
    i, f, g, o = np.split(gates + number(layer.cell.bias), 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return [sigmoid(o) * np.tanh(c), c]


def gru(layer, x, state):
    """With a bias of the input and one of the state, which is reset after its product."""
    (h,) = state
    bias, state_bias = number(layer.cell.bias)
    x_z, x_r, x_g = np.split(x @ number(layer.cell.kernel) + bias, 3)
    h_z, h_r, h_g = np.split(h @ number(layer.cell.recurrent_kernel) + state_bias, 3)
    z, r = sigmoid(x_z + h_z), sigmoid(x_r + h_r)
    return [z * h + (1 - z) * np.tanh(x_g + r * h_g)]


def number(weight):
    return numpy(weight).astype("float64")


def dense(layer, x):
    return x @ number(layer.kernel) + (number(layer.bias) if layer.use_bias else 0)


def score(decoder, h, key):
    attention = decoder.attention_layer
    if decoder.attention == "dot":
        return h @ key
    if decoder.attention == "bilinear":
        return dense(attention.bilinear, h) @ key
    return number(attention.energy)[0] @ np.tanh(
        dense(attention.query, h) + dense(attention.key, key)
    )


def attend(decoder, h, memory, real):
    """The context (M,) of a state (D,) in a memory (S, M), and the weights (S,)."""
    if not decoder.attention:
        return memory[0], np.zeros(len(real))
    gate = sigmoid(dense(decoder.gate_layer, h)) if decoder.gate else 1.0
    scores = [score(decoder, h, key) if r else -np.inf for key, r in zip(memory, real, strict=True)]
    weights = np.exp(scores - np.max(scores))
    weights = weights / weights.sum()
    return gate * sum(w * value for w, value in zip(weights, memory, strict=True)), weights


def definition(case, masks=None, use_prediction=None):
    """Logits (B, T, V), weights (B, T, S), and the states [[(B, D), …]] × depth.

    masks: (depth - 1, B, D), dropout between layers; use_prediction: (B, T), scheduled sampling.
    """
    decoder = case.decoder
    cell = {"lstm": lstm, "gru": gru}[decoder.cell]
    table = number(decoder.embedding.table)
    table[0] = 0  # padding
    logits, scores = np.zeros((B, T, V)), np.zeros((B, T, S))
    last = [[np.zeros((B, D)) for _ in state] for state in case.states]
    for b in range(B):
        memory, real = case.memory[b].astype("float64"), REAL[b]
        states = [[part[b].astype("float64") for part in state] for state in case.states]
        features = np.zeros(decoder.features_dim)
        for t in range(T):
            word = table[TOKENS[b, t]]
            if use_prediction is not None and use_prediction[b, t]:
                word = table[np.argmax(logits[b, t - 1])]
            context, weights = attend(decoder, states[-1][0], memory, real)
            fed = {"none": word[:0], "context": context, "features": features}[decoder.feed]
            x = np.concatenate([word, fed])
            for i, layer in enumerate(decoder.cells):
                if i and masks is not None:
                    x = x * masks[i - 1, b]
                states[i] = cell(layer, x, states[i])
                x = states[i][0]
            if decoder.feed != "context":
                context, weights = attend(decoder, x, memory, real)
            features = x
            if decoder.readout == "combined":
                features = np.tanh(dense(decoder.combine, np.concatenate([context, x])))
            elif decoder.readout == "deep":
                features = np.concatenate([x, context, word])
            logits[b, t], scores[b, t] = dense(decoder.head, features), weights
        for i, state in enumerate(states):
            for j, part in enumerate(state):
                last[i][j][b] = part
    return logits, scores, last


def test_it_equals_its_definition_in_loops(case):
    expected, expected_weights, expected_states = definition(case)
    logits, scores, carry = case()
    close(logits, expected)
    for state, expected_state in zip(carry["states"], expected_states, strict=True):
        for part, expected_part in zip(state, expected_state, strict=True):
            close(part, expected_part)
    if case.decoder.attention:
        assert list(scores) == ["weights"]
        close(scores["weights"], expected_weights[:, None])
        close(carry["coverage"], expected_weights.sum(axis=1))
    else:
        assert scores == {} and "coverage" not in carry


def test_step_by_step_equals_all_at_once(case):
    check_steps(case)


@pytest.mark.parametrize("feed", ["none", "context", "features"])
@pytest.mark.parametrize(
    "attention", [{"kind": "local", "window": 3}, {"kind": "multi_head", "position": "rotary"}]
)
def test_attention_gets_the_positions_of_the_queries(make_case, attention, feed):
    case = make_case(attention=attention, feed=feed, readout="deep")
    check_steps(case)
    weights = numpy(case()[1]["weights"])
    if attention["kind"] == "local":
        window = np.abs(np.arange(T)[:, None] - np.arange(S)) <= 1
        assert ((weights > 0) == (window & REAL[:, None, None])).all()


def check_steps(case):
    whole, whole_scores, whole_carry = case()
    constant, carry = case.start()
    for t in range(T):
        tokens = ops.convert_to_tensor(TOKENS[:, t : t + 1])
        logits, scores, carry = case.decoder.attend(tokens, constant, carry, index=t)
        close(logits[:, 0], numpy(whole)[:, t])
        for name, weights in scores.items():
            close(weights[:, :, 0], numpy(whole_scores[name])[:, :, t])
    for now, then in zip(keras.tree.flatten(carry), keras.tree.flatten(whole_carry), strict=True):
        close(now, numpy(then))


def test_the_past_does_not_see_the_future(case):
    changed = TOKENS.copy()
    changed[:, 1] = [4, 7]
    before, after = numpy(case()[0]), numpy(case(changed)[0])
    close(after[:, 0], before[:, 0], atol=1e-6)
    assert (np.abs(after - before)[:, 1:].max(axis=-1) > 1e-4).all()


def test_masked_memory_has_no_influence(make_case):
    for options in (KINDS["Bahdanau"], KINDS["dot"], HARD):
        case = make_case(**options)
        before, scores, _ = case()
        after, _, _ = case(memory=case.memory + 100 * ~REAL[:, :, None])
        close(after, numpy(before))
        assert not numpy(scores["weights"])[1, :, :, 3].any()
        moved, _, _ = case(memory=case.memory + REAL[:, :, None])
        assert np.abs(numpy(moved) - numpy(before)).max() > 1e-3


# hard attention

HARD = {"attention": "additive", "readout": "deep", "hard": True}


@pytest.mark.parametrize("feed", ["none", "context", "features"])
def test_hard_attention_takes_the_most_likely_position_outside_of_training(make_case, feed):
    case = make_case(**HARD | {"feed": feed})
    _, scores, _ = case()
    weights, soft = numpy(scores["weights"]), numpy(scores["soft"])
    assert weights.shape == soft.shape == (B, 1, T, S)
    np.testing.assert_array_equal(weights, np.eye(S)[soft.argmax(axis=-1)])
    close(soft.sum(axis=-1), np.ones((B, 1, T)))
    assert (soft.max(axis=-1) < 0.99).all()  # the soft weights are spread out


def test_the_soft_weights_are_those_of_soft_attention(make_case, draw, randomize):
    hard = make_case(**HARD)
    soft = Case(draw, randomize, attention="additive", readout="deep")
    for weight, other in zip(
        soft.decoder.trainable_weights, hard.decoder.trainable_weights, strict=True
    ):
        weight.assign(other)
    soft.memory, soft.states = hard.memory, hard.states
    close(hard()[1]["soft"], numpy(soft()[1]["weights"]))
    assert np.abs(numpy(hard()[0]) - numpy(soft()[0])).max() > 1e-3


def test_the_context_of_hard_attention_is_the_chosen_position(make_case):
    case = make_case(**HARD)
    logits, scores, _ = case()
    position = numpy(scores["weights"])[:, 0].argmax(axis=-1)  # (B, T)
    word = numpy(case.decoder.embedding(TOKENS))
    for b in range(B):
        alone = case.memory[b, position[b]]  # (T, M)
        state = numpy(run_cells(case, b))
        features = np.concatenate([state, alone, word[b]], axis=-1)
        close(logits[b], features @ numpy(case.decoder.head.kernel) + numpy(case.decoder.head.bias))


def run_cells(case, b):
    """The states (T, D) of the last layer, which do not depend on the memory if nothing is fed."""
    x = case.decoder.embedding(TOKENS[b : b + 1])
    for layer, state in zip(case.decoder.cells, case.states, strict=True):
        x = layer(x, initial_state=[ops.convert_to_tensor(part[b : b + 1]) for part in state])[0]
    return x[0]


@pytest.mark.parametrize("feed", ["none", "context"])
def test_in_training_the_position_is_sampled_from_the_soft_weights(make_case, feed):
    case = make_case(**HARD | {"feed": feed, "scale": 0.7})
    copies = 4000
    rows = np.repeat([0, 1], copies)
    constant, carry = case.start(rows)
    tokens = ops.convert_to_tensor(TOKENS[rows, :2])
    _, scores, _ = case.decoder.attend(tokens, constant, carry, training=True)
    weights, soft = (numpy(scores[k])[:, 0].reshape(2, copies, 2, S) for k in ("weights", "soft"))
    assert np.isin(weights, [0, 1]).all() and (weights.sum(axis=-1) == 1).all()
    assert soft.max() - soft[soft > 0].min() > 0.2  # far from uniform
    np.testing.assert_allclose(weights.mean(axis=1), soft.mean(axis=1), atol=0.04)
    together = (weights[:, :, 0, :, None] * weights[:, :, 1, None]).mean(axis=1)  # (2, S, S)
    apart = (soft[:, :, 0, :, None] * soft[:, :, 1, None]).mean(axis=1)
    np.testing.assert_allclose(together, apart, atol=0.04)  # steps are sampled independently


# training


def test_no_scheduled_sampling_changes_nothing(case):
    close(case(training=True)[0], numpy(case()[0]), atol=1e-6)


@pytest.mark.parametrize("kind", ["Sutskever", "Bahdanau"])
def test_scheduled_sampling_replaces_all_tokens_but_the_first(make_case, kind):
    case = make_case(**KINDS[kind], scheduled_sampling=0.99, scale=0.8)
    forced, sampled = numpy(case()[0]), numpy(case(training=True)[0])
    np.testing.assert_allclose(sampled[:, 0], forced[:, 0], atol=1e-5)
    assert (np.abs(sampled - forced)[:, 1:].max(axis=(1, 2)) > 1e-2).all()


@pytest.mark.parametrize("kind", ["Sutskever", "Bahdanau", "Luong"])
def test_scheduled_sampling_feeds_the_most_likely_token(make_case, kind, monkeypatch):
    case = make_case(**KINDS[kind], scheduled_sampling=0.5, scale=0.8)
    use_prediction = np.array([[0, 1, 1], [0, 0, 1]], bool)
    noise = {"use_prediction": ops.convert_to_tensor(use_prediction)}
    monkeypatch.setattr(case.decoder, "sample_noise", lambda *_: noise)
    close(case(training=True)[0], definition(case, use_prediction=use_prediction)[0])
    assert (
        np.abs(definition(case, use_prediction=use_prediction)[0] - definition(case)[0]).max()
        > 1e-2
    )


def test_scheduled_sampling_replaces_the_given_fraction(make_case):
    decoder = make_case(scheduled_sampling=0.3).decoder
    tokens = ops.ones((400, 20), "int32")
    use_prediction = numpy(decoder.sample_noise(tokens, {}, True)["use_prediction"])
    assert not use_prediction[:, 0].any() and abs(use_prediction[:, 1:].mean() - 0.3) < 0.03
    assert decoder.sample_noise(tokens, {}, False) == {}


@pytest.mark.parametrize("kind", ["Sutskever", "Luong"])
def test_dropout_between_layers_is_the_same_at_all_positions(make_case, kind, monkeypatch):
    case = make_case(**KINDS[kind] | {"depth": 3}, dropout=0.5)
    monkeypatch.setattr(case.decoder.drop, "rate", 0.0)  # of embeddings and features
    noise = case.decoder.sample_noise(ops.convert_to_tensor(TOKENS), {}, True)
    monkeypatch.setattr(case.decoder, "sample_noise", lambda *_: noise)
    masks = numpy(noise["dropout"])
    assert masks.shape == (2, B, 1, D) and set(masks.flat) == {0.0, 2.0}
    assert len({masks[i, b].tobytes() for i in range(2) for b in range(B)}) == 2 * B
    close(case(training=True)[0], definition(case, masks=masks[:, :, 0])[0])


def test_dropout_acts_on_embeddings_and_features_in_training_only(make_case):
    case = make_case(dropout=0.5, depth=1)  # one layer: no dropout between layers
    assert np.abs(numpy(case(training=True)[0]) - numpy(case()[0])).max() > 1e-2
    close(case(training=False)[0], definition(case)[0])


# errors, saving, graphs


@pytest.mark.parametrize(
    "options, message",
    [
        ({"attention": "dot"}, "attention='dot' must be used: set readout="),
        ({"attention": "dot", "feed": "features"}, "attention='dot' must be used"),
        ({"hard": True}, "hard=True needs an attention; got attention=None"),
        ({"gate": True}, "gate=True needs an attention; got attention=None"),
        ({"feed": "state"}, "unknown feed 'state'; known: none, context, features"),
        ({"readout": "context"}, "unknown readout 'context'; known: state, combined, deep"),
        ({"cell": "rnn"}, "unknown cell 'rnn'; known: gru, lstm"),
        ({"dropout": 1.0}, "dropout must lie in 0 <= dropout < 1; got dropout=1.0"),
        ({"scheduled_sampling": 1}, "scheduled_sampling must lie in 0 <= scheduled_sampling < 1"),
        ({"dim": 0}, "dim must be a whole number above zero; got dim=0"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        RecurrentDecoder(**{"vocab_size": V, "dim": D, "depth": 1, "embedding_dim": E} | options)


def test_an_unknown_attention_lists_the_known():
    decoder = RecurrentDecoder(V, D, 1, E, attention="flashy", readout="deep")
    with pytest.raises(ValueError, match="unknown attention 'flashy'; known: additive"):
        decoder.build((None, None), (None, None, M))


def test_the_config_holds_every_argument_and_comes_back():
    options = {
        "vocab_size": V,
        "dim": D,
        "depth": 3,
        "embedding_dim": E,
        "cell": "gru",
        "attention": {"kind": "additive", "dim": 9},
        "feed": "context",
        "readout": "deep",
        "hard": True,
        "gate": True,
        "dropout": 0.2,
        "scheduled_sampling": 0.1,
        "initializer": "he_normal",
    }
    config = RecurrentDecoder(**options).get_config()
    assert {name: config[name] for name in options} == options
    again = RecurrentDecoder.from_config(config)
    assert again.get_config() == config
    again.build((None, None), (None, None, M))
    assert again.attention_layer.dim == 9


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("kind", ["Cho", "Luong"])
def test_half_precision_is_close_and_keeps_the_coverage_in_float32(make_case, kind, dtype):
    case = make_case(**KINDS[kind], dtype=dtype)
    half = case.decoder.compute_dtype
    case.memory, case.states = keras.tree.map_structure(
        lambda x: ops.cast(x, half), (case.memory, case.states)
    )
    logits, _, carry = case()
    assert keras.backend.standardize_dtype(logits.dtype) == half
    case.memory, case.states = keras.tree.map_structure(
        lambda x: numpy(ops.cast(x, "float32")), (case.memory, case.states)
    )
    close(ops.cast(logits, "float32"), definition(case)[0], atol=0.1)
    if case.decoder.attention:
        assert keras.backend.standardize_dtype(carry["coverage"].dtype) == "float32"


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.function")
@pytest.mark.parametrize("kind", ["Cho", "Luong", "sampled"])
def test_a_graph_of_unknown_shapes_has_finite_gradients_for_every_weight(make_case, kind):
    import tensorflow as tf

    training = {"dropout": 0.2, "scheduled_sampling": 0.4, "depth": 2}
    options = KINDS["Bahdanau"] | training if kind == "sampled" else KINDS[kind]
    case = make_case(**{"depth": 1} | options)
    decoder = case.decoder
    weights = [weight.value for weight in decoder.trainable_weights]
    noise = tf.random.stateless_normal((B, T, V), (1, 2))

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, None), tf.int32),
            tf.TensorSpec((None, None, case.memory.shape[-1])),
            tf.TensorSpec((None, None), tf.bool),
            [[tf.TensorSpec((None, D)) for _ in state] for state in case.states],
        ],
        autograph=False,
    )
    def run(tokens, memory, real, states):
        with tf.GradientTape() as tape:
            constant, carry = decoder.make_constant(memory, real), decoder.make_carry(states, real)
            logits, _, _ = decoder.attend(tokens, constant, carry, training=True)
            loss = tf.reduce_sum(noise[:, : tf.shape(logits)[1]] * logits)
        return logits, tape.gradient(loss, weights)

    states = [[tf.constant(part) for part in state] for state in case.states]
    inputs = tf.constant(case.memory), tf.constant(REAL), states
    logits, gradients = run(tf.constant(TOKENS, tf.int32), *inputs)
    if kind != "sampled":
        close(logits, definition(case)[0])
    for weight, gradient in zip(decoder.trainable_weights, gradients, strict=True):
        gradient = numpy(tf.convert_to_tensor(gradient))
        assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0, weight.path
    one = run(tf.constant(TOKENS[:, :1], tf.int32), *inputs)[0]  # length one at run time
    assert one.shape == (B, 1, V)
    if kind != "sampled":
        close(one, numpy(logits)[:, :1])
