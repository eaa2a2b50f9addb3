"""Decoding with a model that predicts known tokens."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tfx_transformer.data import END, PAD, START
from tfx_transformer.decoding import DECODERS
from tfx_transformer.models import create_model
from tfx_transformer.pipelines.decode import count_known, decode, decoder_options, make_decoder
from tfx_transformer.runtime import graph

VOCAB_SIZE = 9
TARGETS = np.array([[5, 6, 7, END, 4, 4], [8, END, 4, 4, 4, 4], [4, 4, 4, 4, 4, END]])


class FixedModel:
    """Predicts row `row` of TARGETS for any input; its only weight is the logit."""

    def __init__(self):
        self.weight = keras.Variable(6.0)
        self.variables = [self.weight]

    def initial_state(self, inputs, max_length):
        self.max_length = max_length
        return {"constant": {"target": ops.take(TARGETS, inputs["row"], axis=0)}, "carry": {}}

    def step(self, tokens, state, index):
        if len(tokens.shape) == 2:  # a chunk
            index = index + ops.arange(ops.shape(tokens)[1])
        token = ops.take(state["constant"]["target"], index, axis=1)  # (N,) or (N, T)
        return ops.one_hot(token, VOCAB_SIZE) * self.weight.value, state


@pytest.mark.parametrize("decoder", ["greedy", {"kind": "beam", "width": 3, "n_best": 1}])
def test_each_row_is_decoded_up_to_its_end(decoder):
    model, rows = FixedModel(), np.array([2, 0, 1])
    decoded = decode(model, DECODERS.make(decoder), {"row": rows}, 3, 6)
    assert set(decoded) == {"tokens", "score", "length"} and model.max_length == 6
    expected = [[4, 4, 4, 4, 4, END], [5, 6, 7, END, PAD, PAD], [8, END, *[PAD] * 4]]
    assert ops.convert_to_numpy(decoded["tokens"])[:, 0].tolist() == expected
    assert ops.convert_to_numpy(decoded["length"])[:, 0].tolist() == [6, 4, 2]


@pytest.mark.parametrize("decoder", ["greedy", {"kind": "beam", "width": 3, "n_best": 3}])
@pytest.mark.parametrize("position", ["sinusoidal", "rotary"])
def test_a_batch_that_shrinks_and_caches_that_grow_give_the_same(decoder, position):
    model = create_model("transformer", "test", vocab_size=VOCAB_SIZE, position=position)
    decoder, source = DECODERS.make(decoder), tf.constant([[5, 6, 7, 8], [8, END, PAD, PAD]])
    prefix = tf.constant([[4, 5, 6], [7, 8, PAD]])  # the first token is read in one pass

    def run(source, compact):
        return decode(
            model, decoder, {"source": source}, tf.shape(source)[0], 7, 6, prefix, compact
        )

    spec = tf.TensorSpec([None, None], tf.int32)
    fixed = graph(lambda source: run(source, False), spec)(source)
    compact = graph(lambda source: run(source, True), spec)(source)
    np.testing.assert_array_equal(compact["tokens"], fixed["tokens"])
    np.testing.assert_allclose(compact["score"], fixed["score"], atol=1e-5)


def test_the_score_follows_the_current_weights():
    model, greedy = FixedModel(), DECODERS.make("greedy")
    for logit in (3.0, 1.0):
        model.weight.assign(logit)
        score = decode(model, greedy, {"row": np.array([1])}, 1, 6)["score"]
        log_prob = logit - np.log(np.exp(logit) + VOCAB_SIZE - 1)  # of each of two tokens
        np.testing.assert_allclose(ops.convert_to_numpy(score), [[2 * log_prob]], atol=1e-5)


def test_each_row_may_have_its_own_maximum_length():
    rows, limit = np.array([2, 0, 2]), np.array([2, 6, 3])
    decoded = decode(FixedModel(), DECODERS.make("greedy"), {"row": rows}, 3, 6, limit)
    expected = [[4, 4, *[PAD] * 4], [5, 6, 7, END, PAD, PAD], [4, 4, 4, PAD, PAD, PAD]]
    assert ops.convert_to_numpy(decoded["tokens"])[:, 0].tolist() == expected


def test_a_prefix_forces_the_first_tokens():
    rows, prefix = np.array([2, 0]), np.array([[7, 8], [3, PAD]])
    decoded = decode(FixedModel(), DECODERS.make("greedy"), {"row": rows}, 2, 6, prefix=prefix)
    expected = [[7, 8, 4, 4, 4, END], [3, 6, 7, END, PAD, PAD]]
    assert ops.convert_to_numpy(decoded["tokens"])[:, 0].tolist() == expected


def test_tokens_before_the_first_padding_end_or_limit_are_known():
    prefix = np.array([[7, 8, 5, 5], [3, 4, 6, PAD], [3, 4, 6, END]])
    assert int(count_known(prefix, 9)) == 3
    assert int(count_known(prefix, [9, 9, 2])) == 1
    assert int(count_known(prefix, [9, 0, 9])) == 0
    assert int(count_known(prefix[:0], 9)) == 0
    assert int(count_known(np.array([[PAD, 5], [6, 7]]), 9)) == 0


def test_sampling_without_a_seed_differs_from_call_to_call():
    model = FixedModel()
    model.weight.assign(0.1)  # nearly uniform
    decoder, seeds = make_decoder("sample")
    before = [seed.numpy().tolist() for seed in seeds]
    rows = np.zeros(20, "int32")
    first, second = (decode(model, decoder, {"row": rows}, 20, 6)["tokens"] for _ in range(2))
    assert (ops.convert_to_numpy(first) != ops.convert_to_numpy(second)).any()
    assert len(seeds) == 1 and [seed.numpy().tolist() for seed in seeds] != before


@pytest.mark.parametrize("spec", ["greedy", "beam", {"kind": "sample", "seed": 3}])
def test_other_decoders_get_no_seed_variable(spec):
    assert make_decoder(spec) == (DECODERS.make(spec), [])


@pytest.mark.parametrize("kind", DECODERS)
def test_the_options_of_a_decoder_are_plain_data(kind):
    decoder, _ = make_decoder({"kind": kind, "forbidden": [4, 5]})
    stored = json.loads(json.dumps(decoder_options(decoder)))
    assert stored["kind"] == kind and DECODERS.make(stored) == DECODERS.make(
        {"kind": kind, "forbidden": [4, 5]}
    )


def test_the_options_of_a_decoder_hold_its_seed():
    assert decoder_options(make_decoder({"kind": "sample", "seed": 3})[0])["seed"] == 3
    assert decoder_options(make_decoder("sample")[0])["seed"] is None


def test_the_first_token_is_start():
    read = []

    class RecordingModel(FixedModel):
        def step(self, tokens, state, index):
            read.append(ops.convert_to_numpy(tokens).tolist())
            return super().step(tokens, state, index)

    decode(RecordingModel(), DECODERS.make("greedy"), {"row": np.array([0, 1])}, 2, 6)
    assert read[:2] == [[START, START], [5, 8]]


def test_a_weight_is_read_once_outside_of_the_loop():
    model = FixedModel()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)], autograph=False)
    def run(rows):
        return decode(model, DECODERS.make("greedy"), {"row": rows}, tf.shape(rows)[0], 6)

    graph = run.get_concrete_function().graph.as_graph_def()
    inside = [node.op for function in graph.library.function for node in function.node_def]
    assert [node.op for node in graph.node].count("ReadVariableOp") == 1
    assert len(inside) > 10 and "ReadVariableOp" not in inside
    assert run(tf.constant([1]))["length"].numpy().tolist() == [[2]]
