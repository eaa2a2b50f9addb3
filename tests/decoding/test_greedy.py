import numpy as np
import pytest

from tfx_transformer.decoding import GreedyDecoder

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
