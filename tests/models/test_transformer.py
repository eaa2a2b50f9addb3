"""The Transformer: published parameter counts, and its options."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tfx_transformer.models import create_model

SOURCE = np.array([[4, 5, 6, 2, 0], [4, 7, 2, 0, 0]])
TARGET = np.array([[1, 7, 8], [1, 9, 0]])
INPUTS = {"source": SOURCE, "target": TARGET}
OPTIONS = {
    "the paper": {},
    "pre-norm": {"norm_first": True},
    "two tables tied": {"tie": "output", "source_vocab_size": 8},
    "nothing tied": {"tie": "none", "source_vocab_size": 8},
    "learned positions": {"position": {"kind": "learned", "max_length": 9}},
    "learned positions by name": {"position": "learned"},
    "rotary positions": {"position": "rotary"},
    "relative positions": {"position": {"kind": "relative", "max_distance": 2}},
    "step numbers": {"position": "index"},
    "layer by layer": {"memory": "layerwise", "norm_first": True},
    "rotary, grouped": {
        "attention": {"kind": "grouped_query", "num_kv_heads": 2, "position": "rotary"},
        "position": {"kind": "sinusoidal", "layout": "halves"},
    },
    "batch norm": {"norm": "batch"},
    "a bias for each token": {"output_bias": True},
    "a shallow decoder": {"decoder_depth": 1, "norm_first": True},
}


MADE: dict[str, keras.Model] = {}  # each model once; no test changes it


@pytest.fixture(params=sorted(OPTIONS))
def model(request, randomize):
    if request.param not in MADE:
        model = create_model("transformer", "test", vocab_size=11, **OPTIONS[request.param])
        MADE[request.param] = randomize(model, INPUTS, scale=0.3)
    return MADE[request.param]


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.mark.parametrize("variant, count", [("base", 60_522_496), ("big", 209_125_376)])
def test_the_parameter_counts_are_the_published_ones(variant, count):
    model = create_model("transformer", variant, vocab_size=32_000)
    assert model.count_params() == count


def test_a_small_model_has_the_published_parameter_count():
    sizes = {"dim": 128, "depth": 4, "num_heads": 4, "mlp_dim": 256}
    model = create_model("transformer", "test", vocab_size=9_712, **sizes)
    assert model.count_params() == 2_568_192


def test_tie_shares_the_embedding_tables():
    def count(**options):
        return create_model("transformer", "test", vocab_size=11, **options).count_params()

    assert count(tie="output") - count() == 11 * 16
    assert count(tie="output", source_vocab_size=8) - count() == 8 * 16
    assert count(source_vocab_size=8) == count(tie="output", source_vocab_size=8)
    assert count(source_vocab_size=11) == count(tie="output")  # of one size, but not the same
    assert count(source_vocab_size=11, tie="all") == count()
    assert count(tie="none") - count() == 2 * 11 * 16
    with pytest.raises(ValueError, match='tie="all" needs one vocabulary; got source_vocab_size=8'):
        create_model("transformer", "test", vocab_size=11, source_vocab_size=8, tie="all")


def test_positions_inside_attention_are_those_of_self_attention():
    inside = {"kind": "local", "window": 3, "position": "rotary"}
    for attention in ("multi_head", {"kind": "local", "window": 3}):
        model = create_model(
            "transformer", "test", vocab_size=11, position="rotary", attention=attention
        )
        assert model.positions == []
        for block in (*model.encoder, *model.decoder):
            assert block.self_attention.position == "rotary"
        assert model.decoder[0].context_attention.position is None
    assert block.attention == inside


@pytest.mark.parametrize(
    "options, message",
    [
        ({"position": "relative", "attention": "dot"}, "needs multi-head attention; got .*'dot'"),
        ({"position": "sincos_2d"}, "position must be of a sequence, not of an image"),
        ({"position": "far"}, "unknown position 'far'"),
    ],
)
def test_positions_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        create_model("transformer", "test", vocab_size=11, **options)


@pytest.mark.parametrize("tie", ["all", "none"])
def test_output_bias_adds_a_bias_to_each_logit(tie, draw):
    models = [
        create_model("transformer", "test", vocab_size=11, tie=tie, output_bias=output_bias)
        for output_bias in (False, True)
    ]
    plain, biased = models
    assert biased.count_params() - plain.count_params() == 11
    biased.bias.assign(draw(11))
    others = [weight for weight in biased.weights if weight is not biased.bias]
    for weight, value in zip(others, plain.get_weights(), strict=True):
        weight.assign(value)
    added = numpy(biased(INPUTS)) - numpy(plain(INPUTS))
    np.testing.assert_allclose(added, np.broadcast_to(biased.bias, (2, 3, 11)), atol=1e-5)


def test_there_is_a_logit_for_every_token(model):
    assert tuple(model(INPUTS).shape) == (2, 3, 11)


def test_step_by_step_equals_all_at_once(model):
    whole = numpy(model(INPUTS))
    state = model.initial_state(INPUTS, max_length=6)
    for t in range(2):  # the third target of the second example is padding
        logits, state = model.step(TARGET[:, t], state, t)
        np.testing.assert_allclose(numpy(logits), whole[:, t], atol=1e-5)


def test_a_chunk_of_tokens_equals_all_at_once(model):
    logits, _ = model.step(TARGET[:, :2], model.initial_state(INPUTS, max_length=6), 0)
    np.testing.assert_allclose(numpy(logits), numpy(model(INPUTS))[:, :2], atol=1e-5)


def test_coverage_is_the_sum_of_the_last_block_s_cross_attention(model):
    maps = model.attention_maps(INPUTS)
    state = model.initial_state(INPUTS, max_length=4)
    for t in range(2):
        _, state = model.step(TARGET[:, t], state, t)
    expected = (
        numpy(maps[f"decoder_{model.decoder_depth - 1}/cross"])[:, :, :2].mean(axis=1).sum(axis=1)
    )
    np.testing.assert_allclose(numpy(state["carry"]["coverage"]), expected, atol=1e-5)


def test_more_padding_changes_nothing(model):
    padded = {
        "source": np.pad(SOURCE, ((0, 0), (0, 3))),
        "target": np.pad(TARGET, ((0, 0), (0, 2))),
    }
    np.testing.assert_allclose(numpy(model(padded))[:, :3], numpy(model(INPUTS)), atol=1e-5)


def test_attention_is_causal(model):
    changed = {"source": SOURCE, "target": np.array([[1, 7, 9], [1, 9, 5]])}
    before, after = numpy(model(INPUTS)), numpy(model(changed))
    np.testing.assert_allclose(after[:, :2], before[:, :2], atol=1e-5)
    assert not np.allclose(after[:, 2], before[:, 2])


def test_every_source_token_and_its_position_matter(model):
    swapped = {"source": SOURCE[:, [1, 0, 2, 3, 4]], "target": TARGET}
    assert np.abs(numpy(model(swapped)) - numpy(model(INPUTS))).max() > 1e-3


def test_decoder_block_i_attends_to_encoder_block_i_only_if_layerwise(randomize):
    for memory, is_same in (("final", True), ("layerwise", False)):
        model = create_model("transformer", "test", vocab_size=11, memory=memory)
        outputs, _, _ = randomize(model, scale=0.3).encode(SOURCE)
        assert np.allclose(numpy(outputs[0]), numpy(outputs[1])) == is_same


TARGETS = np.array([[7, 8, 2], [9, 2, 0]])


def test_without_positions_the_source_is_a_bag_of_words(randomize):
    model = create_model("transformer", "test", vocab_size=11, position=None)
    randomize(model, INPUTS, scale=0.3)
    swapped = {"source": SOURCE[:, [1, 0, 2, 3, 4]], "target": TARGET}
    np.testing.assert_allclose(numpy(model(swapped)), numpy(model(INPUTS)), atol=1e-5)


@pytest.mark.parametrize("options", sorted(OPTIONS))
def test_the_loss_reaches_every_weight(options):
    model = create_model("transformer", "test", vocab_size=11, **OPTIONS[options])
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
    model = create_model("transformer", "test", vocab_size=11, norm_first=True)
    model.compile(
        keras.optimizers.Adam(0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    losses = [float(model.train_on_batch(INPUTS, TARGETS)) for _ in range(50)]
    assert losses[-1] < 0.2 * losses[0]


def test_attention_maps_are_named_and_are_distributions(model):
    maps = model.attention_maps(INPUTS)
    decoder = range(model.decoder_depth)
    kinds = {"encoder_{}/self": range(2), "decoder_{}/self": decoder, "decoder_{}/cross": decoder}
    assert sorted(maps) == sorted(kind.format(i) for kind, blocks in kinds.items() for i in blocks)
    for name, weights in maps.items():
        weights = numpy(weights)
        length = 3 if name.startswith("decoder") else 5
        assert weights.shape[:3] == (2, 4, length)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)


def test_saved_and_loaded_gives_the_same_logits(model, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(numpy(loaded(INPUTS)), numpy(model(INPUTS)), atol=1e-6)
    assert loaded.get_config() == model.get_config()


def test_layerwise_memory_needs_stacks_of_one_depth():
    options = {"vocab_size": 11, "memory": "layerwise", "decoder_depth": 1}
    with pytest.raises(ValueError, match="needs stacks of one depth; got depth=2, decoder_depth=1"):
        create_model("transformer", "test", **options)


def test_an_unknown_memory_is_refused():
    with pytest.raises(ValueError, match="unknown memory 'first'; known: final, layerwise"):
        create_model("transformer", "test", vocab_size=11, memory="first")
