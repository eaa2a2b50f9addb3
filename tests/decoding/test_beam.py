import itertools

import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.decoding import BeamDecoder, GreedyDecoder
from tfx_transformer.decoding.beam import coverage_penalty, length_penalty

PAD, START, END = 0, 1, 2
not_traced = pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="JAX traces a loop instead of running it"
)


def normalized(log_prob, length, alpha):
    return log_prob / ((5 + length) / 6) ** alpha


def all_sequences(letters, max_length):
    """Every finished sequence, and every one that is cut off: two lists."""
    words = [word for n in range(max_length) for word in itertools.product(letters, repeat=n)]
    return [(*word, END) for word in words], list(itertools.product(letters, repeat=max_length))


def plain_beam(model, sentence, width, max_length, normalize, stops=None):
    """Beam search on Python lists: (score, log_prob, tokens), best first."""
    live, finished = [(0.0, ())], []
    for length in range(1, max_length + 1):
        extended = [
            (log_prob + gain, (*tokens, token))
            for log_prob, tokens in live
            for token, gain in enumerate(model.log_probs(sentence, tokens))
            if token not in (PAD, START)
        ]
        extended = sorted(extended, reverse=True)[: 2 * width]
        for log_prob, tokens in extended[:width]:
            if tokens[-1] == END:
                finished.append((normalize(log_prob, length), log_prob, tokens))
        finished = sorted(finished, reverse=True)[:width]
        live = [(log_prob, tokens) for log_prob, tokens in extended if tokens[-1] != END][:width]
        is_full = len(finished) == width
        is_likely = is_full and normalize(live[0][0], length) <= finished[-1][0]
        if {"likely": is_likely, "full": is_full, None: False}[stops]:
            return finished
    return finished + [(normalize(p, max_length), p, tokens) for p, tokens in live]


def check_equal(result, sentence, expected):
    """The n-best list of a sentence is the beginning of the expected one."""
    n_best = result["score"].shape[1]
    assert len(expected) >= n_best
    for n, (score, log_prob, tokens) in enumerate(expected[:n_best]):
        assert result["tokens"][sentence, n, : len(tokens)].tolist() == list(tokens)
        assert (result["tokens"][sentence, n, len(tokens) :] == PAD).all()
        assert result["length"][sentence, n] == len(tokens)
        np.testing.assert_allclose(result["log_prob"][sentence, n], log_prob, rtol=1e-5)
        np.testing.assert_allclose(result["score"][sentence, n], score, rtol=1e-5)


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_a_wide_beam_finds_the_same_as_exhaustive_search(alpha, early_stop, make_model):
    model = make_model(batch_size=2, vocab_size=6, max_length=4)  # three letters and END
    decoder = BeamDecoder(width=120, n_best=50, length_penalty=alpha, early_stop=early_stop)
    result = model.run(decoder)
    for sentence in range(2):
        expected = []
        for group in all_sequences(letters=(3, 4, 5), max_length=4):
            scored = [(model.log_prob(sentence, tokens), tokens) for tokens in group]
            scored = [(normalized(p, len(t), alpha), p, t) for p, t in scored]
            expected += sorted(scored, reverse=True)
        assert len(expected) == 40 + 81  # the list of 50 ends with sequences that were cut off
        check_equal(result, sentence, expected)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_a_narrow_beam_equals_plain_python(width, alpha, make_model):
    model = make_model(batch_size=3, vocab_size=8, max_length=7, seed=width)
    result = model.run(BeamDecoder(width=width, n_best=width, length_penalty=alpha))
    for sentence in range(3):
        expected = plain_beam(model, sentence, width, 7, lambda p, n: normalized(p, n, alpha))
        check_equal(result, sentence, expected)


def test_the_length_penalty_favors_long_sentences(make_model):
    model = make_model(batch_size=8, vocab_size=7, max_length=8)
    lengths = [
        model.run(BeamDecoder(width=6, length_penalty=alpha))["length"].mean()
        for alpha in (0.0, 1.0, 3.0)
    ]
    assert lengths[0] < lengths[1] < lengths[2]


@pytest.mark.parametrize("seed", range(4))
def test_a_beam_of_one_without_length_penalty_is_greedy(seed, make_model):
    model = make_model(batch_size=5, vocab_size=7, max_length=8, seed=seed)
    beam = model.run(BeamDecoder(width=1, length_penalty=0.0))
    greedy = model.run(GreedyDecoder())
    for name in ("tokens", "length"):
        np.testing.assert_array_equal(beam[name], greedy[name])
    for name in ("score", "log_prob"):
        np.testing.assert_allclose(beam[name], greedy[name], rtol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_stopping_early_changes_no_result(alpha, make_model):
    model = make_model(batch_size=6, vocab_size=8, max_length=12, seed=1)
    fields = {"width": 3, "n_best": 3, "length_penalty": alpha}
    early, late = (model.run(BeamDecoder(early_stop=stop, **fields)) for stop in (True, False))
    for name in ("tokens", "score", "log_prob", "length"):
        np.testing.assert_array_equal(early[name], late[name])


@not_traced
def test_a_search_stops_when_nothing_can_change(make_model):
    model = make_model(batch_size=1, vocab_size=8, max_length=12)
    model.table[:, :, END] += 2
    calls, step = [], model.step
    model.step = lambda *args: calls.append(1) or step(*args)

    def num_steps(early_stop, **options):
        calls.clear()
        model.run(BeamDecoder(width=3, length_penalty=0.0, early_stop=early_stop), **options)
        return len(calls)

    assert 1 < num_steps(early_stop=True) < 12
    assert num_steps(early_stop=False) == 12
    assert num_steps(early_stop=False, limit=5) == 5
    assert num_steps(early_stop=False, prefix=[[4, END]]) == 2  # no live hypothesis is left


def test_the_bound_waits_for_long_sentences_that_may_still_win(make_model):
    """END at once has p = 0.6; a path of near certainty to a length of 9 has 0.4, and a better
    score when alpha is large: (5 + 9) / 6 = 2.33 > log(0.4) / log(0.6) = 1.79."""
    model = make_model(batch_size=1, vocab_size=5, max_length=9)
    model.table[:] = -30.0

    def step(tokens, state, index):
        first = np.log([1e-9, 1e-9, 0.6, 0.4, 1e-9])
        then = np.where(np.arange(5) == 3, 30.0, 0.0)
        last = np.where(np.arange(5) == 2, 30.0, 0.0)
        logits = ops.where(index == 0, first, ops.where(index < 8, then, last))
        logits = ops.broadcast_to(ops.cast(logits, "float32"), (*ops.shape(tokens), 5))
        return logits, {"carry": state["carry"]}

    model.step = step
    result = model.run(BeamDecoder(width=1, length_penalty=0.0))
    assert result["tokens"][0].tolist() == [[END] + [PAD] * 8]
    result = model.run(BeamDecoder(width=1, length_penalty=1.0))
    assert result["tokens"][0].tolist() == [[3] * 8 + [END]]
    result = model.run(BeamDecoder(width=2, n_best=2, length_penalty=1.0))
    assert result["tokens"][0].tolist() == [[3] * 8 + [END], [END] + [PAD] * 8]
    np.testing.assert_allclose(result["score"][0], np.log([0.4, 0.6]) / [14 / 6, 1], rtol=1e-4)
    options = {"width": 1, "length_penalty": 1.0, "length_rule": "power"}
    result = model.run(BeamDecoder(**options))  # 9 > 1.79
    assert result["tokens"][0].tolist() == [[3] * 8 + [END]]
    for stop in ("likely", "full"):  # do not wait
        result = model.run(BeamDecoder(**options, early_stop=stop))
        assert result["tokens"][0].tolist() == [[END] + [PAD] * 8]


@pytest.mark.parametrize("stop", ["likely", "full"])
def test_a_search_may_stop_before_nothing_can_change(stop, make_model):
    """By the scores at the present length, or as soon as enough hypotheses are finished."""
    model = make_model(batch_size=6, vocab_size=8, max_length=12, seed=1)
    model.table[:, :, END] += 1
    options = {"width": 3, "n_best": 3, "length_penalty": 1.0, "length_rule": "power"}
    early, sure = (model.run(BeamDecoder(early_stop=stop, **options)) for stop in (stop, True))
    for sentence in range(6):
        expected = plain_beam(model, sentence, 3, 12, lambda p, n: p / n, stop)
        check_equal(early, sentence, expected)
    assert (early["score"] <= sure["score"]).all() and (early["score"] < sure["score"]).any()


def test_an_unknown_choice_lists_the_known_ones():
    with pytest.raises(ValueError, match="unknown length_rule 'mean'; known: gnmt, power"):
        BeamDecoder(length_rule="mean")
    with pytest.raises(ValueError, match="unknown early_stop 'never'; known: True, False, likely"):
        BeamDecoder(early_stop="never")


def test_finished_sentences_come_before_likelier_unfinished_ones(make_model):
    model = make_model(batch_size=1, vocab_size=6, max_length=3)
    model.table[:, :, END] = -5.0
    result = model.run(BeamDecoder(width=4, n_best=4, length_penalty=0.0))
    has_ended = [END in tokens for tokens in result["tokens"][0]]
    assert has_ended == sorted(has_ended, reverse=True)
    assert has_ended[0] and not has_ended[-1]
    assert result["score"][0, 0] < result["score"][0, -1]


def test_missing_hypotheses_are_empty(make_model):
    model = make_model(batch_size=2, vocab_size=4, max_length=4)  # END and one letter
    result = model.run(BeamDecoder(width=7, n_best=7, length_penalty=3.0))
    expected = {(*[3] * n, END, *[PAD] * (3 - n)) for n in range(4)} | {(3, 3, 3, 3)}
    for b in range(2):
        assert {tuple(tokens) for tokens in result["tokens"][b, :5].tolist()} == expected
    assert (result["tokens"][:, 5:] == PAD).all()
    assert (result["length"][:, 5:] == 0).all()
    assert (result["score"][:, 5:] == -1e9).all()
    assert (result["log_prob"][:, 5:] == -1e9).all()


def test_the_length_penalty_is_equation_14():
    lengths = np.array([1, 4, 19])
    for alpha in (0.0, 0.6, 1.5):
        expected = (5.0 + lengths) ** alpha / 6.0**alpha
        result = length_penalty(ops.array(lengths), alpha)
        np.testing.assert_allclose(ops.convert_to_numpy(result), expected, rtol=1e-5)


def test_the_power_rule_is_a_power_of_the_length():
    result = length_penalty(ops.array([1, 4, 19]), 1.5, "power")
    np.testing.assert_allclose(ops.convert_to_numpy(result), [1, 8, 19**1.5], rtol=1e-5)


def test_the_coverage_penalty_is_equation_14():
    coverage = np.array([[0.5, 1.7, 0.25, 0.0], [0.9, 0.0, 3.0, 1.0]], "float32")
    mask = np.array([[True, True, True, False], [True, True, False, True]])
    expected = [np.log(0.5) + np.log(0.25), np.log(0.9) + np.log(1e-9)]
    result = ops.convert_to_numpy(coverage_penalty(ops.array(coverage), ops.array(mask)))
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def covered(model, num_sources):
    """Add coverage to the model → the penalty of a sentence's tokens by plain numpy."""
    rng = np.random.default_rng(7)
    attention = rng.dirichlet(0.3 * np.ones(num_sources), size=model.size).astype("float32")
    masks = np.arange(num_sources) < np.array([[num_sources], [num_sources - 2]])
    state, step = model.state, model.step

    def covered_state():
        coverage = ops.zeros((2, num_sources))
        constant = state()["constant"] | {"source_mask": ops.array(masks)}
        return {"constant": constant, "carry": state()["carry"] | {"coverage": coverage}}

    def covered_step(tokens, state, index):
        coverage = state["carry"]["coverage"]
        logits, new = step(tokens, state, index)
        new["carry"]["coverage"] = coverage + ops.take(attention, new["carry"]["code"], axis=0)
        return logits, new

    def penalty(sentence, tokens):
        code, coverage = 0, np.zeros(num_sources)
        for index, token in enumerate((START, *tokens[:-1])):
            code = (code * model.vocab_size + token + index) % model.size
            coverage = coverage + attention[code]
        return np.log(np.minimum(coverage, 1)[masks[sentence]]).sum()

    model.state, model.step = covered_state, covered_step
    return penalty


@pytest.mark.parametrize("beta", [0.2, 1.0])
def test_the_coverage_penalty_changes_the_ranking(beta, make_model):
    model = make_model(batch_size=2, vocab_size=6, max_length=4)
    fields = {"width": 120, "n_best": 50, "length_penalty": 0.6}
    without = model.run(BeamDecoder(**fields))
    penalty = covered(model, num_sources=5)
    result = model.run(BeamDecoder(**fields, coverage_penalty=beta))
    for sentence in range(2):
        expected = []
        for group in all_sequences(letters=(3, 4, 5), max_length=4):
            scored = [(model.log_prob(sentence, tokens), tokens) for tokens in group]
            scored = [
                (normalized(p, len(t), 0.6) + beta * penalty(sentence, t), p, t) for p, t in scored
            ]
            expected += sorted(scored, reverse=True)
        check_equal(result, sentence, expected)
    assert (result["tokens"] != without["tokens"]).any()


def test_a_coverage_penalty_needs_a_model_with_coverage(make_model):
    model = make_model(batch_size=2, vocab_size=6, max_length=4)
    with pytest.raises(ValueError, match=r'=0.5 needs state\["carry"\]\["coverage"\]'):
        model.run(BeamDecoder(coverage_penalty=0.5))
    covered(model, num_sources=5)
    state = model.state()
    del state["constant"]["source_mask"]
    model.state = lambda: state
    with pytest.raises(ValueError, match=r'=0.5 needs state\["constant"\]\["source_mask"\]'):
        model.run(BeamDecoder(coverage_penalty=0.5))


@not_traced
@pytest.mark.parametrize("width", [1, 3])
def test_the_constant_state_is_repeated_and_never_reordered(width, make_model):
    model = make_model(batch_size=2, vocab_size=6, max_length=4)
    sentences, step = [], model.step

    def recording_step(tokens, state, index):
        sentences.append(state["constant"]["sentence"])
        return step(tokens, state, index)

    model.step = recording_step
    model.run(BeamDecoder(width=width))
    assert ops.convert_to_numpy(sentences[0]).tolist() == [0] * width + [1] * width
    assert all(sentence is sentences[0] for sentence in sentences)
