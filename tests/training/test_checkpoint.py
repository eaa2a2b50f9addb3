import os
import signal
import threading
from concurrent.futures import wait
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from tfx_transformer.training import checkpoint
from tfx_transformer.training.checkpoint import Checkpoints, assign_variables, variable_values


def make_model(units=3, seed=0):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dropout(0.5), keras.layers.Dense(units)]
    )
    model.compile(keras.optimizers.Adam(0.1, use_ema=True), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def update(model, times):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 4)), rng.normal(size=(8, 3))
    for _ in range(times):
        model.train_on_batch(x, y)


def equal(a, b):
    a, b = variable_values(a), variable_values(b)
    return list(a) == list(b) and all(np.array_equal(a[name], b[name]) for name in a)


def test_a_restored_run_equals_an_uninterrupted_one(tmp_path):
    whole = make_model()
    update(whole, 5)

    first = make_model()
    update(first, 2)
    Checkpoints(tmp_path).save(2, first)
    second = make_model(seed=1)
    assert Checkpoints(tmp_path).restore(second) == 2
    update(second, 3)
    assert equal(second, whole)  # weights, moments, averages, step and the state of dropout


def test_without_a_checkpoint_nothing_changes(tmp_path):
    model = make_model()
    assert Checkpoints(tmp_path / "new").restore(model) == 0
    assert equal(model, make_model())


def test_only_the_latest_checkpoints_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (10, 9, 100):
        checkpoints.save(step, make_model())
    assert checkpoints.steps() == [10, 100]


def test_a_half_written_file_is_not_a_checkpoint(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, make_model())
    (tmp_path / "step_00000002.half.npz").write_bytes(b"PK")
    assert checkpoints.steps() == [1]


def test_the_average_is_over_the_last_checkpoints(tmp_path):
    checkpoints, model = Checkpoints(tmp_path), make_model()
    for step, value in ((1, 100.0), (2, 1.0), (3, 4.0)):
        for weight in model.weights:
            weight.assign(np.full(weight.shape, value))
        checkpoints.save(step, model)
    assign_variables(model, checkpoints.average(2))
    assert all(np.allclose(weight.numpy(), 2.5) for weight in model.weights)


def test_wrong_shapes_and_empty_folders_are_errors(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, make_model())
    with pytest.raises(ValueError, match=r"kernel has shape \(4, 5\), the checkpoint \(4, 3\)"):
        checkpoints.restore(make_model(units=5))
    with pytest.raises(ValueError, match="there is no checkpoint in"):
        Checkpoints(tmp_path / "empty").average(2)


def damage_cut(data):
    return data[: len(data) // 2]


def damage_zero(data):
    return bytes(len(data))


def damage_flip(data):
    middle = len(data) // 3
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [damage_cut, damage_zero, damage_flip, lambda data: b""])
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_is_used(damage, tmp_path, capsys):
    checkpoints, model = Checkpoints(tmp_path), make_model()
    update(model, 1)
    checkpoints.save(1, model)
    other = make_model(seed=1)
    latest = checkpoints.save(2, other)
    latest.write_bytes(damage(latest.read_bytes()))
    assert checkpoints.restore(other) == 1 and equal(other, model)
    assert f"{latest} is damaged" in capsys.readouterr().err
    assert checkpoints.steps() == [1] and latest.with_name(f"{latest.name}.damaged").exists()


def test_a_checkpoint_between_evaluations_is_the_latest_until_the_next_one(tmp_path):
    checkpoints, model = Checkpoints(tmp_path), make_model()
    checkpoints.save(10, model)
    update(model, 2)
    checkpoints.save_stopped(12, model)
    other = make_model(seed=1)
    assert checkpoints.restore(other) == 12 and equal(other, model)
    assert checkpoints.steps() == [10]  # the average does not use it
    checkpoints.save(20, model)
    assert not list(tmp_path.glob("stopped_*"))


def test_the_best_weights_know_their_step_and_the_latest_replace_damaged_ones(tmp_path):
    checkpoints, model = Checkpoints(tmp_path), make_model()
    checkpoints.save(3, model)
    update(model, 1)
    checkpoints.save_best(2, model)
    other = make_model(seed=1)
    assert checkpoints.restore_best(other) == 2 and equal(other, model)
    checkpoints.best.write_bytes(b"PK")
    assert checkpoints.restore_best(other) == 3 and not equal(other, model)


# writes in the background


@pytest.fixture
def slow(monkeypatch):
    """Writes wait, after they began, until `slow.go` is set; `slow.begun` says that one began."""
    gate = SimpleNamespace(go=threading.Event(), begun=threading.Event())

    def savez(path, **arrays):
        path.write_bytes(b"half a file")
        gate.begun.set()
        if not gate.go.wait(30):
            raise TimeoutError
        write(path, **arrays)

    write = np.savez
    monkeypatch.setattr(np, "savez", savez)
    yield gate
    gate.go.set()


def test_training_continues_while_a_slow_checkpoint_is_written(tmp_path, slow):
    model = make_model()
    update(model, 1)
    saved = variable_values(model)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, model)
        assert slow.begun.wait(30)
        update(model, 2)
        assert checkpoints.steps() == [] and not equal(model, make_model())
        slow.go.set()
    other = make_model(seed=1)
    assert checkpoints.restore(other) == 1
    for name, array in variable_values(other).items():  # the values at the time of the save
        np.testing.assert_array_equal(array, saved[name], err_msg=name)


def test_the_next_save_waits_for_the_writes_of_earlier_steps(tmp_path, slow):
    model = make_model()
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save_best(1, model)
        checkpoints.save(1, model)  # of the same step: does not wait, and shares the values
        assert len(checkpoints.writes) == 2 and slow.begun.wait(30)
        threading.Timer(0.05, slow.go.set).start()
        checkpoints.save(2, model)
        assert checkpoints.steps()[0] == 1 and len(checkpoints.writes) == 1
    assert checkpoints.steps() == [1, 2] and checkpoints.best.exists()


def test_values_of_one_step_are_copied_once(tmp_path):
    model = make_model()
    first = variable_values(model)
    model.layers[-1].kernel.assign_add(np.ones((4, 3)))
    second = variable_values(model, first)
    changed = [name for name in first if first[name] is not second[name]]
    assert [name.rpartition("/")[2] for name in changed] == ["kernel"]


def test_an_error_of_a_write_is_raised_after_the_next_step(tmp_path, monkeypatch):
    def fail(path, **arrays):
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", fail)
    model = make_model()
    with pytest.raises(OSError, match="no space left"), Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, model)
        wait(checkpoints.writes)
        data = np.zeros((3, 4)), np.zeros((3, 3))
        model.fit(*data, batch_size=1, verbose=0, callbacks=[checkpoints])
    assert model.optimizer.iterations.numpy() == 1  # of three steps


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork with threads
def test_a_kill_while_a_checkpoint_is_written_leaves_the_one_before(tmp_path, slow, monkeypatch):
    model = make_model()
    values = variable_values(model)
    monkeypatch.setattr(checkpoint, "variable_values", lambda *_: values)
    child = os.fork()
    if not child:  # uses no TensorFlow
        try:
            with Checkpoints(tmp_path) as checkpoints:
                slow.go.set()
                checkpoints.save(1, None)
                checkpoints.wait()
                slow.go.clear()
                slow.begun.clear()
                checkpoints.save(2, None)
                slow.begun.wait(30)
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert [path.name for path in tmp_path.glob(".step*")] == [".step_00000002.tmp.npz"]
    monkeypatch.undo()
    other = make_model(seed=1)
    assert Checkpoints(tmp_path).restore(other) == 1 and equal(other, model)
