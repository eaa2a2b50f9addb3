import numpy as np
import pytest
from keras import ops

from tfx_transformer.decoding.constraints import (
    MASKED,
    MIN_LOG_PROB,
    forbid_end,
    forbid_repeats,
    forbid_tokens,
    is_allowed,
)

N, V, L = 3, 7, 9


@pytest.fixture
def log_probs():
    return np.log(np.random.default_rng(0).dirichlet(np.ones(V), size=N)).astype("float32")


def banned(log_probs, result):
    """The masked tokens of each row; all others must be unchanged."""
    result = ops.convert_to_numpy(result)
    is_banned = result == np.float32(MASKED)
    np.testing.assert_array_equal(result[~is_banned], log_probs[~is_banned])
    return [set(np.flatnonzero(row).tolist()) for row in is_banned]


def test_required_tokens_count_as_allowed_and_masked_ones_do_not():
    values = [0.0, 1000 * MIN_LOG_PROB, MASKED, MASKED + 1000 * MIN_LOG_PROB, -np.inf]
    allowed = ops.convert_to_numpy(is_allowed(ops.convert_to_tensor(values))).tolist()
    assert allowed == [True, True, False, False, False]


def test_forbidden_tokens_are_masked_in_every_row(log_probs):
    assert banned(log_probs, forbid_tokens(log_probs, {1, 4})) == [{1, 4}] * N
    assert banned(log_probs, forbid_tokens(log_probs, ())) == [set()] * N


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [0, 1, 2, 5, L - 1])
def test_a_repeated_ngram_is_masked(log_probs, size, count):
    tokens = np.random.default_rng(size).integers(0, 3, size=(N, L))
    expected = []
    for row in tokens[:, :count].tolist():
        ngrams = {tuple(row[i : i + size]) for i in range(count - size + 1)}
        expected.append({v for v in range(V) if (*row[max(0, count - size + 1) :], v) in ngrams})
    tokens = ops.convert_to_tensor(tokens, dtype="int32")
    result = forbid_repeats(ops.convert_to_tensor(log_probs), tokens, ops.array(count), size)
    assert banned(log_probs, result) == expected
    assert count < L - 1 or size == 4 or any(expected)


def test_an_ngram_longer_than_the_tokens_masks_nothing(log_probs):
    tokens = ops.zeros((N, 3), "int32")
    assert banned(log_probs, forbid_repeats(log_probs, tokens, ops.array(3), 4)) == [set()] * N


def test_end_is_masked_only_while_too_short(log_probs):
    assert banned(log_probs, forbid_end(log_probs, 2, ops.array(True))) == [{2}] * N
    assert banned(log_probs, forbid_end(log_probs, 2, ops.array(False))) == [set()] * N
