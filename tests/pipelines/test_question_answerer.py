"""The answers, sentences and hops of the pipeline."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.pipelines.question_answerer import split_sentences


def test_a_text_is_split_into_sentences():
    texts = ["", " \n ", "a b. C d!  e?\nf\r\n\r\n g ", "x", "1.5 m. \n\nHe said: no"]
    found = split_sentences(tf.constant(texts)).to_list()
    assert found == [
        [],
        [],
        [b"a b.", b"C d!", b"e?", b"f", b"g"],
        [b"x"],
        [b"1.5 m.", b"He said: no"],
    ]


def test_the_answer_is_the_most_likely_word_of_the_model(question_answerer):
    model, words = question_answerer.model, question_answerer.tokenizer
    story = np.array([words.encode_list(["the dog is red", "the cat is old"])])
    question = np.array(words.encode_list(["where is the dog"]))
    logits = model({"story": story, "question": question})
    (result,) = question_answerer.results(
        [("The dog is red.\nThe cat is old", "Where is the dog?")]
    )
    assert result.answer == words.pieces[int(np.argmax(logits))]
    assert result.score == pytest.approx(float(np.max(tf.nn.softmax(logits))), abs=1e-5)
    maps = model.attention_maps({"story": story, "question": question})
    expected = [maps[f"hop_{i}/cross"][0, 0, 0] for i in range(model.num_hops)]
    np.testing.assert_allclose(result.hops, expected, atol=1e-5)
    assert result.sentences == ["The dog is red.", "The cat is old"] and not result.truncated


def test_only_the_last_sentences_of_a_long_story_are_read(question_answerer):
    story = "The dog is big. The dog is red. The cat is old. A cat left."
    long, short = question_answerer.results(
        [(story, "Where is the dog?"), (story.partition(". ")[2], "Where is the dog?")]
    )
    assert long.truncated and not short.truncated
    assert long.sentences == short.sentences and len(long.sentences) == 3
    assert (long.answer, long.hops.shape) == (short.answer, (2, 3))
    np.testing.assert_allclose(long.hops, short.hops, atol=1e-6)


def test_an_item_is_a_story_and_a_question(question_answerer):
    for item in ("a story", ("a story",), ["a", "b"]):
        with pytest.raises(ValueError, match=r"an item must be \(story, question\); got"):
            question_answerer([item])
