"""Image classifiers with random weights."""

import numpy as np
import pytest

from tfx_transformer.models import create_model
from tfx_transformer.pipelines import Classifier

NAMES = ["ant", "bär", "cat", "dog", "elk"]


@pytest.fixture
def make_classifier(randomize):
    """Makes a classifier of five classes with the "test" variant of a model."""

    def make(name, jit_compile=False, class_names=NAMES, **options):
        model = create_model(name, "test", num_classes=len(NAMES), **options)
        return Classifier(randomize(model), class_names, jit_compile=jit_compile)

    return make


@pytest.fixture
def random_images():
    """Returns pixels in 0 … 1 of the size of a classifier."""

    def sample(classifier, count):
        size = classifier.model.image_size
        return np.random.default_rng(3).random((count, size, size, 3), "float32")

    return sample
