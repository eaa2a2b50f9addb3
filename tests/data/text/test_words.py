"""A vocabulary of words and answers."""

import pytest
import tensorflow as tf

from tfx_transformer.data.text.words import PAD, UNK, Words


@pytest.fixture(scope="module")
def words():
    return Words.of(["The cat's HOME?  Ärger!", "the cat"], ["Apple, milk", "cat"])


def test_the_vocabulary_has_each_word_and_each_answer_once(words):
    expected = ["[PAD]", "[UNK]", "apple,milk", "cat", "cat's", "home", "the", "ärger"]
    assert words.pieces == expected and words.vocab_size == 8
    assert words.pieces[PAD] == "[PAD]" and words.pieces[UNK] == "[UNK]"


def test_texts_are_words_in_small_letters_without_punctuation(words):
    ids = words.encode_list(["THE cat, the dog.", "", "?!", "apple,milk", "ÄRGER"])
    assert ids == [[6, 3, 6, UNK], [], [], [UNK, UNK], [7]]
    assert words.encode(tf.constant([], tf.string)).to_list() == []


def test_an_answer_is_one_id(words):
    answers = ["apple,milk", "APPLE , milk", "cat", "milk"]
    assert [words.answer_id(answer) for answer in answers] == [2, 2, 3, UNK]


def test_it_comes_back_from_its_file(words, tmp_path):
    words.save(tmp_path / "words.json")
    again = Words.load(tmp_path / "words.json")
    assert again.pieces == words.pieces and again.with_core_ops() is again
    (tmp_path / "words.json").write_text('{"a": 1}')
    with pytest.raises(ValueError, match="words.json"):
        Words.load(tmp_path / "words.json")
    with pytest.raises(ValueError, match=r"pieces must be \[PAD\], \[UNK\], then different words"):
        Words(["[PAD]", "[UNK]", "a", "a"])
