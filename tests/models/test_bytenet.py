"""ByteNet against its definition in NumPy: counts, unfolding, padding, decoding."""

import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.decoding import DECODERS
from tfx_transformer.models import MODELS, create_model
from tfx_transformer.models.bytenet import dilations

SOURCE = np.array([[4, 5, 6, 2, 0], [4, 7, 2, 0, 0]])
TARGET = np.array([[1, 7, 8, 6, 3, 9], [1, 9, 5, 4, 8, 8]])  # longer than the source
TARGETS = np.array([[7, 8, 6, 3, 9, 2], [9, 5, 4, 8, 8, 2]])
INPUTS = {"source": SOURCE, "target": TARGET}
MADE: dict[str, keras.Model] = {}  # one of each; no test changes it


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.fixture(params=["relu", "multiplicative"])
def make_model(request, randomize):
    def make(encoder):
        name, options = f"{request.param} {encoder}", {"block": request.param, "encoder": encoder}
        if name not in MADE:
            model = create_model("bytenet", "test", vocab_size=11, length_offset=1, **options)
            MADE[name] = randomize(model)
        return MADE[name]

    return make


@pytest.fixture
def model(make_model):
    return make_model(encoder=True)


@pytest.fixture
def language_model(make_model):
    return make_model(encoder=False)


# parameter counts


def block_size(dim, kernel_size, block):
    norms = 2 * (2 * dim + dim + dim)
    ends = 2 * dim * dim + dim + dim * 2 * dim + 2 * dim
    if block == "relu":
        return norms + ends + kernel_size * dim * dim + dim
    return norms + ends + 4 * (kernel_size * dim * dim + dim) + 4 * (dim * dim + dim)


def model_size(vocab_size, dim, depth, block, encoder, kernel_size=3):
    width = 2 * dim
    stack = depth * block_size(dim, kernel_size, block) + 2 * width  # with a last norm
    stacks, tables = (2, 2) if encoder else (1, 1)
    features, head = width * width + width, width * vocab_size + vocab_size
    return stacks * stack + tables * vocab_size * width + features + head


@pytest.mark.parametrize("block", ["relu", "multiplicative"])
@pytest.mark.parametrize("encoder", [True, False])
def test_a_model_has_the_parameters_that_its_sizes_give(block, encoder):
    sizes = {"dim": 7, "depth": 3, "block": block, "encoder": encoder, "kernel_size": 5}
    model = create_model("bytenet", vocab_size=13, **sizes)
    assert model.count_params() == model_size(13, **sizes)


def test_the_listed_counts_are_those_of_the_sizes_of_the_paper():
    counts, options = MODELS["bytenet"].published.counts, MODELS["bytenet"].published.options
    assert counts == {
        "wmt": model_size(options["vocab_size"], 800, 30, "relu", True),
        "wikipedia": model_size(options["vocab_size"], 512, 30, "multiplicative", False),
    }


# the definition


def dense(layer, x):
    return x @ numpy(layer.kernel) + numpy(layer.bias)


def normalize(layer, x):
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    scale, offset = (numpy(weight) for weight in layer.trainable_weights)
    return (x - mean) / np.sqrt(variance + layer.epsilon) * scale + offset


def convolve(layer, x, dilation, causal):
    """A row (T, C) → (T, D)."""
    kernel, y = numpy(layer.kernel), np.tile(numpy(layer.bias), (len(x), 1))
    offset = len(kernel) - 1 if causal else len(kernel) // 2
    for t in range(len(x)):
        for j in range(len(kernel)):
            if 0 <= t + (j - offset) * dilation < len(x):
                y[t] += x[t + (j - offset) * dilation] @ kernel[j]
    return y


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gated(h, parts):
    a, b, c, u = np.split(parts, 4, axis=-1)
    return sigmoid(a) * np.tanh(sigmoid(b) * h + sigmoid(c) * np.tanh(u))


def run_blocks(blocks, x, causal):
    for block, dilation in zip(blocks, [1, 2, 1], strict=True):
        y = dense(block.narrow, np.maximum(normalize(block.norms[0], x), 0))
        y = normalize(block.norms[1], y)
        if block.block == "relu":
            y = convolve(block.conv, np.maximum(y, 0), dilation, causal)
            y = np.maximum(normalize(block.norms[2], y), 0)
        else:
            y = gated(y, convolve(block.conv, y, dilation, causal))
            y = normalize(block.norms[2], y)
            y = gated(y, dense(block.unit, y))
        x = x + dense(block.widen, y)
    return x


def predict(model, target, source=None):
    """One row without padding → logits (T, V)."""
    x = numpy(model.target_embedding.table)[target] * np.sqrt(12)
    if source is not None:
        columns = int(np.ceil(round(1.2 * len(source), 6))) + 1
        memory = np.zeros((columns, 12))
        memory[: len(source)] = numpy(model.source_embedding.table)[source] * np.sqrt(12)
        memory = run_blocks(model.encoder_blocks, memory, causal=False)
        memory = normalize(model.encoder_norm, memory)[: len(x)]
        x[: len(memory)] += memory
    x = run_blocks(model.decoder_blocks, x, causal=True)
    x = np.maximum(dense(model.features, np.maximum(normalize(model.last_norm, x), 0)), 0)
    return dense(model.head, x)


def test_a_translator_is_the_definition(model):
    logits = numpy(model(INPUTS))
    for b, length in enumerate([4, 3]):
        expected = predict(model, TARGET[b], SOURCE[b, :length])
        np.testing.assert_allclose(logits[b], expected, atol=1e-4)


def test_a_language_model_is_the_definition(language_model):
    logits = numpy(language_model(TARGET))
    for b in range(2):
        np.testing.assert_allclose(logits[b], predict(language_model, TARGET[b]), atol=1e-4)


def test_dilations_double_and_begin_again():
    assert dilations(7, 16) == [1, 2, 4, 8, 16, 1, 2]
    assert dilations(3, 1) == [1, 1, 1]
    assert dilations(4, 6) == [1, 2, 4, 1]


def test_the_receptive_field_is_that_of_the_dilations(randomize):
    """1 + 2·(1 + 2 + 4) positions of a kernel of 3."""
    sizes = {"dim": 24, "depth": 3, "max_dilation": 4, "encoder": False}
    model = randomize(create_model("bytenet", vocab_size=11, **sizes))
    tokens = np.random.default_rng(0).integers(1, 11, (1, 24))
    changed = tokens.copy()
    changed[0, 3] = tokens[0, 3] % 10 + 1
    moved = np.abs(numpy(model(tokens)) - numpy(model(changed))).max(axis=-1)[0]
    reached = np.flatnonzero(moved > 1e-5)
    assert reached.min() == 3 and reached.max() == 3 + 14


# unfolding and padding


@pytest.mark.parametrize(
    "ratio, offset, length, columns",
    [(1.2, 0, 5, 6), (1.2, 0, 4, 5)]
    + [(1.2, 2, 10, 14), (1.0, 0, 7, 7), (1.5, 1, 3, 6), (1.1, 0, 10, 11)],
)
def test_the_unfolding_is_a_linear_function_rounded_up(ratio, offset, length, columns):
    options = {"length_ratio": ratio, "length_offset": offset}
    model = create_model("bytenet", "test", vocab_size=11, **options)
    assert model.unfolded(length) == columns
    assert numpy(model.unfolded(ops.convert_to_tensor([length, 0]))).tolist() == [columns, offset]
    assert model.encode(np.ones((2, length), int)).shape == (2, columns, 12)


def test_columns_beyond_the_unfolding_are_zeros(model):
    memory = numpy(model.encode(SOURCE))  # rows of 4 and 3 tokens → 6 and 5 columns of 7
    assert memory.shape == (2, 7, 12)
    for row, columns in zip(memory, [6, 5], strict=True):
        assert np.abs(row[:columns]).max(axis=-1).min() > 0 and not row[columns:].any()
    constant = model.initial_state(INPUTS, max_length=9)["constant"]
    np.testing.assert_allclose(numpy(constant["memory"])[:, :7], memory, atol=1e-6)
    assert constant["memory"].shape == (2, 9, 12) and not numpy(constant["memory"])[:, 7:].any()


def test_more_padding_changes_nothing(model):
    padding = {"source": ((0, 0), (0, 3)), "target": ((0, 0), (0, 2))}
    padded = {name: np.pad(INPUTS[name], width) for name, width in padding.items()}
    np.testing.assert_allclose(numpy(model(padded))[:, :6], numpy(model(INPUTS)), atol=1e-5)


def test_logits_depend_on_earlier_tokens_only(model):
    changed = TARGET.copy()
    changed[:, 2] = [9, 4]
    before, after = numpy(model(INPUTS)), numpy(model({"source": SOURCE, "target": changed}))
    np.testing.assert_allclose(after[:, :2], before[:, :2], atol=1e-6)
    assert (np.abs(after - before)[:, 2].max(axis=-1) > 1e-4).all()


# decoding


def score(model, inputs, tokens, length):
    """Sum of the log-probabilities of tokens (B, T), by the model on all of them at once."""
    target = np.concatenate([np.ones((2, 1), int), tokens[:, :-1]], axis=1)
    logits = model({"source": inputs["source"], "target": target} if inputs else target)
    logs = numpy(ops.log_softmax(logits))
    chosen = np.take_along_axis(logs, tokens[..., None], axis=-1)[..., 0]
    return np.where(np.arange(tokens.shape[1]) < length[:, None], chosen, 0).sum(axis=1)


@pytest.mark.parametrize("encoder", [True, False])
def test_hypotheses_keep_their_own_state_beyond_the_unfolding(make_model, encoder):
    """A state handed to the wrong hypothesis would change the log-probability."""
    model, inputs = make_model(encoder), INPUTS if encoder else None
    state = model.initial_state(inputs or TARGET, 9)
    decoder = DECODERS.make({"kind": "beam", "width": 3, "n_best": 2})
    result = decoder(model.step, state, 2, 9, start_id=1, end_id=2, pad_id=0)
    for n in range(2):
        tokens, length = numpy(result["tokens"])[:, n], numpy(result["length"])[:, n]
        expected = score(model, inputs, tokens, length)
        np.testing.assert_allclose(numpy(result["log_prob"])[:, n], expected, atol=1e-3)


@pytest.mark.parametrize("sizes", [(1,) * 6, (3, 2, 1), (6,)])
def test_a_language_model_reads_chunks_as_it_reads_all_at_once(language_model, sizes):
    whole, state, start = numpy(language_model(TARGET)), None, 0
    state = language_model.initial_state(TARGET, 6)
    assert state["constant"] == {}
    for size in sizes:
        logits, state = language_model.step(TARGET[:, start : start + size], state, start)
        np.testing.assert_allclose(numpy(logits), whole[:, start : start + size], atol=1e-4)
        start += size


# training and options


@pytest.mark.parametrize("block", ["relu", "multiplicative"])
def test_it_learns_one_batch(block):
    model = create_model(
        "bytenet", "test", vocab_size=11, dropout=0.0, block=block, dim=12, depth=1
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss, jit_compile=False)
    losses = [float(model.train_on_batch(INPUTS, TARGETS)) for _ in range(25)]
    assert losses[-1] < 0.2 * losses[0]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"length_ratio": 0.9}, "length_ratio must be 1 or more; got length_ratio=0.9"),
        ({"length_offset": -1}, "length_offset must be a whole number, zero or more; got .*-1"),
        ({"max_dilation": 0}, "max_dilation must be a whole number above zero"),
        ({"block": "gated"}, "unknown block 'gated'; known: relu, multiplicative"),
        ({"kernel_size": 4}, "kernel_size must be odd"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        create_model("bytenet", "test", vocab_size=11, **options)
