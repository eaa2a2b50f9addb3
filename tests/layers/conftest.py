"""Gradients on any backend of Keras."""

import keras
import numpy as np
import pytest
from keras import ops


class _Sum(keras.Model):
    """The sum of a function's value, weighted by noise, at points that are weights."""

    def __init__(self, function, points):
        super().__init__()
        self.function = function
        self.points = [
            self.add_weight(shape=point.shape, initializer=lambda *_, p=point, **__: p)
            for point in points
        ]

    def call(self, upstream):
        value = self.function(*[point + 0 for point in self.points])  # tensors, not variables
        self.add_loss(ops.sum(upstream * value))
        return upstream


@pytest.fixture
def gradients():
    """gradients(function, upstream, *points): of the sum of upstream · function(*points).

    One step of gradient descent at rate 1 moves a weight by its gradient.
    """

    def measure(function, upstream, *points):
        model = _Sum(function, [ops.convert_to_tensor(point) for point in points])
        model.compile(optimizer=keras.optimizers.SGD(1.0), run_eagerly=True)
        model.train_on_batch(upstream)
        return [p - ops.convert_to_numpy(w) for p, w in zip(points, model.points, strict=True)]

    return measure


@pytest.fixture
def slopes():
    """slopes(function, *points): the gradients of a number, by central differences in float64."""

    def measure(function, *points, step=1e-5):
        points = [np.array(point, "float64") for point in points]
        results = [np.zeros_like(point) for point in points]
        for point, result in zip(points, results, strict=True):
            for cell in np.ndindex(*point.shape):
                kept = point[cell]
                ends = []
                for move in (step, -step):
                    point[cell] = kept + move
                    ends.append(function(*points))
                point[cell] = kept
                result[cell] = (ends[0] - ends[1]) / (2 * step)
        return results

    return measure
