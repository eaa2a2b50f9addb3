"""The optimizer of a run, and its precision, which is chosen once and kept in its recipe."""

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import keras

from tfx_transformer.models import MODELS
from tfx_transformer.models.base import RecurrentModel
from tfx_transformer.train.recipe import Recipe, load_recipe
from tfx_transformer.training.optimizer import FusedAdam, LossScaling
from tfx_transformer.training.precision import choose_precision
from tfx_transformer.training.schedules import SCHEDULES
from tfx_transformer.training.workers import Workers


def make_optimizer(recipe: Recipe, model) -> keras.optimizers.Optimizer:
    """Adam with the recipe's schedule, built for the model's weights; in float16 with loss scaling.

    Only kernels decay: no norms, biases, tokens, tables or positions.
    """
    own, weights = recipe.optimizer, model.trainable_variables
    schedule = SCHEDULES.make(
        own.schedule,
        learning_rate=own.learning_rate,
        warmup_steps=own.warmup_steps,
        total_steps=recipe.steps,
    )
    optimizer = FusedAdam(
        schedule,
        rate_multipliers=layer_rates(model, own.layer_decay),
        beta_2=own.beta_2,
        epsilon=own.epsilon,
        weight_decay=own.weight_decay or None,
        global_clipnorm=own.clip_norm,
        use_ema=own.ema > 0,
        ema_momentum=own.ema or 0.99,
    )
    optimizer.exclude_from_weight_decay([weight for weight in weights if weight.name != "kernel"])
    scaled = LossScaling(optimizer) if recipe.precision == "mixed_float16" else optimizer
    scaled.build(weights)
    return scaled


def layer_rates(model, decay: float) -> list[float] | None:
    """Learning-rate factors of the trainable weights, by layer (arXiv:2106.08254, appendix).

    The last of the model's `layer_groups` has the factor `decay`, each group before it `decay`
    times that of the next; weights in no group have 1.
    """
    if decay == 1:
        return None
    groups = model.layer_groups()
    levels: dict[int, int] = {}
    for level, group in enumerate(groups):
        for part in group:
            for weight in getattr(part, "trainable_variables", [part]):
                levels.setdefault(id(weight), level)
    top = len(groups)
    return [decay ** (top - levels.get(id(w), top)) for w in model.trainable_variables]


def recorded_precision(recipe: Recipe, folder: Path) -> Any:
    """The recipe with the precision of the run in the folder, if it has "auto" and there is one."""
    made = any((folder / "checkpoints").glob("*_????????.npz"))
    if recipe.precision != "auto" or not made or not (folder / "recipe.json").exists():
        return recipe
    stored = load_recipe(folder / "recipe.json")
    return dataclasses.replace(recipe, precision=stored.precision)


def with_precision(recipe: Any, folder: Path, workers: Workers) -> Any:
    """The recipe with the precision of the run in the folder, or with one chosen by the chief."""

    def choose():
        precision, reason = find_precision(recorded_precision(recipe, folder))
        if reason:
            print(f"precision: {precision}, as {reason}")
        return precision

    return dataclasses.replace(recipe, precision=workers.of_chief(choose))


def find_precision(recipe: Any) -> tuple[str, str]:
    """The recipe's precision, or for "auto" one by the width of its model, and why."""
    if recipe.precision != "auto":
        return recipe.precision, ""
    own = recipe.model
    if issubclass(MODELS[own.name], RecurrentModel):
        return "float32", "the steps of a recurrent model are small"
    options = MODELS[own.name].variants.get(own.variant, {}) | own.options
    dim = options.get("dim")
    return choose_precision(dim if isinstance(dim, int) else None)


@contextlib.contextmanager
def dtype_policy(name: str):
    """Inside, layers are made with this dtype policy."""
    old = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(old)
