import json

import numpy as np
import pytest

from tfx_transformer.train.tasks import TASKS, load_task
from tfx_transformer.train.tasks.classes import ClassEvaluator, ClassTask, in_batches

PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])
LABELS, NAMES = np.array([0, 1, 1]), ["a", "b", "c"]


@pytest.fixture(params=["classification", "text_classification"])
def task(request):
    return load_task(request.param)(TASKS[request.param](label_smoothing=0.0))


def test_the_loss_is_the_sum_over_the_batch(task):
    logits = np.log(PROBABILITIES).astype("float32")
    expected = -np.log(PROBABILITIES[np.arange(3), LABELS]).sum()
    assert float(task.loss(np.eye(3)[LABELS], logits)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("text", ['["a", "b"', "5", '["a", 3]', '{"a": 1}', "[" * 10**5])
def test_damaged_names_of_classes_are_one_line_with_the_file(task, text, tmp_path):
    (tmp_path / "classes.json").write_text(text)
    with pytest.raises(ValueError, match=r"classes.json is damaged or not supported: [^\n]+$"):
        ClassTask.restore(task, tmp_path)


def test_the_evaluator_reports_accuracy_and_writes_every_class(tmp_path, capsys):
    evaluator = ClassEvaluator(lambda: PROBABILITIES, LABELS, NAMES)
    result = evaluator.evaluate()
    evaluator.report(result, 5, tmp_path / "samples")
    scores = result.scores
    assert scores["accuracy"] == pytest.approx(100 * 2 / 3)
    assert capsys.readouterr().out.startswith("step 5: accuracy 66.67 %")
    stored = json.loads((tmp_path / "samples/step_00000005.json").read_text())
    assert stored["by_class"] == {"a": 100.0, "b": 50.0}


def test_batches_are_joined_in_order():
    sizes = []

    def square(batch):
        sizes.append(len(batch))
        return np.array(batch) ** 2

    assert in_batches(range(5), 2, square, "squaring").tolist() == [0, 1, 4, 9, 16]
    assert sizes == [2, 2, 1]
