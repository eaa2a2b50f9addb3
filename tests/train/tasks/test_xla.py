"""The training step of each task has only operations that XLA can compile, as a TPU needs."""

import pytest
import tensorflow as tf

from tfx_transformer.train.optimizer import make_optimizer
from tfx_transformer.train.tasks import load_task
from tfx_transformer.training.updates import Updates, distribute


def compiled_step(recipe, folder) -> str:
    """The training step for the shapes of the first batch, as XLA reads it."""
    task = load_task(recipe.task)(recipe)
    task.load_data()
    task.prepare(folder)
    model = task.make_model()
    model.compile(make_optimizer(recipe, model), task.loss)
    batch = next(iter(distribute(model.distribute_strategy, lambda: task.batches(0))))
    assert all(x.shape.is_fully_defined() for x in tf.nest.flatten(batch))
    step = tf.function(Updates(model, 1, None).update_weights, autograph=False, jit_compile=True)
    return step.experimental_get_compiler_ir(*batch)(stage="hlo")


SLOW = (
    "classify_recipe_of",
    "classify_text_recipe_of",
    "draw_recipe_of",
    "language_recipe_of",
    "mask_recipe_of",
)


@pytest.mark.parametrize(
    "name", ["recipe_of", *(pytest.param(x, marks=pytest.mark.slow) for x in SLOW)]
)
def test_a_training_step_can_be_compiled(request, name, tmp_path):
    assert "ENTRY" in compiled_step(request.getfixturevalue(name)(), tmp_path)


def test_recurrent_models_cannot_be_compiled_yet(caption_recipe_of, tmp_path):
    """By Keras's `scan`; when this fails, docs/guides/devices.md can be shorter."""
    with pytest.raises(ValueError, match="requires a fixed tensor list size"):
        compiled_step(caption_recipe_of(), tmp_path)
