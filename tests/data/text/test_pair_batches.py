"""Batches against plain Python loops: shift, padding, weights, order, resuming."""

from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tfx_transformer.data import (
    END,
    PAD,
    START,
    PairBatches,
    Pairs,
    append_end,
    load_pairs,
    shift,
    train_tokenizer,
)
from tfx_transformer.data.buckets import EMPTY
from tfx_transformer.data.share import Share

BUDGET, LONGEST = 130, 20


@pytest.fixture(scope="module")
def pairs():
    """Phrases, some of them long, one of them empty after normalization."""
    emoji = load_pairs("embedded:emoji/en-ko", "test")
    source = [*emoji.source, *(" ".join(emoji.source[i : i + 7]) for i in range(45)), "\u200b"]
    return Pairs("mine", source, [*emoji.target, *emoji.target[:46]])


@pytest.fixture(scope="module")
def tokenizers(phrases):
    """One for each side, of different sizes."""
    return train_tokenizer(phrases["en"], 600), train_tokenizer(phrases["ko"], 1200)


@pytest.fixture(scope="module")
def data(pairs, tokenizers):
    return PairBatches(pairs, *tokenizers, token_budget=BUDGET, max_length=LONGEST, seed=5)


def as_lists(dataset):
    """Batches as tuples of plain lists, so that they can be compared."""
    return [
        (x["source"].tolist(), x["target"].tolist(), targets.tolist(), weights.tolist())
        for x, targets, weights in dataset.as_numpy_iterator()
    ]


def pad(row, length):
    return row + [PAD] * (length - len(row))


def encoded(pairs, tokenizers):
    return [
        tokenizer.encode_list(texts)
        for tokenizer, texts in zip(tokenizers, (pairs.source, pairs.target), strict=True)
    ]


def test_shift_puts_start_before_the_inputs_and_end_after_the_targets():
    ids = tf.ragged.constant([[7, 8, 9], [], [5]], dtype=tf.int32)
    decoder_input, targets = shift(ids)
    assert decoder_input.to_list() == [[START, 7, 8, 9], [START], [START, 5]]
    assert targets.to_list() == [[7, 8, 9, END], [END], [5, END]]
    assert append_end(ids).to_list() == targets.to_list()


def test_batches_match_the_definition_in_every_row(data, pairs, tokenizers):
    sources, targets = encoded(pairs, tokenizers)
    kept = [
        (s, t)
        for s, t in zip(sources, targets, strict=True)
        if s and t and max(len(s), len(t)) < LONGEST
    ]
    batches = as_lists(data.dataset(epoch=2))
    for batch, order in zip(batches, data.epoch_batches(2), strict=True):
        expected = []
        for row in order.rows:
            source, target = kept[order.rows[0] if row == EMPTY else row]
            weight = 0.0 if row == EMPTY else 1.0
            expected.append(
                (
                    pad([*source, END], order.length[0]),
                    pad([START, *target], order.length[1]),
                    pad([*target, END], order.length[1]),
                    [weight] * (len(target) + 1) + [0.0] * (order.length[1] - len(target) - 1),
                )
            )
        assert batch == tuple(map(list, zip(*expected, strict=True)))
    assert any(EMPTY in order.rows for order in data.epoch_batches(2))


def test_the_types_are_those_that_keras_expects(data):
    (inputs, targets, weights) = next(iter(data.dataset()))
    assert {x.dtype for x in (*inputs.values(), targets)} == {tf.int32}
    assert weights.dtype == tf.float32
    assert set(inputs) == {"source", "target"}


def test_every_pair_occurs_exactly_once_in_an_epoch(data, pairs, tokenizers):
    counts = Counter()
    for source, _, targets, weights in as_lists(data.dataset(epoch=1)):
        rows = [i for i, row in enumerate(weights) if any(row)]
        texts = [
            tokenizer.decode_list([ids[i] for i in rows])
            for tokenizer, ids in zip(tokenizers, (source, targets), strict=True)
        ]
        counts.update(zip(*texts, strict=True))
    sources, targets = encoded(pairs, tokenizers)
    expected = Counter(
        (tokenizers[0].normalize(one), tokenizers[1].normalize(other))
        for one, other, s, t in zip(pairs.source, pairs.target, sources, targets, strict=True)
        if s and t and max(len(s), len(t)) < LONGEST
    )
    assert counts == expected
    assert data.lengths.shape[1] == sum(expected.values())
    assert data.lengths.shape[1] + sum(data.skipped.values()) == len(pairs)


def test_too_long_and_empty_pairs_are_counted(data, pairs, tokenizers):
    sources, targets = encoded(pairs, tokenizers)
    long = sum(max(len(s), len(t)) >= LONGEST for s, t in zip(sources, targets, strict=True))
    assert long >= 5
    assert data.skipped == {"over 20 tokens": long, "empty after normalization": 1}


def test_there_are_few_shapes_and_none_exceeds_the_token_budget(data):
    shapes = {
        (x["source"].shape[0], (x["source"].shape[1], x["target"].shape[1]))
        for x, _, _ in data.dataset()
    }
    assert shapes == set(data.batch_shapes())
    assert 2 <= len(shapes) <= 16
    assert all(rows * max(lengths) <= BUDGET for rows, lengths in shapes)


def test_the_description_counts_the_content_of_the_batches(data):
    batches = [(x["source"], x["target"], y) for x, y, _ in data.dataset()]
    weights = [w for _, _, w in data.dataset()]
    real = [tf.reduce_any(w > 0, axis=1) for w in weights]
    tokens = [
        sum(int(tf.math.count_nonzero(b[side][r])) for b, r in zip(batches, real, strict=True))
        for side in (0, 2)
    ]
    positions = sum(b[0].numpy().size + b[1].numpy().size for b in batches)
    padding = 1 - sum(tokens) / positions
    assert str(data) == (
        f"{data.lengths.shape[1]:,} pairs "
        f"(skipped: {data.skipped['over 20 tokens']} over 20 tokens, "
        f"1 empty after normalization; truncated: 0), {tokens[0]:,} + {tokens[1]:,} tokens in "
        f"{len(batches)} batches of {len({(b[0].shape, b[1].shape) for b in batches})} shapes, "
        f"{padding:.0%} padding"
    )
    assert data.steps_per_epoch == len(batches)


def test_the_same_seed_and_epoch_give_the_same_batches(data, pairs, tokenizers):
    options = {"token_budget": BUDGET, "max_length": LONGEST}
    again = PairBatches(pairs, *tokenizers, **options, seed=5)
    other = PairBatches(pairs, *tokenizers, **options, seed=6)
    assert as_lists(data.dataset(3)) == as_lists(again.dataset(3))
    assert as_lists(data.dataset(3)) != as_lists(data.dataset(4))
    assert as_lists(data.dataset(3)) != as_lists(other.dataset(3))


@pytest.mark.parametrize("options", [{}, {"n_best": 4}, {"noise": 0.5}])
def test_a_run_resumed_at_any_step_equals_the_uninterrupted_one(pairs, tokenizers, options):
    def fresh():
        return PairBatches(pairs, *tokenizers, token_budget=BUDGET, max_length=LONGEST, **options)

    data, resumed = fresh(), fresh()
    steps = data.steps_per_epoch
    whole = as_lists(data.stream().take(3 * steps))
    for epoch, step in [(0, 5), (1, 0), (1, steps - 1), (1, steps), (2, 3)]:
        batches = as_lists(resumed.stream(epoch, step).take(4))
        assert batches == whole[epoch * steps + step :][:4]
    assert as_lists(resumed.dataset(1, 7)) == whole[steps + 7 : 2 * steps]


def test_subword_regularization_samples_another_segmentation_in_each_epoch(pairs, tokenizers):
    options = {"token_budget": BUDGET, "max_length": LONGEST, "seed": 5, "n_best": 6}
    varied = PairBatches(pairs, *tokenizers, **options, alpha=0.1)
    data = PairBatches(pairs, *tokenizers, **options, alpha=1e4)  # always the best one
    segmentations = []
    for epoch in range(2):
        plain, sampled = as_lists(data.dataset(epoch)), as_lists(varied.dataset(epoch))
        changed = 0
        for one, other in zip(plain, sampled, strict=True):
            for side, tokenizer in ((0, tokenizers[0]), (2, tokenizers[1])):
                assert np.shape(one[side]) == np.shape(other[side])
                assert tokenizer.decode_list(one[side]) == tokenizer.decode_list(other[side])
                assert all(END in row for row in other[side])  # nothing is truncated
            changed += one[2] != other[2]
        assert changed > len(plain) / 2
        rows = [row[: row.index(END)] for batch in sampled for row in batch[2]]
        segmentations.append(dict(zip(tokenizers[1].decode_list(rows), rows, strict=True)))
    first, second = segmentations
    assert first.keys() == second.keys()
    assert sum(first[text] != second[text] for text in first) > len(first) / 4


def test_noise_is_in_sources_only_and_differs_between_epochs(pairs, tokenizers):
    options = {"token_budget": BUDGET, "max_length": LONGEST, "seed": 5}
    data = PairBatches(pairs, *tokenizers, **options)
    noisy = PairBatches(pairs, *tokenizers, **options, noise=0.9)
    changed = []
    for epoch in range(2):
        plain, found = as_lists(data.dataset(epoch)), as_lists(noisy.dataset(epoch))
        assert [batch[1:] for batch in plain] == [batch[1:] for batch in found]
        rows = {}
        for one, other in zip(plain, found, strict=True):
            for row, new in zip(one[0], other[0], strict=True):
                assert len(row) == len(new) and new.count(END) == 1
                assert {*new} <= {*row, PAD}
                rows[tuple(row[: row.index(END)])] = new[: new.index(END)]
        assert sum([*row] != new for row, new in rows.items()) > len(rows) / 3
        changed.append(rows)
    assert changed[0].keys() == changed[1].keys()
    assert sum(changed[0][row] != changed[1][row] for row in changed[0]) > len(rows) / 3


def test_evaluation_keeps_every_pair_and_truncates_long_ones(pairs, tokenizers):
    data = PairBatches(pairs, *tokenizers, token_budget=BUDGET, max_length=LONGEST, seed=None)
    sources, targets = encoded(pairs, tokenizers)
    longest = LONGEST - 1
    rows = {}
    for batch, order in zip(as_lists(data.dataset()), data.epoch_batches(), strict=True):
        for row, source, target, weights in zip(
            order.rows, batch[0], batch[2], batch[3], strict=True
        ):
            if row != EMPTY:
                rows[row] = source, target
                assert sum(weights) == min(len(targets[row]), longest) + 1
    assert sorted(rows) == list(range(len(pairs)))
    for row, (source, target) in rows.items():
        assert source == pad([*sources[row][:longest], END], len(source))
        assert target == pad([*targets[row][:longest], END], len(target))
    long = sum(max(len(s), len(t)) > longest for s, t in zip(sources, targets, strict=True))
    assert data.truncated == long > 0
    assert data.lengths.shape[1] == len(pairs)


def test_evaluation_has_a_fixed_order(pairs, tokenizers):
    data = PairBatches(pairs, *tokenizers, token_budget=BUDGET, max_length=LONGEST, seed=None)
    assert as_lists(data.dataset(0)) == as_lists(data.dataset(1))


def test_sources_are_encoded_for_decoding_as_in_training(data, tokenizers):
    (inputs, _, _) = next(iter(data.dataset()))
    texts = tokenizers[0].decode(inputs["source"])
    ids = append_end(tokenizers[0].encode(texts)).to_tensor(PAD)
    np.testing.assert_array_equal(ids, inputs["source"][:, : ids.shape[1]])
    assert not np.any(inputs["source"][:, ids.shape[1] :])


def test_keras_trains_and_evaluates_on_the_batches(data, tokenizers):
    sizes = [tokenizer.vocab_size for tokenizer in tokenizers]
    source, target = (keras.Input([None], dtype="int32", name=n) for n in ("source", "target"))
    memory = ops.mean(keras.layers.Embedding(sizes[0], 8)(source), axis=1, keepdims=True)
    logits = keras.layers.Dense(sizes[1])(keras.layers.Embedding(sizes[1], 8)(target) + memory)
    model = keras.Model({"source": source, "target": target}, logits)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss=loss, jit_compile=False)
    before = model.evaluate(data.dataset(), verbose=0)
    model.fit(data.stream(), steps_per_epoch=data.steps_per_epoch, verbose=0, shuffle=False)
    assert model.evaluate(data.dataset(), verbose=0) < 0.9 * before


def test_replicas_and_workers_do_not_change_the_pairs_of_a_batch(pairs, tokenizers):
    data = PairBatches(pairs, *tokenizers, token_budget=BUDGET, max_length=LONGEST, seed=1)

    def sources(share):
        data.divide(share)
        return [inputs["source"].numpy() for inputs, _, _ in data.dataset(2, 1)]

    whole, *parts = (sources(Share(i, count, 4)) for i, count in ((0, 1), (0, 2), (1, 2)))
    assert all(len(batch) % 4 == 0 for batch in whole)
    for one, *halves in zip(whole, *parts, strict=True):
        np.testing.assert_array_equal(np.concatenate(halves), one)
    for one, batch in zip(whole, sources(Share()), strict=True):
        np.testing.assert_array_equal(one[: len(batch)], batch)


def test_batches_of_pairs_in_files_are_those_of_pairs_in_memory(
    pairs, tokenizers, tmp_path, monkeypatch
):
    file = tmp_path / "pairs.tsv"
    file.write_text("\n".join(map("\t".join, zip(pairs.source, pairs.target, strict=True))))
    options = {"token_budget": BUDGET, "max_length": LONGEST, "seed": 5}

    def batches(n_best):
        stored = load_pairs(file, cache=tmp_path / "cache")
        return as_lists(PairBatches(stored, *tokenizers, **options, n_best=n_best).dataset(2))

    for n_best in (1, 4):
        expected = PairBatches(pairs, *tokenizers, **options, n_best=n_best)
        assert batches(n_best) == as_lists(expected.dataset(2))
    monkeypatch.delattr("tfx_transformer.data.text.pair_batches.write_rows")  # not tokenized again
    assert batches(1)


def test_pairs_that_are_all_too_long_are_an_error(pairs, tokenizers):
    with pytest.raises(
        ValueError, match=r"no pair of mine is left: \d+ are longer than max_length=1 "
    ):
        PairBatches(pairs, *tokenizers, max_length=1)


def test_subword_regularization_needs_unigram_tokenizers(pairs, tokenizers, phrases):
    pairs_only = train_tokenizer(phrases["ko"], 1200, kind="bpe")
    with pytest.raises(ValueError, match="needs unigram tokenizers on both sides; got n_best=4"):
        PairBatches(pairs, tokenizers[0], pairs_only, n_best=4)


def test_evaluation_cannot_sample_segmentations(pairs, tokenizers):
    with pytest.raises(ValueError, match="needs a seed; got n_best=4, seed=None"):
        PairBatches(pairs, *tokenizers, seed=None, n_best=4)


@pytest.mark.parametrize("options", [{"seed": None}, {"n_best": 4}])
def test_noise_is_for_training_without_subword_regularization(pairs, tokenizers, options):
    with pytest.raises(ValueError, match=r"noise needs n_best=1 and a seed; got noise=0.1"):
        PairBatches(pairs, *tokenizers, noise=0.1, **options)


def test_a_token_budget_below_one_row_is_refused(pairs, tokenizers):
    with pytest.raises(ValueError, match="token_budget=15, max_length=16"):
        PairBatches(pairs, *tokenizers, token_budget=15, max_length=16)
