"""Batches `(inputs, targets, weights)` of stories with questions, for memory networks."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_positive, check_whole
from tfx_transformer.data.buckets import bucket_sizes
from tfx_transformer.data.epochs import BucketedBatches
from tfx_transformer.data.text.story_world import Question
from tfx_transformer.data.text.words import PAD, Words


class StoryBatches(BucketedBatches):
    """Shuffled batches of stories with a similar number of sentences.

    A batch is `({"story": (B, N, W), "question": (B, M)}, targets (B,), weights (B,))`, with N one
    of a few numbers. A target is the id of the answer; answers that the vocabulary does not have
    are the unknown word.

    Args:
        questions: with their stories.
        words: the vocabulary.
        batch_size: smaller if there are fewer questions.
        max_sentences: of a story; the last ones are kept.
        seed: of the order; None keeps that of the questions.
    """

    signature = (
        tf.TensorSpec([None, None, None], tf.int32, name="story"),
        tf.TensorSpec([None, None], tf.int32, name="question"),
        tf.TensorSpec([None], tf.int32, name="answer"),
        tf.TensorSpec([None], tf.float32, name="weights"),
    )

    def __init__(
        self,
        questions: Sequence[Question],
        words: Words,
        batch_size: int = 32,
        max_sentences: int = 50,
        seed: int | None = 0,
    ):
        check_positive(batch_size=batch_size, max_sentences=max_sentences)
        if seed is not None:
            check_whole(seed=seed)
        if not len(questions):
            raise ValueError("questions must not be empty")
        cut = [list(x.story[-max_sentences:]) for x in questions]
        different = list(dict.fromkeys(text for story in cut for text in story))
        index = {text: row for row, text in enumerate(different, 1)}  # 0 is no sentence
        self.sentences = padded([[], *words.encode_list(different)])  # (U, W)
        self.questions = padded(words.encode_list([x.question for x in questions]))
        self.answers = np.array([words.answer_id(x.answer) for x in questions], "int32")
        self.stories = padded([[index[text] for text in story] for story in cut])
        lengths = np.array([len(story) for story in cut])
        longest = int(lengths.max())
        sizes = dict.fromkeys(bucket_sizes(longest, longest), min(batch_size, len(questions)))
        super().__init__(lengths, sizes, seed)

    def __str__(self) -> str:
        return (
            f"{len(self.answers):,} questions, {self.lengths.mean():.1f} sentences before each "
            f"on average, in {self.steps_per_epoch:,} batches"
        )

    def batch_arrays(self, epoch, step):
        for batch in self.own_batches(epoch, step):
            rows = batch.filled_rows
            story = self.sentences[self.stories[rows, : batch.length]]
            weights = batch.is_real.astype("float32")
            yield story, self.questions[rows], self.answers[rows], weights

    def make_batch(self, story, question, answer, weights):
        return {"story": story, "question": question}, answer, weights


def padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Rows of ids as an array, at least one column wide."""
    array = np.full((len(rows), max(1, *map(len, rows))), PAD, "int32")
    for i, row in enumerate(rows):
        array[i, : len(row)] = row
    return array
