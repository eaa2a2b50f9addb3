"""The training step on one device; several are in tests/train/test_replicas.py."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.training.updates import distribute, set_steps, use_updates

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(6, 4, 3)).astype("float32")  # six batches of four rows
TARGETS = RNG.normal(size=(6, 4, 2)).astype("float32")
WEIGHTS = RNG.uniform(0.2, 3, size=(6, 4)).astype("float32")


def new_model():
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, use_bias=False)])


def batches():
    return tf.data.Dataset.from_tensor_slices((INPUTS, TARGETS, WEIGHTS)).repeat()


def fit(accumulate, stop=None, steps=1, callbacks=(), **options):
    model = new_model()
    loss = keras.losses.MeanSquaredError(reduction="sum")
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    model.compile(optimizer, loss, **{"jit_compile": False} | options)
    use_updates(model, accumulate, stop)
    set_steps(model, steps)
    data = distribute(model.distribute_strategy, batches, accumulate)
    history = model.fit(
        data, steps_per_epoch=6 // accumulate, shuffle=False, verbose=0, callbacks=list(callbacks)
    )
    return model, history.history["loss"][0]


def by_numpy(accumulate):
    """Gradient descent on the weighted mean over all rows of a step."""
    kernel = new_model().layers[0].kernel.numpy()
    losses = []
    for first in range(0, 6, accumulate):
        part = slice(first, first + accumulate)
        x, y, w = (a[part].reshape(4 * accumulate, -1) for a in (INPUTS, TARGETS, WEIGHTS))
        w = w / w.sum()  # the loss of a row is the mean of two squares
        losses.append((w * (x @ kernel - y) ** 2).sum() / 2)
        kernel = kernel - 0.1 * x.T @ (w * (x @ kernel - y))
    return kernel, np.mean(losses)


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_an_update_is_that_of_the_mean_over_all_rows_of_a_step(accumulate):
    model, loss = fit(accumulate)
    kernel, expected = by_numpy(accumulate)
    np.testing.assert_allclose(model.layers[0].kernel.numpy(), kernel, atol=1e-6)
    assert loss == pytest.approx(expected, rel=1e-5)


def test_a_step_with_xla_is_the_same():
    np.testing.assert_allclose(
        fit(2, jit_compile=True)[0].layers[0].kernel.numpy(), by_numpy(2)[0], atol=1e-6
    )


def test_fit_ends_after_a_step_that_a_worker_wants_to_be_the_last():
    model, _ = fit(1, stop=lambda: True)
    assert model.stop_training and model.optimizer.iterations.numpy() == 1


def test_other_models_keep_the_step_of_keras():
    model, _ = fit(1)
    other = new_model()
    other.compile("sgd", "mse", jit_compile=False)
    other.fit(INPUTS[0], TARGETS[0], verbose=0)
    assert type(other.train_function) is not type(model.train_function)
    assert "_maybe_symbolic_build" not in vars(other)


def test_a_model_that_is_not_built_is_refused():
    model = keras.Sequential([keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="use_updates needs a model and an optimizer"):
        use_updates(model)


def test_batches_are_split_among_replicas_and_carry_their_part_of_the_total():
    data = distribute(tf.distribute.get_strategy(), batches, accumulate=2, local_replicas=2)
    parts = list(data.take(4).as_numpy_iterator())
    assert parts[0][0].shape == (2, 3) and data.element_spec[0].shape == (2, 3)
    np.testing.assert_array_equal(np.concatenate([part[0] for part in parts[:2]]), INPUTS[0])
    np.testing.assert_array_equal(np.concatenate([part[2] for part in parts[2:]]), WEIGHTS[1])
    for _, _, _, total in parts:  # two replicas with half of the total each
        assert total == pytest.approx(WEIGHTS[:2].sum() / 2, rel=1e-5)


@pytest.mark.parametrize("accumulate, calls", [(1, 2), (2, 1)])
def test_several_steps_in_a_call_are_those_of_several_calls(accumulate, calls):
    seen = []
    report = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(batch)
    )
    model, loss = fit(accumulate, steps=3, callbacks=[report])
    kernel, expected = by_numpy(accumulate)
    np.testing.assert_allclose(model.layers[0].kernel.numpy(), kernel, atol=1e-6)
    assert loss == pytest.approx(expected, rel=1e-5)
    assert seen == [2, 5][:calls] and model.optimizer.iterations.numpy() == 3 * calls
