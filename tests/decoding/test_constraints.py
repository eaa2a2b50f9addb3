import numpy as np
import pytest
from keras import ops

from tfx_transformer.decoding.constraints import (
    FLOOR,
    FORBIDDEN,
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
    """Which tokens of each row were pushed out; all others must be as before."""
    result = ops.convert_to_numpy(result)
    is_banned = result == np.float32(FORBIDDEN)
    np.testing.assert_array_equal(result[~is_banned], log_probs[~is_banned])
    return [set(np.flatnonzero(row).tolist()) for row in is_banned]


def test_what_must_come_counts_as_allowed_and_what_is_forbidden_never_does():
    values = [0.0, 1000 * FLOOR, FORBIDDEN, FORBIDDEN + 1000 * FLOOR, -np.inf]
    allowed = ops.convert_to_numpy(is_allowed(ops.convert_to_tensor(values))).tolist()
    assert allowed == [True, True, False, False, False]


def test_forbidden_tokens_are_out_of_reach_in_every_row(log_probs):
    assert banned(log_probs, forbid_tokens(log_probs, {1, 4})) == [{1, 4}] * N
    assert banned(log_probs, forbid_tokens(log_probs, ())) == [set()] * N


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [0, 1, 2, 5, L - 1])
def test_a_repeated_ngram_is_out_of_reach(log_probs, size, count):
    tokens = np.random.default_rng(size).integers(0, 3, size=(N, L))
    expected = []
    for row in tokens[:, :count].tolist():
        seen = {tuple(row[i : i + size]) for i in range(count - size + 1)}
        expected.append({v for v in range(V) if (*row[max(0, count - size + 1) :], v) in seen})
    tokens = ops.convert_to_tensor(tokens, dtype="int32")
    result = forbid_repeats(ops.convert_to_tensor(log_probs), tokens, ops.array(count), size)
    assert banned(log_probs, result) == expected
    assert count < L - 1 or size == 4 or any(expected)


def test_an_ngram_longer_than_the_room_for_tokens_forbids_nothing(log_probs):
    tokens = ops.zeros((N, 3), "int32")
    assert banned(log_probs, forbid_repeats(log_probs, tokens, ops.array(3), 4)) == [set()] * N


def test_end_is_out_of_reach_while_too_short_and_only_then(log_probs):
    assert banned(log_probs, forbid_end(log_probs, 2, ops.array(True))) == [{2}] * N
    assert banned(log_probs, forbid_end(log_probs, 2, ops.array(False))) == [set()] * N
