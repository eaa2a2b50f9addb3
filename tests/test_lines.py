"""Lines through a function that only counts: what matters is who is translated with whom."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.lines import translate_lines


@pytest.fixture
def calls():
    return []


@pytest.fixture
def translate(calls):
    """Says each text in capitals, of pieces that are its words, aligned with themselves."""

    def function(texts):
        calls.append(len(texts))
        words = tf.strings.split(tf.constant(texts)).to_tensor("")
        size = tf.shape(words)[1]
        upper = tf.strings.upper(tf.constant(texts))
        return {
            "text": upper,
            "score": tf.ones(len(texts)),
            "n_best": tf.stack([upper, upper], axis=1),
            "n_best_score": tf.tile([[1.0, 0.5]], [len(texts), 1]),
            "pieces": words,
            "source_pieces": words,
            "alignment": tf.eye(size, batch_shape=[len(texts)]),
        }

    return function


TEXTS = ["c c c", "a", "d d d d", "b b", "e e e e e"]


def test_the_order_is_kept_and_the_likes_go_together(translate, calls):
    found = list(translate_lines(translate, TEXTS, batch_size=2))
    assert [one.text for one in found] == [text.upper() for text in TEXTS]
    assert calls == [2, 2, 1]
    assert [len(one.pieces) for one in found] == [3, 1, 4, 2, 5]  # no padding
    np.testing.assert_array_equal(found[3].alignment, np.eye(2))
    assert found[0].n_best == [("C C C", 1.0), ("C C C", 0.5)]


def test_lines_come_back_before_all_are_read(translate, calls):
    read = []

    def lines():
        for text in TEXTS:
            read.append(text)
            yield text

    stream = translate_lines(translate, lines(), batch_size=8, ahead=2)
    assert next(stream).text == "C C C" and read == TEXTS[:2]
    assert [one.text for one in stream] == [text.upper() for text in TEXTS[1:]]
    assert calls == [2, 2, 1]


def test_no_lines_are_no_translations(translate, calls):
    assert list(translate_lines(translate, [])) == [] and calls == []


def test_a_batch_holds_something(translate):
    with pytest.raises(ValueError, match="batch_size must be a whole number above zero"):
        list(translate_lines(translate, TEXTS, batch_size=0))
