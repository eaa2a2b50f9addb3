import numpy as np
import pytest
from keras import ops

from tfx_transformer.decoding import GreedyDecoder, SamplingDecoder

PAD, START, END = 0, 1, 2


@pytest.mark.parametrize("seed", range(3))
def test_each_token_is_the_likeliest_after_those_before(seed, make_model):
    model = make_model(batch_size=3, vocab_size=7, max_length=10, seed=seed)
    result = model.run(GreedyDecoder())
    for sentence in range(3):
        tokens = []
        while len(tokens) < 10 and END not in tokens:
            log_probs = model.log_probs(sentence, tokens)
            log_probs[[PAD, START]] = -np.inf
            tokens.append(int(log_probs.argmax()))
        found = result["tokens"][sentence, 0, : result["length"][sentence, 0]]
        assert found.tolist() == tokens


def test_the_score_is_the_log_probability(make_model):
    result = make_model(batch_size=3, vocab_size=7, max_length=10).run(GreedyDecoder())
    np.testing.assert_array_equal(result["score"], result["log_prob"])
    assert (result["score"] < 0).all()


def counting_step(calls):
    """A model that counts upwards and ends after 5; records the shapes of its arguments."""

    def step(tokens, state, index):
        arguments = (tokens, state["constant"], state["carry"])
        calls.append(tuple(tuple(x.shape) for x in arguments))
        next_tokens = ops.where(tokens == 5, END, ops.maximum(tokens + 1, 3))
        return 30.0 * ops.one_hot(next_tokens, 6), state

    return step


def test_the_model_gets_one_row_per_hypothesis():
    state = {"constant": ops.zeros((2, 4)), "carry": ops.zeros((2, 7))}
    for decoder, num_rows in ((GreedyDecoder(), 2), (SamplingDecoder(n_best=3), 6)):
        calls = []
        result = decoder(counting_step(calls), state, 2, 8, START, END, PAD)
        expected = [[3, 4, 5, END, PAD, PAD, PAD, PAD]] * (num_rows // 2)
        assert ops.convert_to_numpy(result["tokens"]).tolist() == [expected] * 2
        assert set(calls) == {((num_rows,), (num_rows, 4), (num_rows, 7))}


def test_a_limit_of_zero_leaves_a_sentence_empty():
    state = {"constant": ops.zeros((2,)), "carry": ops.zeros((2,))}
    result = GreedyDecoder()(counting_step([]), state, 2, 4, START, END, PAD, limit=[0, 2])
    assert ops.convert_to_numpy(result["tokens"]).tolist() == [[[0, 0, 0, 0]], [[3, 4, 0, 0]]]
    assert ops.convert_to_numpy(result["length"]).tolist() == [[0], [2]]
    assert float(result["log_prob"][0, 0]) == 0
