"""QuestionAnswerer: a memory network and its vocabulary as one function from strings to answers."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfx_transformer.data.text.words import PAD
from tfx_transformer.pipelines.base import Pipeline
from tfx_transformer.runtime import graph


@dataclass(frozen=True)
class Answer:
    """The answer to a question, and where the model found it."""

    answer: str
    score: float  # probability
    sentences: list[str]  # of the story, as the model read them
    hops: np.ndarray  # (K, N) weights of the sentences
    truncated: bool  # whether the story was too long

    @property
    def value(self) -> str:
        """What a call of the pipeline returns."""
        return self.answer

    @classmethod
    def unpack(cls, outputs: dict[str, np.ndarray], row: int) -> "Answer":
        """One row of a batch of outputs, without its padding."""
        sentences = [text.decode() for text in outputs["sentences"][row] if text]
        return cls(
            answer=outputs["answer"][row].decode(),
            score=float(outputs["score"][row]),
            sentences=sentences,
            hops=outputs["hops"][row, :, : len(sentences)],
            truncated=bool(outputs["truncated"][row]),
        )


class QuestionAnswerer(Pipeline):
    """Answers questions: `answerer(("John left. Mary is here.", "Who left?"))` → "john".

    A story is a string of sentences, each on a line or ended by ". ". An item is a story and a
    question.

    Args:
        model: {"story": (B, N, W), "question": (B, M)} → logits (B, V); has `read`, which also
            gives the weights of the hops, and `max_sentences`.
        tokenizer: the `Words`, which are also the answers.
    """

    kind = "question_answerer"
    result = Answer
    columns = ("story", "question")

    def __init__(self, model, tokenizer):
        super().__init__()
        self.model, self.tokenizer = model, tokenizer
        self.answers = tf.constant(tokenizer.pieces)
        strings = [tf.TensorSpec([None], tf.string, name=name) for name in self.columns]
        self.predict = graph(self._answer, *strings)

    def signatures(self):
        return {"serving_default": self.predict}

    def _answer(self, story, question):
        sentences = split_sentences(story)  # (B, ragged)
        limit = self.model.max_sentences
        kept = sentences[:, -limit:]
        ids = kept.with_flat_values(self.tokenizer.encode(kept.flat_values))
        asked, rows = self.tokenizer.encode(question), ids.nrows()
        # at least a sentence, and a word in it
        lengths = kept.row_lengths(), ids.values.row_lengths(), asked.row_lengths()
        most, words, width = (tf.reduce_max(tf.concat([[1], x], axis=0)) for x in lengths)
        inputs = {
            "story": ids.to_tensor(PAD, shape=tf.stack([rows, most, words])),
            "question": asked.to_tensor(PAD, shape=tf.stack([rows, width])),
        }
        logits, weights = self.model.read(inputs)
        scores = tf.nn.softmax(tf.cast(logits, tf.float32))
        best = tf.argmax(scores, axis=-1)
        return {
            "answer": tf.gather(self.answers, best),
            "score": tf.reduce_max(scores, axis=-1),
            "hops": tf.stack(weights, axis=1),
            "sentences": kept.to_tensor("", shape=tf.stack([rows, most])),
            "truncated": sentences.row_lengths() > limit,
        }


def split_sentences(stories) -> tf.RaggedTensor:
    """Strings (B) → their sentences (B, ragged): lines, and parts that end with . ! or ?"""
    lines = tf.strings.regex_replace(stories, r"([.!?])\s+", "\\1\n")
    lines = tf.strings.regex_replace(lines, r"\s*\n\s*", "\n")
    lines = tf.strings.regex_replace(tf.strings.strip(lines), r"^\n+|\n+$", "")
    sentences = tf.strings.split(lines, "\n")
    return tf.ragged.boolean_mask(sentences, tf.not_equal(sentences, ""))
