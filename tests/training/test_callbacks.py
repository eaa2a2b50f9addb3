import io
import json
import re

import keras
import numpy as np
import pytest

from tfx_transformer.training.callbacks import MetricsLog, Progress, StopAtNaN


def fit(target, callback):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    x, y = np.ones((6, 2), "float32"), np.full((6, 1), target, "float32")
    model.fit(x, y, batch_size=2, verbose=0, shuffle=False, callbacks=[callback])


def test_a_log_gets_one_line_with_step_loss_speed_and_time_left(capsys):
    fit(1.0, Progress(total_steps=100, step=40, units_per_step=50))
    line = capsys.readouterr().err
    assert re.fullmatch(r"step 43/100, loss [\d.]+, [\d,]+ tokens/s, \d\d:\d\d left\n", line)


def test_a_terminal_gets_a_bar(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    fit(1.0, Progress(total_steps=100, step=40, units_per_step=50, unit="images"))
    shown = terminal.getvalue().split("\r")[-1]
    assert re.fullmatch(
        r"step 43/100, loss [\d.]+, [\d,]+ images/s, \d\d:\d\d left #+\d? +\n", shown
    )


def test_a_loss_of_nan_stops_the_run():
    with pytest.raises(FloatingPointError, match="the loss became nan at step 1; try a lower"):
        fit(np.nan, StopAtNaN())


def test_a_repeated_step_replaces_its_line(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    assert log.read() == []
    for step, bleu in ((1, 10.0), (2, 20.0), (3, 30.0), (2, 25.0)):
        log.add(step, bleu=bleu)
    assert log.read() == [{"step": 1, "bleu": 10.0}, {"step": 2, "bleu": 25.0}]
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[1]) == {"step": 2, "bleu": 25.0}


def test_metrics_after_a_step_are_removed(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.truncate(1)
    for step in (1, 2, 3):
        log.add(step)
    log.truncate(2)
    assert [line["step"] for line in log.read()] == [1, 2]
