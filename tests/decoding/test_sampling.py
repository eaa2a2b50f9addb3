from collections import Counter

import numpy as np
import pytest
from keras import ops

from tfx_transformer.decoding import GreedyDecoder, SamplingDecoder
from tfx_transformer.decoding.sampling import nucleus_weights, sample_index, temperature_weights

PAD, START, END = 0, 1, 2
V = 9


def distribution(model, temperature=1.0, top_k=V, top_p=1.0):
    """The first token's probabilities (V,), by plain numpy."""
    log_probs = model.log_probs(0, [])
    log_probs[[PAD, START]] = -np.inf
    p = np.exp(log_probs / temperature)
    order = np.argsort(-p)
    p[order[top_k:]] = 0
    p /= p.sum()
    mass, kept = 0.0, []
    for token in order:
        if mass >= top_p:
            break
        mass += p[token]
        kept.append(token)
    p[[token for token in range(V) if token not in kept]] = 0
    return p / p.sum()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 3.0},
        {"top_k": 3},
        {"top_k": 20},
        {"top_p": 0.7},
        {"top_p": 0.95, "temperature": 2.0},
        {"top_k": 4, "top_p": 0.8},
        {"top_p": 1e-6},
    ],
    ids=str,
)
def test_token_frequencies_follow_the_distribution(fields, make_model):
    model = make_model(batch_size=1, vocab_size=V, max_length=1)
    model.table /= 2
    count = 20_000
    result = model.run(SamplingDecoder(seed=1, n_best=count, **fields))
    p = distribution(model, **fields)
    frequency = np.bincount(result["tokens"][0, :, 0], minlength=V) / count
    assert set(np.flatnonzero(frequency)) <= set(np.flatnonzero(p))
    np.testing.assert_array_less(np.abs(frequency - p), 4.5 * np.sqrt(p * (1 - p) / count) + 1e-9)


def test_later_tokens_are_sampled_given_the_tokens_before(make_model):
    model = make_model(batch_size=1, vocab_size=6, max_length=2)
    model.table[0, :, END] = -30.0
    model.table /= 2
    count = 20_000
    result = model.run(SamplingDecoder(seed=2, n_best=count))
    pairs = Counter(map(tuple, result["tokens"][0].tolist()))

    def letters(before):
        p = np.exp(model.log_probs(0, before)[3:])
        return p / p.sum()

    for i, first in enumerate(letters([])):
        for j, second in enumerate(letters([i + 3])):
            p = first * second
            error = abs(pairs[i + 3, j + 3] / count - p)
            assert error < 4.5 * np.sqrt(p * (1 - p) / count)


@pytest.mark.parametrize("temperature", [1e-3, 1e-30])
def test_a_temperature_towards_zero_is_greedy(temperature, make_model):
    model = make_model(batch_size=3, vocab_size=8, max_length=7)
    greedy = model.run(GreedyDecoder())
    sampled = model.run(SamplingDecoder(temperature=temperature, seed=0))
    for name in ("tokens", "score", "log_prob", "length"):
        np.testing.assert_array_equal(sampled[name], greedy[name])


def test_the_same_seed_gives_the_same_tokens_and_another_gives_others(make_model):
    model = make_model(batch_size=3, vocab_size=8, max_length=9)
    once, again, other = (model.run(SamplingDecoder(seed=seed))["tokens"] for seed in (4, 4, 5))
    np.testing.assert_array_equal(once, again)
    assert (once != other).any()


def test_without_a_seed_each_call_samples_anew(make_model):
    model = make_model(batch_size=3, vocab_size=8, max_length=5)
    args = (model.step, model.state(), 3, 5, START, END, PAD)
    once, again = (ops.convert_to_numpy(SamplingDecoder()(*args)["tokens"]) for _ in range(2))
    assert (once != again).any()


def test_the_samples_of_one_sentence_differ(make_model):
    model = make_model(batch_size=2, vocab_size=8, max_length=9)
    tokens = model.run(SamplingDecoder(seed=0, n_best=6))["tokens"]
    assert all(len({tuple(row) for row in sentence.tolist()}) > 1 for sentence in tokens)


def test_forbidden_tokens_have_no_weight_at_any_temperature():
    log_probs = ops.array([[-1.0, -1e9, -2.0, -1e4]])
    weights = ops.convert_to_numpy(temperature_weights(log_probs, 1e12))[0]
    assert weights[1] == 0
    np.testing.assert_allclose(weights[[0, 2, 3]], 1, rtol=1e-6)


def test_the_nucleus_is_the_fewest_tokens_that_sum_to_top_p():
    weights = ops.array([[4.0, 3.0, 2.0, 1.0], [10.0, 0.0, 0.0, 0.0]])
    expected = {0.3: [4, 0, 0, 0], 0.45: [4, 3, 0, 0], 0.75: [4, 3, 2, 0], 0.95: [4, 3, 2, 1]}
    for top_p, kept in expected.items():
        result = ops.convert_to_numpy(nucleus_weights(weights, top_p)).tolist()
        assert result == [kept, [10, 0, 0, 0]]


def test_an_index_is_sampled_by_the_running_sum():
    weights = ops.array([[0.0, 2.0, 0.0, 1.0, 1.0, 0.0]])
    for uniform, index in ((0.0, 1), (0.49, 1), (0.51, 3), (0.74, 3), (0.76, 4), (1.0, 1)):
        assert int(sample_index(weights, ops.array([uniform]))[0]) == index


def test_an_index_of_weight_zero_is_never_sampled():
    """Parallel sums, as on JAX and under XLA, have rounding errors where 0 was added."""
    rng = np.random.default_rng(0)
    weights = np.where(rng.random(5000) < 0.5, rng.random(5000), 0).astype("float32")
    running = ops.convert_to_numpy(ops.cumsum(weights))
    is_zero = weights[1:] == 0
    uniform = (running[1:] + running[:-1])[is_zero] / 2 / running[-1]
    rows = ops.broadcast_to(ops.array(weights), (is_zero.sum(), 5000))
    indices = ops.convert_to_numpy(sample_index(rows, ops.array(uniform)))
    assert (weights[indices] > 0).all()
