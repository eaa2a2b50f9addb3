"""Batches of stories: the last sentences, padding, order."""

import numpy as np
import pytest

from tfx_transformer.data.text.story_batches import StoryBatches
from tfx_transformer.data.text.story_world import Question, world_questions
from tfx_transformer.data.text.words import UNK, Words

QUESTIONS = [
    Question("a", ("a b c", "b", "c a"), "b c d e", "c"),
    Question("b", ("c",), "a", "a,b"),
    Question("b", ("a", "a", "b b b"), "", "x"),
]


@pytest.fixture(scope="module")
def words():
    return Words.of(["a b c d e"], ["a,b"])  # ids: a 2, "a,b" 3, b 4, c 5, d 6, e 7


def test_a_batch_has_the_last_sentences_and_padding(words):
    batches = StoryBatches(QUESTIONS, words, batch_size=3, max_sentences=2, seed=None)
    ((inputs, targets, weights),) = batches.dataset()
    assert inputs["story"].numpy().tolist() == [
        [[4, 0, 0], [5, 2, 0]],
        [[5, 0, 0], [0, 0, 0]],
        [[2, 0, 0], [4, 4, 4]],
    ]
    assert inputs["question"].numpy().tolist() == [[4, 5, 6, 7], [2, 0, 0, 0], [0, 0, 0, 0]]
    assert targets.numpy().tolist() == [5, 3, UNK] and weights.numpy().tolist() == [1, 1, 1]


def test_every_question_comes_once_in_an_epoch():
    questions = world_questions("two_facts", "validation", 150)
    words = Words.of((x for q in questions for x in (*q.story, q.question)), ())
    batches = StoryBatches(questions, words, batch_size=16, seed=3)
    seen = [
        tuple(story.ravel())
        for inputs, _, w in batches.dataset()
        for story in inputs["story"].numpy()[w.numpy() > 0]
    ]
    lengths = sorted(len([x for x in story if x]) for story in seen)
    expected = sorted(len(" ".join(q.story).split()) for q in questions)
    assert len(seen) == 150 and lengths == expected
    assert all(len(inputs["story"]) == 16 for inputs, _, _ in batches.dataset())
    first, again, other = (
        next(iter(batches.dataset(epoch)))[0]["story"].numpy() for epoch in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or (first != other).any()
    assert "150 questions" in str(batches)


def test_wrong_options_are_refused(words):
    with pytest.raises(ValueError, match="batch_size must be"):
        StoryBatches(QUESTIONS, words, batch_size=0)
    with pytest.raises(ValueError, match="questions must not be empty"):
        StoryBatches([], words)
