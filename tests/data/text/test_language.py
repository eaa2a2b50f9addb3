"""Windows of a text against plain Python: complete, without repetition, shifted by one."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_transformer.data import END, PAD, START, UNK, train_tokenizer
from tfx_transformer.data.text.language import (
    LanguageBatches,
    encode_text,
    language_tokenizer,
    load_text,
)
from tfx_transformer.decoding import GreedyDecoder
from tfx_transformer.models import create_model

TEXT = (
    "Es war einmal  ein Fuchs, 여우,\n\n  who said:\t“To be,\n  or not to be?” 🦊\u2028That is\n"
    * 9
    + "the end"
)
KINDS = {
    "char": {},
    "char, bytes": {"kind": "char", "byte_fallback": True},
    "unigram": {"kind": "unigram", "vocab_size": 330},
    "bpe": {"kind": "bpe", "vocab_size": 340},
}


@pytest.fixture(scope="module")
def tokenizers():
    return {name: language_tokenizer(TEXT, **options) for name, options in KINDS.items()}


@pytest.fixture(scope="module")
def tokenizer(tokenizers):
    return tokenizers["char"]


def as_lists(dataset):
    """Batches as tuples of lists, so that they can be compared."""
    return [tuple(x.tolist() for x in batch) for batch in dataset.as_numpy_iterator()]


def test_a_file_is_read_without_byte_order_mark_and_windows_line_endings(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo \xe2\x80\xa8 three\n\n")
    assert load_text(path) == load_text(str(path)) == "one\ntwo \u2028 three\n\n"


@pytest.mark.parametrize("content", [b"", b" \n\n\t", b"\xef\xbb\xbf"])
def test_an_empty_file_is_named(tmp_path, content):
    path = tmp_path / "empty.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"empty.txt has no text: it has {len(content)} bytes"):
        load_text(path)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "marked"])
def test_text_that_is_not_utf_8_is_named_with_its_line(tmp_path, mark):
    path = tmp_path / "latin.txt"
    path.write_bytes(mark + b"one\ntwo\nna\xefve\n")
    with pytest.raises(
        ValueError, match=rf"latin.txt, line 3, byte {len(mark) + 10}: is not UTF-8"
    ):
        load_text(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such file: .*none.txt"):
        load_text(tmp_path / "none.txt")


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_restores_the_exact_text(tokenizers, kind):
    tokenizer = tokenizers[kind]
    ids = encode_text(TEXT, tokenizer)
    assert ids.dtype == "int32" and ids.min() > UNK
    assert tokenizer.decode_list([ids]) == [TEXT]
    assert tokenizer.decode(ids[None]).numpy()[0].decode() == TEXT


@pytest.mark.parametrize("kind", KINDS)
def test_encoding_line_by_line_equals_encoding_all_at_once(tokenizers, kind):
    whole = tokenizers[kind].encode_list([TEXT])[0]
    for chunk in (1, 4, 8192):
        assert encode_text(TEXT, tokenizers[kind], chunk).tolist() == whole
    assert tokenizers[kind].encode([TEXT]).to_list() == [whole]


def test_characters_are_one_token_each(tokenizers):
    for name, extra in (("char", 0), ("char, bytes", 256)):
        assert len(encode_text(TEXT, tokenizers[name])) == len(TEXT)
        assert tokenizers[name].vocab_size == 4 + len(set(TEXT)) + extra


def test_subwords_are_fewer_than_characters(tokenizers):
    for name in ("unigram", "bpe"):
        assert len(encode_text(TEXT, tokenizers[name])) < 0.7 * len(TEXT)
        pieces = tokenizers[name].vocab_size - 4 - 256 - len(set(TEXT))
        assert 5 < pieces <= KINDS[name]["vocab_size"] - 4 - 256 - len(set(TEXT))


def test_an_unseen_character_is_unknown_or_encoded_as_bytes(tokenizers):
    assert encode_text("Es ж", tokenizers["char"])[-1] == UNK
    for name in ("char, bytes", "unigram", "bpe"):
        ids = encode_text("Es ж", tokenizers[name])
        assert UNK not in ids and tokenizers[name].decode_list([ids]) == ["Es ж"]


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁\0\r")))
def test_any_text_is_restored_with_byte_fallback(tokenizers, text):
    for name in ("char, bytes", "unigram", "bpe"):
        assert tokenizers[name].decode_list([encode_text(text, tokenizers[name])]) == [text]


def test_a_tokenizer_is_trained_on_all_of_a_long_line():
    tokenizer = language_tokenizer("ab" * 60_000 + "z")
    assert "z" in tokenizer.pieces
    assert len(encode_text("ab" * 60_000 + "z", tokenizer)) == 120_001


def test_a_tokenizer_without_line_feeds_gets_end_instead():
    plain = train_tokenizer(["one two", "three"] * 9, 280)
    ids = encode_text("one two\n\nthree\n", plain).tolist()
    one, three = plain.encode_list(["one two", "three"])
    assert ids == [*one, END, *three, END]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"kind": "word"}, "unknown kind 'word'; known: char, unigram, bpe"),
        ({"vocab_size": 50}, "vocab_size is for subwords only; got kind='char', vocab_size=50"),
        ({"kind": "bpe"}, "vocab_size is for subwords only; got kind='bpe', vocab_size=None"),
        ({"kind": "bpe", "vocab_size": 0}, "vocab_size must be a whole number above zero"),
        ({"kind": "bpe", "vocab_size": 270}, "no bpe vocabulary of vocab_size=270 can be trained"),
        ({"text": " \n "}, "text must not be empty; got 3 white space characters"),
    ],
)
def test_an_invalid_tokenizer_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        language_tokenizer(**{"text": TEXT} | options)


LENGTH, BATCH = 17, 5


@pytest.fixture(scope="module")
def data(tokenizer):
    return LanguageBatches(TEXT, tokenizer, max_length=LENGTH, batch_size=BATCH, seed=3)


def test_inputs_are_the_targets_shifted_by_one(data):
    for tokens, targets, weights in data.dataset():
        assert tokens.shape == targets.shape == weights.shape == (BATCH, LENGTH)
        assert (tokens.dtype, targets.dtype, weights.dtype) == (tf.int32, tf.int32, tf.float32)
        np.testing.assert_array_equal(tokens[:, 0], np.full(BATCH, START))
        np.testing.assert_array_equal(tokens[:, 1:], targets[:, :-1])


def real_windows(dataset):
    """The targets of every window with weight 1, in order."""
    for _, targets, weights in as_lists(dataset):
        for window, weight in zip(targets, weights, strict=True):
            assert len(set(weight)) == 1
            if weight[0]:
                yield tuple(window)


def test_an_epoch_has_every_window_once_in_another_order(data, tokenizer):
    ids = encode_text(TEXT, tokenizer).tolist()
    count, spare = divmod(len(ids), LENGTH)
    assert spare > 3 and count % BATCH
    orders, offsets = set(), set()
    for epoch in range(12):
        windows = list(real_windows(data.dataset(epoch)))
        for offset in range(spare + 1):
            starts = [offset + LENGTH * i for i in range(count)]
            expected = [tuple(ids[start : start + LENGTH]) for start in starts]
            if sorted(windows) == sorted(expected):
                offsets.add(offset)
                orders.add(tuple(map(expected.index, windows)))
                break
        else:
            pytest.fail(f"epoch {epoch} has other windows")
    assert len(orders) == 12 and len(offsets) > 3


def test_evaluation_has_every_token_once_in_order(tokenizer):
    ids = encode_text(TEXT, tokenizer).tolist()
    data = LanguageBatches(TEXT, tokenizer, max_length=LENGTH, batch_size=BATCH, seed=None)
    tokens, targets, weights = (np.concatenate(x) for x in zip(*data.dataset(), strict=True))
    assert targets[weights == 1].tolist() == ids
    rows = tokens[weights[:, 0] == 1]
    assert (rows[:, 0] == START).all() and (targets[weights == 0] == PAD).any()
    assert as_lists(data.dataset(0)) == as_lists(data.dataset(5))


def test_an_incomplete_batch_repeats_a_window_with_weight_0(data):
    *_, (tokens, _, weights) = as_lists(data.dataset())
    empty = [i for i, row in enumerate(weights) if not any(row)]
    assert len(empty) == -data.num_windows % BATCH > 0
    assert all(tokens[i] == tokens[0] for i in empty)


def test_a_run_resumed_at_any_step_equals_the_uninterrupted_one(data, tokenizer):
    steps = data.steps_per_epoch
    whole = as_lists(data.stream().take(3 * steps))
    resumed = LanguageBatches(TEXT, tokenizer, max_length=LENGTH, batch_size=BATCH, seed=3)
    for epoch, step in [(0, 5), (1, 0), (1, steps - 1), (1, steps), (2, 3)]:
        batches = as_lists(resumed.stream(epoch, step).take(4))
        assert batches == whole[epoch * steps + step :][:4]
    other = LanguageBatches(TEXT, tokenizer, max_length=LENGTH, batch_size=BATCH, seed=4)
    assert as_lists(other.dataset()) != as_lists(data.dataset())


def test_a_short_text_gives_a_small_batch(tokenizer):
    data = LanguageBatches("Es war", tokenizer, max_length=3, batch_size=50)
    assert (data.num_windows, data.batch_size, data.steps_per_epoch) == (2, 2, 1)


def test_a_text_shorter_than_a_window_is_refused(tokenizer):
    message = r"one window of max_length=7 tokens; got 6 tokens, 6 characters"
    with pytest.raises(ValueError, match=message):
        LanguageBatches("Es war", tokenizer, max_length=7)
    (_, _, weights) = next(iter(LanguageBatches("Es war", tokenizer, 7, seed=None).dataset()))
    assert weights.numpy().tolist() == [[1.0] * 6 + [0.0]]
    with pytest.raises(ValueError, match="one window of .* got 0 tokens"):
        LanguageBatches("", tokenizer, max_length=7, seed=None)


def test_invalid_options_are_named(tokenizer):
    for options in ({"max_length": 0}, {"batch_size": 0}, {"seed": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(options))} must be a whole number"):
            LanguageBatches(TEXT, tokenizer, **options)


def test_the_data_is_described_in_one_line(data):
    line = f"{len(TEXT)} tokens, {data.num_windows} windows of 17 in {data.steps_per_epoch} batches"
    assert str(data) == f"{line} of 5"


def test_a_trained_model_continues_a_prompt():
    text = "one fox\ntwo fox\n" * 40
    tokenizer = language_tokenizer(text)
    data = LanguageBatches(text, tokenizer, max_length=20, batch_size=8)
    model = create_model("gpt", "test", vocab_size=tokenizer.vocab_size, dropout=0.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss, jit_compile=False)
    model.fit(data.stream(), steps_per_epoch=120, shuffle=False, verbose=0)
    prompt = tokenizer.encode(["two fo"]).to_tensor()
    state = model.initial_state(prompt, 20)
    result = GreedyDecoder()(model.step, state, 1, 20, START, END, PAD, prefix=prompt)
    assert tokenizer.decode(result["tokens"])[0, 0].numpy().decode() == "two fox\none fox\ntwo "
