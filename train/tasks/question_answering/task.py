"""Question answering about stories as a task: data, model, evaluation and pipeline."""

import itertools
import json
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_transformer.data.buckets import EMPTY
from tfx_transformer.data.text.stories import Stories, load_stories
from tfx_transformer.data.text.story_batches import StoryBatches
from tfx_transformer.data.text.words import UNK, Words
from tfx_transformer.models import new_model
from tfx_transformer.pipelines import QuestionAnswerer
from tfx_transformer.runtime import graph
from tfx_transformer.train.tasks.base import (
    SPLITS,
    Evaluation,
    Evaluator,
    Task,
    check_one_source,
    refuse,
    timed,
)
from tfx_transformer.train.tasks.question_answering import QuestionAnsweringData
from tfx_transformer.training.losses import TokenCrossentropy

VOCABULARY = "tokenizer/words.json"
BATCH_SIZE = 250  # of evaluations
LINEAR_EVALUATIONS = 5  # at most before the softmax of the hops is used


class QuestionAnsweringTask(Task):
    """Answers to questions about stories."""

    noun, kind = "question answerer", "question_answerer"
    metric, unit = "accuracy", "questions"

    def load_data(self):
        self.splits = {split: load_split(self.recipe.data, split) for split in SPLITS}

    def prepare(self, folder):
        train = self.splits["train"].questions
        path = folder / VOCABULARY
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            texts = (text for x in train for text in (*x.story, x.question))
            Words.of(texts, (x.answer for x in train)).save(path)
        self.restore(folder)
        options = self.recipe.data.batch_size, self.max_sentences(), self.recipe.seed
        self.data = StoryBatches(train, self.tokenizer, *options)
        self.units_per_batch = len(train) / self.data.steps_per_epoch
        print(self.splits["train"], self.data, sep="\n")

    def restore(self, folder):
        self.tokenizer = Words.load(folder / VOCABULARY)

    def max_sentences(self) -> int:
        """Of the model, which has learned that many places."""
        own = self.recipe.model
        return new_model(own.name, own.variant, vocab_size=3, **own.options).max_sentences

    def make_model(self):
        return self.create_model(vocab_size=self.tokenizer.vocab_size)

    def adapt(self, model, records):
        """The linear start ends when the validation loss stops falling, or soon."""
        losses = [line["validation_loss"] for line in records]
        is_long = len(losses) >= LINEAR_EVALUATIONS
        if is_long or any(after >= before for before, after in itertools.pairwise(losses)):
            model.end_linear_start()

    def evaluator(self, model):
        return AnswerEvaluator(self, model, self.splits["validation"])

    @property
    def test_ratio(self):
        return len(self.splits["test"]) / len(self.splits["validation"])

    def pipeline(self, model, **other):
        refuse(self.noun, other)
        return QuestionAnswerer(model, self.tokenizer)

    def test(self, run, data, **options):
        """Errors in percent, also of each kind of question."""
        refuse(self.noun, options)
        check_one_source(self.noun, data)
        stories = load_stories(*data, "test", ()) if data else load_split(self.recipe.data, "test")
        evaluator = AnswerEvaluator(self, run.model, stories)
        scores, seconds = timed(evaluator.scores)
        return scores | {"questions_per_second": len(stories) / seconds}


TASK = QuestionAnsweringTask


class AnswerEvaluator(Evaluator):
    """Error, loss, and the error of each kind of question."""

    suffix, shown = ".json", 0

    def __init__(self, task: QuestionAnsweringTask, model, stories: Stories):
        self.model, self.workers, self.questions = model, task.workers, stories.questions
        options = BATCH_SIZE, model.max_sentences, None
        self.data = StoryBatches(self.questions, task.tokenizer, *options)
        self.batches = self.data.epoch_batches()
        self.losses = TokenCrossentropy(reduction=None)
        self.compare = graph(self._compare, *self.data.signature)

    def evaluate(self, whole=True):
        scores = self.scores()
        kinds = ", ".join(f"{kind} {error:.1f}" for kind, error in scores["by_kind"].items())
        summary = f"error {scores['error']:.2f} % ({kinds}) · loss {scores['loss']:.3f}"
        kept = {"accuracy": 100 - scores["error"], "validation_loss": scores["loss"]}
        return Evaluation(kept, summary, [json.dumps(scores, indent=2, ensure_ascii=False)])

    def scores(self) -> dict[str, Any]:
        """Errors are in percent, the loss in nats; an answer that is no class is an error."""
        found = self.workers.divide(self.results, range(len(self.batches)))
        rows = np.concatenate([batch.rows for batch in self.batches])
        is_wrong, losses = found.transpose(1, 0, 2).reshape(2, -1)[:, rows != EMPTY]
        kinds = np.array([self.questions[row].kind for row in rows[rows != EMPTY]])
        names = dict.fromkeys(question.kind for question in self.questions)
        return {
            "error": 100 * float(is_wrong.mean()),
            "loss": float(losses.mean()),
            "questions": len(self.questions),
            "by_kind": {kind: 100 * float(is_wrong[kinds == kind].mean()) for kind in names},
        }

    def results(self, indices) -> np.ndarray:
        """For each of some batches which answers are wrong, and the losses (…, 2, B)."""
        return np.array([self.compare(*next(self.data.batch_arrays(0, i))) for i in indices])

    def _compare(self, story, question, answer, weights):
        logits = self.model({"story": story, "question": question}, training=False)
        best = tf.argmax(logits, axis=-1, output_type=tf.int32)
        is_wrong = (best != answer) | (answer == UNK)
        return tf.stack([tf.cast(is_wrong, tf.float32), self.losses(answer, logits)])


def load_split(data: QuestionAnsweringData, split: str) -> Stories:
    """One of train, validation and test; those not named come from the source of the first."""
    if getattr(data, split) and split != "train":
        return load_stories(getattr(data, split), split, hold_out=())
    hold_out = [name for name in ("validation", "test") if not getattr(data, name)]
    return load_stories(data.train, split, hold_out)
