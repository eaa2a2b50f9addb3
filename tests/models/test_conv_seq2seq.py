"""ConvS2S against its definition in NumPy: counts, initialization, padding, decoding."""

import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.decoding import DECODERS
from tfx_transformer.models import MODELS, create_model

SOURCE = np.array([[4, 5, 6, 2, 0], [4, 7, 2, 0, 0]])
TARGET = np.array([[1, 7, 8, 6], [1, 9, 5, 4]])
TARGETS = np.array([[7, 8, 6, 2], [9, 5, 4, 2]])
INPUTS = {"source": SOURCE, "target": TARGET}
HALF = np.sqrt(0.5)
MADE: dict[str, keras.Model] = {}  # one of each; no test changes it


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.fixture(params=["none", "all"])
def model(request, randomize):
    tie = request.param
    if tie not in MADE:
        MADE[tie] = randomize(create_model("conv_seq2seq", "test", vocab_size=11, tie=tie))
    return MADE[tie]


# parameter counts


def stack_size(widths, kernels, embedding, readout, attends):
    """Parameters of an encoder or a decoder without its embeddings."""
    count = embedding * widths[0] + widths[0]  # to the first layer
    count += widths[-1] * readout + readout  # from the last
    before = widths[0]
    for width, kernel in zip(widths, kernels, strict=True):
        count += kernel * before * 2 * width + 2 * width  # twice as wide, for the gate
        if width != before:
            count += before * width + width  # residual
        if attends:
            count += width * embedding + embedding + embedding * width + width
        before = width
    return count


def model_size(vocab_size, widths, kernels, embedding, readout, decoder_depth=None):
    tables = 2 * (vocab_size + 1024) * embedding
    head = readout * vocab_size + vocab_size
    own = decoder_depth or len(widths)
    encoder = stack_size(widths, kernels, embedding, embedding, attends=False)
    decoder = stack_size(widths[:own], kernels[:own], embedding, readout, attends=True)
    return tables + encoder + decoder + head


SIZES = {
    "small": ([256] * 4, [3] * 4, 256, 256, 3),
    "wmt_en_ro": ([512] * 20, [3] * 20, 512, 512),
    "wmt_en_de": ([512] * 9 + [1024] * 4 + [2048] * 2, [3] * 13 + [1] * 2, 768, 512),
    "wmt_en_fr": ([512] * 6 + [768] * 4 + [1024] * 3 + [2048, 4096], [3] * 13 + [1] * 2, 768, 512),
}


def test_a_variant_has_the_parameters_that_its_sizes_give():
    model = create_model("conv_seq2seq", "small", vocab_size=30)
    assert model.count_params() == model_size(30, *SIZES["small"])
    options = {"dim": [5, 5, 7, 9], "depth": 4, "kernel_size": [3, 5, 3, 1], "embedding_dim": 6}
    model = create_model("conv_seq2seq", vocab_size=30, readout_dim=8, **options)
    assert model.count_params() == model_size(30, [5, 5, 7, 9], [3, 5, 3, 1], 6, 8)


def test_the_listed_counts_are_those_of_the_sizes_of_the_paper():
    for name, count in MODELS["conv_seq2seq"].published.counts.items():
        assert count == model_size(40_000, *SIZES[name]), name


# the definition


def dense(layer, x):
    return x @ numpy(layer.kernel) + numpy(layer.bias)


def convolve(layer, x, offset):
    """A row (T, C) → the gated linear unit of its convolution (T, D)."""
    kernel, y = numpy(layer.kernel), np.tile(numpy(layer.bias), (len(x), 1))
    for t in range(len(x)):
        for j in range(len(kernel)):
            if 0 <= t + j - offset < len(x):
                y[t] += x[t + j - offset] @ kernel[j]
    linear, gate = np.split(y, 2, axis=-1)
    return linear / (1 + np.exp(-gate))


def translate(model, source, target):
    """One sentence without padding: logits (T, V), attention weights of each layer (T, S)."""
    table, positions = numpy(model.source_embedding.table), numpy(model.source_position.table)
    embedded = table[source] + positions[: len(source)]
    x = dense(model.encoder_input, embedded)
    for layer in model.encoder:
        residual = dense(layer.widen, x) if layer.widen else x
        x = (convolve(layer.conv, x, layer.kernel_size // 2) + residual) * HALF
    keys = dense(model.encoder_output, x)
    values = (keys + embedded) * HALF

    table, positions = numpy(model.target_embedding.table), numpy(model.target_position.table)
    embedded = table[target] + positions[: len(target)]
    x, maps = dense(model.decoder_input, embedded), []
    for layer in model.decoder:
        residual = dense(layer.widen, x) if layer.widen else x
        y = convolve(layer.conv, x, layer.kernel_size - 1)
        scores = (dense(layer.to_query, y) + embedded) * HALF @ keys.T
        weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        context = weights @ values * len(source) * np.sqrt(1 / len(source))
        y = (dense(layer.from_context, context) + y) * HALF
        x = (y + residual) * HALF
        maps.append(weights)
    x = dense(model.decoder_output, x)
    return x @ table.T if model.tie == "all" else dense(model.head, x), maps


def test_it_is_the_definition(model):
    logits, maps = numpy(model(INPUTS)), model.attention_maps(INPUTS)
    assert list(maps) == ["decoder_0/cross", "decoder_1/cross"]
    for b, length in enumerate([4, 3]):
        expected, weights = translate(model, SOURCE[b, :length], TARGET[b])
        np.testing.assert_allclose(logits[b], expected, atol=1e-4)
        for got, wanted in zip(maps.values(), weights, strict=True):
            got = numpy(got)[b, 0]
            np.testing.assert_allclose(got[:, :length], wanted, atol=1e-5)
            assert not got[:, length:].any()


def test_more_padding_changes_nothing(model):
    padding = {"source": ((0, 0), (0, 3)), "target": ((0, 0), (0, 2))}
    padded = {name: np.pad(INPUTS[name], width) for name, width in padding.items()}
    np.testing.assert_allclose(numpy(model(padded))[:, :4], numpy(model(INPUTS)), atol=1e-5)


def test_logits_depend_on_earlier_tokens_only(model):
    changed = {"source": SOURCE, "target": np.array([[1, 7, 9, 6], [1, 9, 4, 4]])}
    before, after = numpy(model(INPUTS)), numpy(model(changed))
    np.testing.assert_allclose(after[:, :2], before[:, :2], atol=1e-6)
    assert (np.abs(after - before)[:, 2:].max(axis=-1) > 1e-4).all()


# initialization and training


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_first_weights_have_the_deviations_of_the_paper(dropout):
    sizes = {"dim": 64, "depth": 2, "embedding_dim": 96, "dropout": dropout}
    model = create_model("conv_seq2seq", vocab_size=80, max_length=50, **sizes)
    deviations = {
        "encoder_input": np.sqrt((1 - dropout) / 96),
        "encoder_1/conv": np.sqrt(4 * (1 - dropout) / (3 * 64)),
        "decoder_0/to_query": np.sqrt(1 / 64),
        "decoder_0/from_context": np.sqrt(1 / 96),
        "head": np.sqrt((1 - dropout) / 96),
        "source_embedding": 0.1,
        "target_position": 0.1,
    }
    by_path = {w.path: numpy(w) for w in model.weights if w.name != "bias"}
    for name, deviation in deviations.items():
        (kernel,) = (value for path, value in by_path.items() if f"/{name}/" in path)
        np.testing.assert_allclose(kernel.std(), deviation, rtol=0.05)
    assert not any(numpy(w).any() for w in model.weights if w.name == "bias")


def test_activations_keep_their_scale_through_many_layers():
    options = {"dim": 48, "depth": 12, "embedding_dim": 48, "dropout": 0.0}
    model = create_model("conv_seq2seq", vocab_size=50, **options)
    source = np.random.default_rng(0).integers(1, 50, (4, 20))
    (keys, _), mask = model.encode(source)
    first = numpy(model.encoder_input(model.source_position(model.source_embedding(source)))).std()
    assert 0.3 < numpy(keys).std() / first < 3


def test_the_gradients_of_the_encoder_are_divided_by_the_number_of_attentions(randomize):
    import tensorflow as tf

    options = {"vocab_size": 11, "dropout": 0.0, "dim": 8, "kernel_size": 3}
    model = randomize(create_model("conv_seq2seq", "test", **options))
    kernels = [model.encoder_output.kernel, model.decoder_input.kernel]

    def gradients(training):
        with tf.GradientTape() as tape:
            loss = ops.sum(model(INPUTS, training=training) ** 2)
        return [numpy(g) for g in tape.gradient(loss, [kernel.value for kernel in kernels])]

    (encoder, decoder), (whole, same) = gradients(True), gradients(False)
    np.testing.assert_allclose(encoder, whole / 2, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(decoder, same, rtol=1e-3, atol=1e-3)


def test_it_learns_one_batch():
    model = create_model("conv_seq2seq", "test", vocab_size=11, dropout=0.0, embedding_dim=16)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss, jit_compile=False)
    losses = [float(model.train_on_batch(INPUTS, TARGETS)) for _ in range(40)]
    assert losses[-1] < 0.2 * losses[0]


# decoding


def decode(model, max_length=4, **options):
    state = model.initial_state(INPUTS, max_length)
    decoder = DECODERS.make(options)
    result = decoder(model.step, state, 2, max_length, start_id=1, end_id=2, pad_id=0)
    return {name: numpy(value) for name, value in result.items()}


def test_hypotheses_keep_their_own_state(model):
    """A state handed to the wrong hypothesis would change the log-probability."""
    result = decode(model, kind="beam", width=3, n_best=2)
    for n in range(2):
        tokens = result["tokens"][:, n]
        target = np.concatenate([np.ones((2, 1), int), tokens[:, :-1]], axis=1)
        logs = numpy(ops.log_softmax(model({"source": SOURCE, "target": target})))
        chosen = np.take_along_axis(logs, tokens[..., None], axis=-1)[..., 0]
        total = np.where(np.arange(4) < result["length"][:, n, None], chosen, 0).sum(axis=1)
        np.testing.assert_allclose(result["log_prob"][:, n], total, atol=1e-4)


def test_the_coverage_is_the_mean_attention_of_the_layers_summed_over_the_steps(model):
    state = model.initial_state(INPUTS, 4)
    state = model.step(TARGET[:, :3], state, 0)[1]
    state = model.step(TARGET[:, 3], state, 3)[1]
    maps = np.mean([numpy(x)[:, 0] for x in model.attention_maps(INPUTS).values()], axis=0)
    np.testing.assert_allclose(numpy(state["carry"]["coverage"]), maps.sum(axis=1), atol=1e-5)


# options


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tie": "some"}, "unknown tie 'some'; known: all, output, none"),
        ({"tie": "all", "source_vocab_size": 9}, 'tie="all" needs one vocabulary; .*_size=9'),
        ({"tie": "output", "readout_dim": 5}, "needs readout_dim=6, .*got readout_dim=5"),
        ({"dim": [8, 9, 10]}, r"dim must have a number for each of 2 layers; got \[8, 9, 10\]"),
        ({"decoder_depth": 1}, "dim must have a number for each of 1 layers"),
        ({"kernel_size": 2}, "kernel_size must be odd"),
        ({"kernel_size": 0}, "kernel_size must be a whole number above zero"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        create_model("conv_seq2seq", "test", vocab_size=11, **options)


def test_more_tokens_than_positions_are_refused(model):
    with pytest.raises(
        ValueError, match="must not exceed the model's 32 positions; got max_l.*=33"
    ):
        model.initial_state(INPUTS, 33)
