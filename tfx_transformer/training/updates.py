"""The training step of `fit`: one update from one or more batches, on one or several replicas.

`use_updates` gives a compiled model this step. Keras's own step cannot accumulate gradients on
several replicas, and under MultiWorkerMirroredStrategy it fails (Keras 3.15, issue 20585): before
the first step Keras adds up the batches of all workers, and after each step it averages numbers
along an axis that they do not have. Other models in the process keep Keras's step.
"""

import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from keras import ops

from tfx_transformer.runtime import mean_over_replicas, without_autograph


def use_updates(model, accumulate: int = 1, stop: Callable[[], bool] | None = None) -> None:
    """Makes `model.fit` train with the batches of `distribute`; call it after `compile`.

    Model and optimizer must be built, and the loss must sum. Then the loss of a step is the mean
    over all its tokens or images, by their weights, whichever batch and replica they are in.

    Args:
        model: built and compiled.
        accumulate: batches per step.
        stop: whether this process wants to stop; if one of several workers does, `fit` ends after
            the next step in all of them.
    """
    if not (model.built and model.optimizer.built):
        raise ValueError("use_updates needs a model and an optimizer that are built")
    model._maybe_symbolic_build = lambda *_, **__: None  # all is built
    model.train_function = Updates(model, accumulate, stop)


def set_steps(model, steps: int) -> None:
    """Makes each call of the train function so many updates, after `use_updates`.

    The callbacks of `fit` see the last one only. Where steps are short this saves about 2 ms each.
    """
    if steps > 1 and isinstance(
        model.distribute_strategy, tf.distribute.MultiWorkerMirroredStrategy
    ):
        raise ValueError(f"steps_per_execution must be 1 with several workers; got {steps}")
    model.steps_per_execution = model.train_function.steps = steps


class Updates:
    """A train function of Keras: takes `accumulate` batches from an iterator, makes one update.

    With `steps`, which `set_steps` sets, it makes so many updates in one call.
    """

    def __init__(self, model, accumulate: int, stop: Callable[[], bool] | None):
        self.model, self.accumulate, self.stop = model, accumulate, stop
        self.strategy = model.distribute_strategy
        if self.strategy.num_replicas_in_sync > 1:
            for layer in model._flatten_layers():
                layer._losses = ReplicaLosses()
        self.steps = 1  # in a call
        self.wants_stop = tf.Variable(0.0, trainable=False)  # of this worker
        options: dict[str, Any] = {"autograph": False, "reduce_retracing": True}
        self.add = tf.function(self._add, **options)
        self.update = tf.function(self._update, **options)
        self.execute = tf.function(self._execute, **options)
        self.gradients = self._gradients
        if model.jit_compile is True:
            self.gradients = tf.function(self._gradients, **options, jit_compile=True)
        self.sums: list[tf.Variable] = []
        if accumulate > 1:
            kind = {
                "synchronization": tf.VariableSynchronization.ON_READ,
                "aggregation": tf.VariableAggregation.SUM,
            }
            with self.strategy.scope():
                self.sums = [
                    tf.Variable(tf.zeros(weight.shape, weight.dtype), trainable=False, **kind)
                    for weight in model.trainable_variables
                ]

    def __call__(self, iterator) -> dict[str, tf.Tensor]:
        if self.stop is not None and self.stop():
            self.wants_stop.assign(1.0)
        if self.steps > 1:
            loss, stops = self.execute(iterator, self.steps)
        else:
            is_tpu = isinstance(self.strategy, tf.distribute.TPUStrategy)
            take = iterator.get_next if is_tpu else lambda: iterator
            for _ in range(self.accumulate - 1):
                self.add(take())  # a TPU needs the shape of each batch
            loss, stops = self.update(take())
        if self.stop is not None and float(stops) > 0:
            self.model.stop_training = True
        return {"loss": loss}

    def _execute(self, iterator, steps: int) -> list[tf.Tensor]:
        """Several steps, in a loop of the graph → as `_update`."""

        def step(index, _):
            for _ in range(self.accumulate - 1):
                self._add(iterator)
            return index + 1, tf.stack(self._update(iterator))

        last = tf.while_loop(lambda index, _: index < steps, step, (0, tf.zeros(2)))[1]
        return tf.unstack(last)

    def _add(self, data) -> None:
        """Adds the gradients of a batch to the sums of each replica."""
        self.strategy.run(self.add_gradients, _batch(data))

    def _update(self, data) -> list[tf.Tensor]:
        """Updates the weights with the sums and the last batch → the loss, the wish to stop."""
        found = self.strategy.run(self.update_weights, _batch(data))
        return tf.unstack(self.strategy.reduce("MEAN", found, axis=None))

    def add_gradients(self, *batch) -> None:
        """On one replica."""
        gradients = self.gradients(*self._normalize(*batch))
        for total, gradient in zip(self.sums, gradients, strict=True):
            total.assign_add(gradient)

    def update_weights(self, *batch) -> tf.Tensor:
        """On one replica → the mean loss so far, and the wish to stop."""
        model, gradients = self.model, self.gradients(*self._normalize(*batch))
        if self.sums:
            pairs = zip(self.sums, gradients, strict=True)
            gradients = [(total + last) / self.accumulate for total, last in pairs]
            with tf.control_dependencies(gradients):
                for total in self.sums:
                    total.assign(tf.zeros_like(total))
        model.optimizer.apply(gradients, model.trainable_variables)
        return tf.stack([model._loss_tracker.result(), self.wants_stop])

    def _normalize(self, inputs, targets, weights, total):
        """The batch with weights that add up to 1, on average over the batches of a step."""
        replicas = self.strategy.num_replicas_in_sync
        total = mean_over_replicas(total) * (replicas / self.accumulate)
        return inputs, targets, weights / ops.maximum(total, 1.0)

    def _gradients(self, inputs, targets, weights) -> list[tf.Tensor]:
        """The gradients of one batch on one replica; those of all replicas add up."""
        model = self.model
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            loss = model.compute_loss(inputs, targets, outputs, weights)
            scaled = model.optimizer.scale_loss(loss)
        whole = loss * self.strategy.num_replicas_in_sync  # the mean of the replicas is reported
        rows = tf.shape(targets)[0]
        model._loss_tracker.update_state(whole, sample_weight=rows)
        found = tape.gradient(scaled, model.trainable_variables, unconnected_gradients="zero")
        return [tf.convert_to_tensor(gradient) for gradient in found]  # dense


class ReplicaLosses(threading.local):
    """The losses of `add_loss` in a layer, those of the own replica only.

    MirroredStrategy traces each replica in a thread. A replica waits for the others inside the
    model, where a layer takes means over replicas; Keras's list would have the losses of all.
    """

    def __init__(self) -> None:
        self.losses: list[tf.Tensor] = []

    def extend(self, losses) -> None:
        self.losses.extend(losses)

    def clear(self) -> None:
        self.losses.clear()

    def __getitem__(self, part) -> list[tf.Tensor]:
        return self.losses[part]


def _batch(data) -> tuple:
    return data if isinstance(data, tuple) else data.get_next()


def distribute(
    strategy, make_data: Callable[[], tf.data.Dataset], accumulate: int = 1, local_replicas: int = 1
):
    """Endless batches of one worker, of its own rows, as the batches of its replicas for `fit`.

    Each gets a part (inputs, targets, weights, total), where the totals of all replicas add up to
    the sum of the weights in the batches of one step.

    Args:
        strategy: of the model.
        make_data: makes the batches of this worker, on the device of its data.
        accumulate: batches per step.
        local_replicas: replicas of this worker.
    """

    def add_total(inputs, targets, weights):
        return inputs, targets, weights, ops.sum(weights) / local_replicas

    def add_totals(inputs, targets, weights):  # data sets of `accumulate` batches
        total = weights.reduce(0.0, without_autograph(lambda sum, x: sum + ops.sum(x)))
        total = tf.data.Dataset.from_tensors(total / local_replicas).repeat()
        return tf.data.Dataset.zip((inputs, targets, weights, total))

    def split(inputs, targets, weights, total):
        parts = tf.nest.map_structure(part, (inputs, targets, weights))
        return tf.data.Dataset.from_tensor_slices((*parts, tf.fill([local_replicas], total)))

    def part(x):
        rows = None if x.shape[0] is None else x.shape[0] // local_replicas
        shape = tf.concat([[local_replicas, -1], tf.shape(x)[1:]], axis=0)
        return tf.ensure_shape(tf.reshape(x, shape), [local_replicas, rows, *x.shape[1:]])

    def make(_):
        data = make_data()
        if accumulate == 1:
            data = data.map(without_autograph(add_total))
        else:
            data = data.window(accumulate).flat_map(without_autograph(add_totals))
        if local_replicas > 1:
            data = data.flat_map(without_autograph(split))
        return data.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))

    return strategy.distribute_datasets_from_function(make)
