"""The search between a model and a decoder, by a model whose words are known beforehand."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tfx_transformer.data import END, PAD, START
from tfx_transformer.decoding import DECODERS
from tfx_transformer.search import search, with_own_seed

WORDS = 9
SAYS = np.array([[5, 6, 7, END, 4, 4], [8, END, 4, 4, 4, 4], [4, 4, 4, 4, 4, END]])


class Reciter:
    """Says row `who` of SAYS, whatever it reads; its one weight is how sure it is."""

    def __init__(self):
        self.weight = keras.Variable(6.0)
        self.variables = [self.weight]

    def initial_state(self, inputs, room):
        self.room = room
        return {"fixed": {"says": ops.take(SAYS, inputs["who"], axis=0)}, "moving": {}}

    def step(self, tokens, state, index):
        word = ops.take(state["fixed"]["says"], index, axis=1)  # (N,)
        return ops.one_hot(word, WORDS) * self.weight.value, state


@pytest.mark.parametrize("decoder", ["greedy", {"kind": "beam", "width": 3, "n_best": 1}])
def test_each_says_its_words_up_to_its_end(decoder):
    model, who = Reciter(), np.array([2, 0, 1])
    found = search(model, DECODERS.make(decoder), {"who": who}, 3, 6)
    assert set(found) == {"tokens", "score", "length"} and model.room == 6
    expected = [[4, 4, 4, 4, 4, END], [5, 6, 7, END, PAD, PAD], [8, END, *[PAD] * 4]]
    assert ops.convert_to_numpy(found["tokens"])[:, 0].tolist() == expected
    assert ops.convert_to_numpy(found["length"])[:, 0].tolist() == [6, 4, 2]


def test_the_score_is_of_the_weights_as_they_are():
    model, greedy = Reciter(), DECODERS.make("greedy")
    for sure in (3.0, 1.0):
        model.weight.assign(sure)
        score = search(model, greedy, {"who": np.array([1])}, 1, 6)["score"]
        log_prob = sure - np.log(np.exp(sure) + WORDS - 1)  # of either word
        np.testing.assert_allclose(ops.convert_to_numpy(score), [[2 * log_prob]], atol=1e-5)


def test_a_sentence_may_have_less_room_than_others():
    who, limit = np.array([2, 0, 2]), np.array([2, 6, 3])
    found = search(Reciter(), DECODERS.make("greedy"), {"who": who}, 3, 6, limit)
    expected = [[4, 4, *[PAD] * 4], [5, 6, 7, END, PAD, PAD], [4, 4, 4, PAD, PAD, PAD]]
    assert ops.convert_to_numpy(found["tokens"])[:, 0].tolist() == expected


def test_the_first_words_may_be_given():
    who, prefix = np.array([2, 0]), np.array([[7, 8], [3, PAD]])
    found = search(Reciter(), DECODERS.make("greedy"), {"who": who}, 2, 6, prefix=prefix)
    expected = [[7, 8, 4, 4, 4, END], [3, 6, 7, END, PAD, PAD]]
    assert ops.convert_to_numpy(found["tokens"])[:, 0].tolist() == expected


def test_a_seed_that_moves_draws_anew_at_each_call():
    model = Reciter()
    model.weight.assign(0.1)  # it is sure of nothing
    decoder, seeds = with_own_seed(DECODERS.make("sample"))
    before = [seed.numpy().tolist() for seed in seeds]
    who = np.zeros(20, "int32")
    first, second = (search(model, decoder, {"who": who}, 20, 6)["tokens"] for _ in range(2))
    assert (ops.convert_to_numpy(first) != ops.convert_to_numpy(second)).any()
    assert len(seeds) == 1 and [seed.numpy().tolist() for seed in seeds] != before


@pytest.mark.parametrize("spec", ["greedy", "beam", {"kind": "sample", "seed": 3}])
def test_what_needs_no_seed_of_its_own_stays_as_it_is(spec):
    decoder = DECODERS.make(spec)
    assert with_own_seed(decoder) == (decoder, [])


def test_the_first_token_is_start():
    read = []

    class Listener(Reciter):
        def step(self, tokens, state, index):
            read.append(ops.convert_to_numpy(tokens).tolist())
            return super().step(tokens, state, index)

    search(Listener(), DECODERS.make("greedy"), {"who": np.array([0, 1])}, 2, 6)
    assert read[:2] == [[START, START], [5, 8]]


def test_a_weight_is_read_once_and_not_in_the_loop():
    model = Reciter()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)], autograph=False)
    def run(who):
        return search(model, DECODERS.make("greedy"), {"who": who}, tf.shape(who)[0], 6)

    graph = run.get_concrete_function().graph.as_graph_def()
    inside = [node.op for function in graph.library.function for node in function.node_def]
    assert [node.op for node in graph.node].count("ReadVariableOp") == 1
    assert len(inside) > 10 and "ReadVariableOp" not in inside
    assert run(tf.constant([1]))["length"].numpy().tolist() == [[2]]
