"""A memory network from stories to its scores."""

import dataclasses
import json

import numpy as np
import pytest

from tfx_transformer.data.text.stories import load_stories
from tfx_transformer.train.run import evaluate, train
from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.question_answering.task import QuestionAnsweringTask


def test_the_run_learns_and_its_folder_is_complete(answer_run):
    folder, scores = answer_run
    assert scores["error"] < 25 and scores["questions"] > 100
    assert set(scores["by_kind"]) == {"rooms"} and scores["loss"] < 1
    present = {path.name for path in folder.iterdir()}
    assert {"recipe.json", "model.keras", "test.json", "tokenizer"} <= present
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["accuracy"] > 75
    assert {"loss", "validation_loss", "questions_per_second"} < set(lines[-1])
    assert "by_kind" in (folder / "samples/step_00000160.json").read_text()


def test_the_errors_are_those_of_the_answers(answer_run, room_stories):
    run = load_run(answer_run[0], "question_answering")
    scores = evaluate(answer_run[0], (str(room_stories),))
    questions = load_stories(room_stories, "test", ()).questions
    answers = run.pipeline()([("\n".join(x.story), x.question) for x in questions])
    wrong = [x.answer != answer for x, answer in zip(questions, answers, strict=True)]
    assert scores["error"] == pytest.approx(100 * np.mean(wrong))
    assert scores["questions"] == len(questions) and scores["questions_per_second"] > 0


def test_an_answer_that_is_no_class_is_an_error(answer_run, tmp_path):
    path = tmp_path / "rooms.txt"
    path.write_text("1 Mary went to the attic.\n2 Where is Mary?\tattic\t1\n")
    assert evaluate(answer_run[0], (str(path),))["error"] == 100


def test_the_linear_start_ends_when_the_loss_stops_falling(answer_recipe_of):
    class Model:
        ended = 0

        def end_linear_start(self):
            self.ended += 1

    def ended(*losses):
        model = Model()
        records = [{"step": i, "validation_loss": loss} for i, loss in enumerate(losses, 1)]
        task.adapt(model, records)
        return model.ended

    task = QuestionAnsweringTask(answer_recipe_of())
    assert [ended(), ended(2.0), ended(2.0, 1.0), ended(3.0, 2.0, 1.5)] == [0] * 4
    assert ended(2.0, 2.0) == ended(2.0, 1.0, 1.5, 0.5) == ended(5, 4, 3, 2, 1) == 1


def test_a_stopped_run_continues_with_the_same_weights(answer_recipe_of, answer_run, tmp_path):
    recipe = answer_recipe_of()
    train(dataclasses.replace(recipe, steps=80), tmp_path / "run")
    scores = train(recipe, tmp_path / "run")
    timed = "questions_per_second"
    assert {k: v for k, v in scores.items() if k != timed} == {
        k: v for k, v in answer_run[1].items() if k != timed
    }


def test_other_options_are_refused(answer_run):
    with pytest.raises(ValueError, match="a question answerer has no option top_k; got top_k=2"):
        load_run(answer_run[0]).pipeline(top_k=2)
