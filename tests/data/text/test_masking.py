"""Masked tokens: how many, which ones, their replacements, and resuming a run."""

from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data import END, PAD, START, UNK
from tfx_transformer.data.share import Share
from tfx_transformer.data.text.masking import (
    SPECIAL,
    MaskedBatches,
    make_row,
    make_rows,
    mask_tokens,
    select_tokens,
    truncate_pair,
)
from tfx_transformer.models import create_model

BUDGET, LONGEST = 400, 24


@pytest.fixture(scope="module")
def texts(phrases):
    """Phrases, some of them joined, some of them empty."""
    long = [" ".join(phrases["de"][i : i + 9]) for i in range(0, 180, 9)]
    return phrases["en"][:300] + ["", " "] + long


@pytest.fixture(scope="module")
def data(texts, tokenizer):
    return MaskedBatches(texts, tokenizer, BUDGET, LONGEST, seed=5)


def as_lists(dataset):
    """Batches as tuples of lists, so that they can be compared."""
    return [
        (x["tokens"].tolist(), x["segments"].tolist(), targets.tolist(), weights.tolist())
        for x, targets, weights in dataset.as_numpy_iterator()
    ]


def restored(tokens, targets):
    """The rows before masking."""
    rows = np.where(np.array(targets) != PAD, targets, tokens)
    return [tuple(row[row != PAD].tolist()) for row in rows]


def expected_rows(texts, tokenizer, size=LONGEST - 2):
    for ids in tokenizer.encode_list(texts):
        for start in range(0, len(ids), size):
            yield (START, *ids[start : start + size], END)


def test_every_text_occurs_once_before_masking(data, texts, tokenizer):
    counts = Counter()
    for tokens, segments, targets, weights in as_lists(data.dataset(1)):
        assert not np.any(segments)
        kept = [i for i, row in enumerate(weights) if any(row)]
        counts.update(restored([tokens[i] for i in kept], [targets[i] for i in kept]))
    expected = Counter(expected_rows(texts, tokenizer))
    assert counts == expected
    assert max(map(len, expected)) == LONGEST  # some were split into rows
    assert data.skipped == 2


def test_weights_are_one_where_there_is_a_target(data):
    for inputs, targets, weights in data.dataset():
        assert inputs["tokens"].dtype == inputs["segments"].dtype == targets.dtype == tf.int32
        np.testing.assert_array_equal(weights, (targets.numpy() != PAD).astype("float32"))
        assert np.size(targets) <= BUDGET


def test_fifteen_percent_of_the_tokens_are_targets_and_never_start_or_end(data):
    for tokens, _, targets, _ in as_lists(data.dataset()):
        for row, target in zip(np.array(tokens), np.array(targets), strict=True):
            if target.any():
                words = (row != PAD).sum() - 2
                assert (target != PAD).sum() == max(1, round(0.15 * words))
                assert row[0] == START and row[words + 1] == END
                assert not np.isin(target, [START, END]).any()


def test_of_the_targets_80_percent_are_masked_10_replaced_10_kept(tokenizer):
    """Measured on 30,000 tokens: three standard deviations are below 0.01."""
    vocab_size = tokenizer.vocab_size
    row = make_row([list(range(10, 110))], np.zeros(vocab_size, bool), whole_words=False)
    rng = np.random.default_rng(0)
    kinds, replaced, positions = Counter(), set(), Counter()
    for _ in range(2000):
        tokens, targets = mask_tokens(row, 0.15, vocab_size, rng)
        selected = np.flatnonzero(targets)
        positions.update(selected.tolist())
        np.testing.assert_array_equal(targets[selected], row.ids[selected])
        np.testing.assert_array_equal(np.delete(tokens, selected), np.delete(row.ids, selected))
        new, old = tokens[selected], row.ids[selected]
        kinds["masked"] += (new == vocab_size).sum()
        kinds["kept"] += (new == old).sum()
        kinds["all"] += len(selected)
        replaced |= set(new[(new != vocab_size) & (new != old)].tolist())
    assert kinds["all"] == 30_000
    assert abs(kinds["masked"] / 30_000 - 0.8) < 0.01
    assert abs(kinds["kept"] / 30_000 - 0.1) < 0.01
    assert min(replaced) > UNK and max(replaced) < vocab_size and len(replaced) > 1000
    assert set(positions) == set(range(1, 101))  # every token, and neither START nor END
    assert max(positions.values()) < 1.3 * 300 and min(positions.values()) > 0.7 * 300


def test_a_word_begins_with_a_piece_that_begins_with_a_space(tokenizer):
    text = "smiling cat with heart-eyes"
    pieces = [tokenizer.pieces[i] for i in tokenizer.encode_list([text])[0]]
    (row,), _ = make_rows([text], tokenizer, 40, whole_words=True)
    words = {}
    for piece, word in zip(["START", *pieces, "END"], row.words, strict=True):
        words[word] = words.get(word, "") + piece
    assert words.pop(SPECIAL) == "STARTEND"
    assert list(words) == list(range(len(words)))
    assert "".join(words.values()) == "▁" + text.replace(" ", "▁")
    assert all(word.startswith("▁") and "▁" not in word[1:] for word in words.values())


def test_whole_words_are_masked_together(texts, tokenizer):
    data = MaskedBatches(texts, tokenizer, BUDGET, LONGEST, seed=5, whole_words=True)
    broken = whole = 0
    for row in data.rows:
        rng = np.random.default_rng(len(row.ids))
        _, targets = mask_tokens(row, 0.15, tokenizer.vocab_size, rng)
        is_target = targets != PAD
        sizes = np.bincount(row.words[row.words != SPECIAL])
        limit = max(1, round(0.15 * sizes.sum()))
        assert 1 <= is_target.sum() <= limit and not is_target[row.words == SPECIAL].any()
        if sizes.min() > limit:  # no word fits: single tokens
            assert is_target.sum() == limit
            broken += 1
            continue
        for word, size in enumerate(sizes):
            assert is_target[row.words == word].sum() in (0, size)
            whole += size > 1 and is_target[row.words == word].any()
    assert whole > 10 and broken > 3


def test_short_words_are_selected_more_often_because_they_fit(tokenizer):
    words = np.array([SPECIAL, 0, 0, 1, 2, 2, 2, 3, 4, 4, SPECIAL])
    rng = np.random.default_rng(0)
    counts = Counter()
    for _ in range(2000):
        selected = select_tokens(words, 0.4, rng)  # 4 of 9 tokens
        assert 3 <= selected.sum() <= 4
        counts.update(set(words[selected].tolist()))
    assert set(counts) == {0, 1, 2, 3, 4}
    assert counts[1] > counts[0] > counts[2] > 300


def test_a_pair_of_texts_has_two_segments(tokenizer):
    pairs = [("red apple", "green book"), ("cat face", "")]
    data = MaskedBatches(pairs, tokenizer, max_length=20)
    (batch,) = as_lists(data.dataset())
    first, second = tokenizer.encode_list(pairs[0])
    assert restored(batch[0], batch[2])[0] == (START, *first, END, *second, END)
    segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert batch[1][0][: len(segments)] == segments and not any(batch[1][0][len(segments) :])
    assert data.skipped == 1


@pytest.mark.parametrize(
    "lengths, truncated",
    [
        ((4, 5), (4, 5)),
        ((9, 3), (7, 3)),
        ((3, 9), (3, 7)),
        ((20, 30), (5, 5)),
        ((6, 5), (5, 5)),
    ],
)
def test_the_longer_of_two_texts_is_truncated(lengths, truncated):
    assert truncate_pair(*lengths, 10) == truncated


def test_a_pair_that_is_too_long_fills_the_row(tokenizer, phrases):
    pair = (" ".join(phrases["en"][:30]), "red apple")
    (row,), _ = make_rows([pair], tokenizer, 24, whole_words=False)
    first, second = tokenizer.encode_list(pair)
    kept = 24 - 3 - len(second)
    assert row.ids.tolist() == [START, *first[:kept], END, *second, END]


def test_other_tokens_are_masked_in_each_epoch(data):
    def targets_by_row(epoch):
        by_row = {}
        for tokens, _, targets, weights in as_lists(data.dataset(epoch)):
            rows = zip(restored(tokens, targets), targets, weights, strict=True)
            by_row |= {row: [i for i in ids if i] for row, ids, weight in rows if any(weight)}
        return by_row

    first, second = targets_by_row(0), targets_by_row(1)
    assert first.keys() == second.keys()
    assert sum(first[row] != second[row] for row in first) > 0.4 * len(first)


def test_the_mask_does_not_depend_on_the_batch(texts, tokenizer):
    """But on seed, epoch and row alone."""
    masked = []
    for budget in (BUDGET, 3 * BUDGET):
        data = MaskedBatches(texts, tokenizer, budget, LONGEST, seed=5)
        rows = set()
        for tokens, _, targets, weights in as_lists(data.dataset(2)):
            for row, target, weight in zip(tokens, targets, weights, strict=True):
                if any(weight):
                    rows.add((tuple(i for i in row if i), tuple(i for i in target if i)))
        masked.append(rows)
    assert masked[0] == masked[1]


def test_a_run_resumed_at_any_step_equals_the_uninterrupted_one(data, texts, tokenizer):
    steps = data.steps_per_epoch
    whole = as_lists(data.stream().take(3 * steps))
    resumed = MaskedBatches(texts, tokenizer, BUDGET, LONGEST, seed=5)
    for epoch, step in [(0, 5), (1, 0), (1, steps - 1), (1, steps), (2, 3)]:
        batches = as_lists(resumed.stream(epoch, step).take(4))
        assert batches == whole[epoch * steps + step :][:4]
    assert as_lists(data.dataset(0)) == whole[:steps]
    other = MaskedBatches(texts, tokenizer, BUDGET, LONGEST, seed=6)
    assert as_lists(other.dataset()) != whole[:steps]


def test_rows_are_a_multiple_of_the_replicas_and_empty_ones_have_weight_0(texts, tokenizer):
    data = MaskedBatches(texts, tokenizer, BUDGET, LONGEST)
    data.divide(Share(0, 1, 3))
    real, empty = 0, 0
    for tokens, _, targets, weights in as_lists(data.dataset()):
        assert len(tokens) % 3 == 0
        for row, target, weight in zip(tokens, targets, weights, strict=True):
            real += any(weight)
            if not any(weight):
                assert row == tokens[0] and not any(target)
                empty += 1
    assert real == len(data.rows) and empty > 0


def test_a_file_has_a_text_in_each_line(tmp_path, tokenizer, texts, data):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(texts))
    read = MaskedBatches(path, tokenizer, BUDGET, LONGEST, seed=5)
    assert as_lists(read.dataset()) == as_lists(data.dataset())
    path.write_bytes(b"one\ntw\xff")
    with pytest.raises(ValueError, match=r"texts.txt, line 2, byte 6: is not UTF-8"):
        MaskedBatches(str(path), tokenizer)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"rate": 0}, "rate must be above zero; got rate=0"),
        ({"rate": 1.0}, "rate must lie in 0 <= rate < 1; got rate=1.0"),
        ({"max_length": 4}, "max_length must be 5 or more; got max_length=4"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"texts": ["", "  "]}, "texts must have at least one word; got 2 empty texts"),
        ({"texts": ["a", ("b", "c", "d")]}, r"one or two strings; got text 1: \('b', 'c', 'd'\)"),
        ({"texts": ["a", 7]}, "a text must be one or two strings; got text 1: 7"),
    ],
)
def test_an_invalid_argument_is_named(tokenizer, options, message):
    with pytest.raises(ValueError, match=message):
        MaskedBatches(**{"texts": ["a"], "tokenizer": tokenizer} | options)


def test_the_data_is_described_in_one_line(data):
    tokens = int(data.lengths.sum())
    line = f"{len(data.rows)} rows (skipped: 2 empty texts), {tokens:,} tokens in "
    assert str(data) == line + f"{data.steps_per_epoch} batches"


def test_bert_trains_on_the_batches(data):
    model = create_model("bert", "test", vocab_size=data.vocab_size, head="mlm", dropout=0.0)
    assert data.mask_id == data.vocab_size - 1
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=False)
    history = model.fit(data.stream(), epochs=3, steps_per_epoch=16, shuffle=False, verbose=0)
    losses = history.history["loss"]
    assert losses[-1] < 0.9 * losses[0]
