"""The optimizer of a run."""

import keras

from tfx_transformer.train.recipe import Recipe
from tfx_transformer.training.optimizer import FusedAdam, LossScaling
from tfx_transformer.training.schedules import SCHEDULES


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
