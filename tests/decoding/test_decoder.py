"""The contract of every decoder."""

import ast
import builtins
import inspect
import re
import typing

import numpy as np
import pytest
from keras import ops

from tfx_transformer.decoding import DECODERS, BeamDecoder, Decoder, GreedyDecoder, SamplingDecoder

PAD, START, END = 0, 1, 2
SPECS = [
    {"kind": "greedy"},
    {"kind": "sample", "n_best": 3, "top_k": 6, "top_p": 0.95, "seed": 5},
    {"kind": "beam", "width": 3, "n_best": 3},
]
DETERMINISTIC = [spec for spec in SPECS if spec["kind"] != "sample"]


def hypotheses(result):
    """Sentence, rank, tokens up to END, log_prob and score of each hypothesis."""
    for b, n in np.ndindex(result["length"].shape):
        length = result["length"][b, n]
        tokens = result["tokens"][b, n]
        assert (tokens[length:] == PAD).all()
        yield b, n, tokens[:length].tolist(), result["log_prob"][b, n], result["score"][b, n]


def test_every_registered_decoder_is_tested_here():
    assert {spec["kind"] for spec in SPECS} == set(DECODERS)


@pytest.mark.parametrize("kind", DECODERS)
def test_the_result_has_the_documented_shapes_and_types(kind, make_model):
    model = make_model(batch_size=3, vocab_size=11, max_length=6)
    options = {
        "beam": {"n_best": 4, "width": 5},
        "sample": {"n_best": 4, "seed": 0},
        "greedy": {},
    }[kind]
    n_best = 1 if kind == "greedy" else 4
    result = model.run(DECODERS.make({"kind": kind, **options}))
    assert result["tokens"].shape == (3, n_best, 6)
    assert all(result[name].shape == (3, n_best) for name in ("score", "log_prob", "length"))
    types = {name: str(value.dtype) for name, value in result.items()}
    assert types == {
        "tokens": "int32",
        "score": "float32",
        "log_prob": "float32",
        "length": "int32",
    }


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_tokens_follow_the_model(spec, make_speller):
    words = [[5, 3, 3, 4], [6], [4, 6, 5, 3, 5, 6], []]
    speller = make_speller(words, vocab_size=7, max_length=8)
    decoder = DECODERS.make(spec, **({"temperature": 0.1} if spec["kind"] == "sample" else {}))
    result = speller.run(decoder)
    for b, n, tokens, _, _ in hypotheses(result):
        if n == 0:
            assert tokens == [*words[b], END]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_log_probability_is_that_of_the_returned_tokens(spec, make_model):
    model = make_model(batch_size=3, vocab_size=8, max_length=7)
    count = 0
    for b, _, tokens, log_prob, _ in hypotheses(model.run(DECODERS.make(spec))):
        np.testing.assert_allclose(log_prob, model.log_prob(b, tokens), rtol=1e-5)
        assert END not in tokens[:-1]
        assert tokens[-1] == END or len(tokens) == 7
        count += 1
    assert count >= 3


@pytest.mark.parametrize("spec", DETERMINISTIC, ids=str)
def test_a_batch_gives_the_same_as_single_sentences(spec, make_model):
    model = make_model(batch_size=4, vocab_size=9, max_length=8, seed=3)
    decoder = DECODERS.make(spec)
    together = model.run(decoder)
    assert len(set(together["length"][:, 0].tolist())) > 1
    for sentence in range(4):
        alone = model.only(sentence).run(decoder)
        np.testing.assert_array_equal(together["tokens"][sentence], alone["tokens"][0])
        np.testing.assert_array_equal(together["length"][sentence], alone["length"][0])
        np.testing.assert_allclose(together["score"][sentence], alone["score"][0], rtol=1e-5)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_prefixes_of_different_lengths_are_forced(spec, make_model):
    model = make_model(batch_size=4, vocab_size=8, max_length=6)
    prefix = np.array([[5, 6, 3], [7, PAD, PAD], [PAD, PAD, PAD], [4, END, PAD]], "int32")
    result = model.run(DECODERS.make(spec), prefix=prefix)
    free = model.run(DECODERS.make(spec))
    if spec["kind"] == "beam":
        assert all(
            len({tuple(tokens) for tokens in n_best.tolist()}) == 3
            for n_best in result["tokens"][:3]
        )
    for b, n, tokens, log_prob, _ in hypotheses(result):
        forced = [token for token in prefix[b].tolist() if token != PAD]
        if b == 3 and tokens == []:
            assert n > 0  # the prefix allows one hypothesis only
            continue
        assert tokens[: len(forced)] == forced
        np.testing.assert_allclose(log_prob, model.log_prob(b, tokens), rtol=1e-5)
    assert result["tokens"][3, 0].tolist() == [4, END, PAD, PAD, PAD, PAD]
    assert free["tokens"][0, 0, :3].tolist() != [5, 6, 3]
    if spec["kind"] != "sample":
        np.testing.assert_array_equal(result["tokens"][2], free["tokens"][2])


@pytest.mark.parametrize("num_known", [1, 2])
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_known_tokens_may_be_read_in_one_pass(spec, num_known, make_model):
    model = make_model(batch_size=3, vocab_size=8, max_length=6)
    prefix = np.array([[5, 6, 3], [7, 4, PAD], [4, 3, END]], "int32")
    limit = np.array([6, 3, 6], "int32")
    decoder = DECODERS.make(spec, no_repeat_ngram=2)
    expected = model.run(decoder, prefix=prefix, limit=limit)
    sizes, step = [], model.step
    model.step = lambda tokens, state, index: (
        sizes.append(tokens.shape) or step(tokens, state, index)
    )
    result = model.run(decoder, prefix=prefix, limit=limit, num_known=num_known)
    assert sizes[0] == (3, num_known)  # one row for each sentence, not one for each of the beam
    np.testing.assert_array_equal(result["tokens"], expected["tokens"])
    np.testing.assert_array_equal(result["length"], expected["length"])
    for name in ("score", "log_prob"):
        np.testing.assert_allclose(result[name], expected[name], rtol=1e-5)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_prefix_is_exempt_from_the_constraints(spec, make_model):
    model = make_model(batch_size=1, vocab_size=6, max_length=7)
    decoder = DECODERS.make(spec, forbidden=(4,), no_repeat_ngram=1, min_length=6)
    for _, _, tokens, log_prob, _ in hypotheses(model.run(decoder, prefix=[[4, 3, 3]])):
        assert tokens[:3] == [4, 3, 3]
        assert tokens[3:] == [5, END]  # all that is left, though shorter than min_length
        np.testing.assert_allclose(log_prob, model.log_prob(0, tokens), rtol=1e-5)
        break


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_sentence_ends_where_nothing_else_is_allowed(spec, make_model):
    model = make_model(batch_size=2, vocab_size=6, max_length=5)
    model.table[:, :, [PAD, START, 4, 5]] = -np.inf  # the model forbids all but END and 3
    result = model.run(DECODERS.make(spec, min_length=4, no_repeat_ngram=1))
    assert result["tokens"][:, 0].tolist() == [[3, END, PAD, PAD, PAD]] * 2
    for b in range(2):
        expected = model.log_prob(b, [3, END])
        np.testing.assert_allclose(result["log_prob"][b, 0], expected, rtol=1e-5)


@pytest.mark.parametrize("spec", DETERMINISTIC, ids=str)
def test_a_forced_token_of_probability_zero_gives_finite_scores(spec, make_model):
    model = make_model(batch_size=1, vocab_size=6, max_length=4)
    model.table[:, :, 5] = -np.inf
    result = model.run(DECODERS.make(spec), prefix=[[5]])
    assert result["tokens"][0, 0, 0] == 5
    assert 5 not in result["tokens"][0, 0, 1:]
    assert -2e4 < result["log_prob"][0, 0] < -1e4


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_each_sentence_is_cut_off_at_its_own_limit(spec, make_model):
    model = make_model(batch_size=4, vocab_size=8, max_length=6)
    model.table[:, :, END] = -50.0  # never ends by itself
    result = model.run(DECODERS.make(spec), limit=np.array([2, 6, 1, 9]))
    assert result["length"][:, 0].tolist() == [2, 6, 1, 6]
    for b, _, tokens, log_prob, _ in hypotheses(result):
        assert END not in tokens
        np.testing.assert_allclose(log_prob, model.log_prob(b, tokens), rtol=1e-5)
    everywhere = model.run(DECODERS.make(spec), limit=3)
    assert everywhere["length"][:, 0].tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("spec", DETERMINISTIC, ids=str)
def test_a_limit_is_the_same_as_a_smaller_max_length(spec, make_model):
    model = make_model(batch_size=3, vocab_size=8, max_length=9, seed=4)
    model.table[:, :, END] -= 2
    limited = model.run(DECODERS.make(spec), limit=5)
    smaller = model.run(DECODERS.make(spec), max_length=5)
    np.testing.assert_array_equal(limited["tokens"][:, :, :5], smaller["tokens"])
    np.testing.assert_allclose(limited["score"], smaller["score"], rtol=1e-6)
    assert (limited["tokens"][:, :, 5:] == PAD).all()


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_no_sentence_ends_before_min_length(spec, make_model):
    model = make_model(batch_size=3, vocab_size=8, max_length=7)
    model.table[:, :, END] += 6  # would end at once
    assert (model.run(DECODERS.make(spec))["length"][:, 0] < 4).any()
    result = model.run(DECODERS.make(spec, min_length=4))
    for _, _, tokens, _, _ in hypotheses(result):
        assert END not in tokens[:4]
    assert (result["length"][:, 0] == 5).any()


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_no_ngram_is_generated_twice(spec, size, make_speller):
    words = [[3, 4, 5] * 3, [6] * 8, [7, 5, 8, 7, 5, 8, 4, 4, 4]]
    model = make_speller(words, vocab_size=9, max_length=12)

    def repeats(result):
        for _, _, tokens, _, _ in hypotheses(result):
            ngrams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
            yield len(ngrams) != len(set(ngrams))

    assert any(repeats(model.run(DECODERS.make(spec))))
    assert not any(repeats(model.run(DECODERS.make(spec, no_repeat_ngram=size))))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_forbidden_tokens_start_and_pad_are_never_generated(spec, make_model):
    model = make_model(batch_size=3, vocab_size=8, max_length=6)
    model.table[:, :, [PAD, START, 4, 7]] += 5
    assert {4, 7} & set(model.run(DECODERS.make(spec))["tokens"].flat)
    for _, _, tokens, _, _ in hypotheses(model.run(DECODERS.make(spec, forbidden=[4, 7]))):
        assert not {PAD, START, 4, 7} & set(tokens)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_end_alone_is_an_empty_sentence(spec, make_model):
    model = make_model(batch_size=2, vocab_size=6, max_length=4)
    model.table[:, :, END] = 90.0
    result = model.run(DECODERS.make(spec))
    assert result["tokens"][:, 0].tolist() == [[END, PAD, PAD, PAD]] * 2
    assert result["length"][:, 0].tolist() == [1, 1]
    np.testing.assert_allclose(result["log_prob"][:, 0], 0, atol=1e-5)


@pytest.mark.parametrize("spec", DETERMINISTIC, ids=str)
def test_a_finished_sentence_no_longer_changes(spec, make_model):
    model = make_model(batch_size=2, vocab_size=12, max_length=9)
    model.table[0, :, END] += 9  # the first ends long before the second
    model.table[1, :, END] -= 9
    long = model.run(DECODERS.make(spec))
    short = model.run(DECODERS.make(spec), max_length=4)
    assert long["length"][0, 0] < 4
    assert long["length"][1, 0] == 9
    np.testing.assert_array_equal(long["tokens"][0, 0, :4], short["tokens"][0, 0])
    np.testing.assert_array_equal(long["log_prob"][0, 0], short["log_prob"][0, 0])


@pytest.mark.parametrize("spec", DETERMINISTIC, ids=str)
def test_end_may_be_start_or_pad_as_in_some_models(spec, make_model):
    model = make_model(batch_size=2, vocab_size=6, max_length=7)
    state = model.state()
    for ids in ({"start_id": END, "pad_id": PAD}, {"start_id": START, "pad_id": END}):
        result = DECODERS.make(spec)(
            model.step, state, batch_size=2, max_length=7, end_id=END, **ids
        )
        tokens, length = (ops.convert_to_numpy(result[name]) for name in ("tokens", "length"))
        for b in range(2):
            assert tokens[b, 0, length[b, 0] - 1] == END
            assert (tokens[b, 0, length[b, 0] :] == ids["pad_id"]).all()


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_half_precision_logits_give_float32_scores(spec, make_model):
    model = make_model(batch_size=2, vocab_size=8, max_length=5, dtype="bfloat16")
    result = model.run(DECODERS.make(spec))
    assert result["log_prob"].dtype == "float32"
    for b, _, tokens, log_prob, _ in hypotheses(result):
        np.testing.assert_allclose(log_prob, model.log_prob(b, tokens), atol=0.15)


def test_a_decoder_is_a_value():
    assert DECODERS.make({"kind": "beam", "forbidden": [3]}) == BeamDecoder(forbidden=(3,))
    assert hash(GreedyDecoder(min_length=2)) == hash(GreedyDecoder(min_length=2))
    with pytest.raises(ValueError, match=r"unknown decoder 'bean'; known: beam, greedy, sample"):
        DECODERS.make("bean")


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("greedy", {"min_length": -1}, "min_length must be a whole number, zero or more.*=-1"),
        ("greedy", {"no_repeat_ngram": 1.5}, "no_repeat_ngram must be a whole number.*=1.5"),
        ("greedy", {"forbidden": (3, -4)}, "forbidden must be a whole number.*=-4"),
        ("beam", {"width": 0}, "width must be a whole number above zero.*width=0"),
        ("beam", {"n_best": 0}, "n_best must be a whole number above zero.*n_best=0"),
        ("beam", {"n_best": 5, "width": 3}, "n_best must not exceed width.*n_best=5, width=3"),
        ("beam", {"length_penalty": -0.1}, "length_penalty must be 0 or more.*=-0.1"),
        ("beam", {"length_penalty": float("nan")}, "length_penalty must be 0 or more.*=nan"),
        ("beam", {"coverage_penalty": "0"}, "coverage_penalty must be 0 or more.*='0'"),
        ("sample", {"temperature": 0.0}, "temperature must be above 0.*=0.0"),
        ("sample", {"temperature": "hot"}, "temperature must be above 0.*='hot'"),
        ("sample", {"top_k": -1}, "top_k must be a whole number, zero or more.*=-1"),
        ("sample", {"top_p": 0.0}, "top_p must lie in 0 < top_p <= 1.*=0.0"),
        ("sample", {"top_p": 1.1}, "top_p must lie in 0 < top_p <= 1.*=1.1"),
        ("sample", {"seed": 0.5}, "seed must be a whole number.*=0.5"),
        ("sample", {"n_best": 0}, "n_best must be a whole number above zero.*=0"),
    ],
)
def test_a_bad_field_is_named(kind, fields, message):
    with pytest.raises(ValueError, match=message):
        DECODERS.make({"kind": kind, **fields})


@pytest.mark.parametrize(
    ("fields", "call", "message"),
    [
        ({}, {"max_length": 0}, "max_length must be a whole number above zero.*=0"),
        ({}, {"prefix": [[3, 4, 5, 3, 4, 5]]}, "prefix must fit in max_length=5; got .* 6"),
        ({"forbidden": (3, END)}, {}, r"forbidden must not hold end_id=2; got \(3, 2\)"),
        ({"forbidden": (6,)}, {}, "forbidden must lie below the model's 6 logits.*=6"),
    ],
)
def test_a_bad_call_is_named(fields, call, message, make_model):
    model = make_model(batch_size=1, vocab_size=6, max_length=5)
    with pytest.raises(ValueError, match=message):
        model.run(GreedyDecoder(**fields), **call)


def test_bad_ids_and_states_are_named(make_model):
    model = make_model(batch_size=1, vocab_size=6, max_length=5)
    decoder, state = SamplingDecoder(), model.state()
    with pytest.raises(ValueError, match="end_id must lie below the model's 6 logits.*end_id=7"):
        decoder(model.step, state, 1, 5, start_id=START, end_id=7, pad_id=PAD)
    with pytest.raises(ValueError, match="pad_id must be a whole number.*=-1"):
        decoder(model.step, state, 1, 5, start_id=START, end_id=END, pad_id=-1)
    with pytest.raises(ValueError, match=r'"constant" and "carry"; got \[\'carry\'\]'):
        decoder(model.step, {"carry": ()}, 1, 5, START, END, PAD)
    with pytest.raises(ValueError, match=r'"constant" and "carry"; got tuple'):
        decoder(model.step, (), 1, 5, START, END, PAD)


@pytest.mark.parametrize("cls", [Decoder, BeamDecoder, GreedyDecoder, SamplingDecoder])
def test_every_field_is_documented_and_has_a_literal_default(cls):
    """The command line reads them from the source, without an import."""
    (tree,) = ast.parse(inspect.getsource(cls)).body
    fields = {node.target.id: node for node in tree.body if isinstance(node, ast.AnnAssign)}
    documented = re.findall(r"^    (\w+): ", inspect.getdoc(cls).partition("\n\nCall")[0], re.M)
    assert documented == list(fields)
    for node in fields.values():
        ast.literal_eval(node.value)
        eval(ast.unparse(node.annotation), vars(typing) | vars(builtins))
