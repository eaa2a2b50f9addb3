"""What workers exchange. Two real ones do it in tests/train/test_replicas.py."""

import numpy as np

from tfx_transformer.training.workers import Workers


class Second(Workers):
    """The second of three workers; the others are imitated."""

    def __init__(self):
        super().__init__()
        self.index, self.count = 1, 3

    def gather(self, rows):
        assert len(rows) in (2, 0)
        return [rows[:2] - 1, rows, rows[:1] + 1]

    def gather_json(self, value):
        return [["a", "d"], value, ["c"]]


def test_one_process_is_its_own_chief():
    workers, order = Workers(), []
    assert workers.is_chief and workers.count == 1
    assert workers.gather_json({"a": [1, None]}) == [{"a": [1, None]}]
    assert workers.of_chief(lambda: 3) == 3
    assert workers.divide(lambda items: [x + 1 for x in items], [1, 2]) == [2, 3]
    with workers.chief_first():
        order.append(1)
    assert order == [1]
    (rows,) = workers.gather(np.ones((2, 3)))
    assert rows.shape == (2, 3)


def test_results_are_in_the_order_of_the_items():
    workers = Second()
    texts = workers.divide(lambda items: [f"{x}!" for x in items], list("ABCDE"), to_json=True)
    assert texts == ["a", "B!", "c", "d", "E!"]
    rows = workers.divide(lambda items: 10.0 * np.array(items)[:, None], [0, 1, 2, 3, 4])
    assert rows[:, 0].tolist() == [9, 10, 11, 39, 40]


def test_a_worker_without_items_takes_part():
    workers = Second()
    workers.gather = lambda rows: [np.ones((1, 2)), rows, rows]
    assert workers.divide(lambda items: np.zeros((len(items), 2)), [7]).tolist() == [[1, 1]]
