"""The optimizer of a run."""

import re

from tfx_transformer.optimizer import FusedAdam
from tfx_transformer.schedules import SCHEDULES
from tfx_transformer.train.recipe import Recipe

# above all blocks
LAST = ("last_norm", "encoder_norm", "decoder_norm", "importance", "head", "pooler")


def make_optimizer(recipe: Recipe, model) -> FusedAdam:
    """Adam with the recipe's schedule, built for the model's weights.

    Only kernels decay: no norms, biases, tokens, tables or positions. Keras moves schedules and
    moving averages on at every batch; where several make an update, they go so much slower.
    """
    own, weights = recipe.optimizer, model.trainable_variables
    schedule = SCHEDULES.make(
        own.schedule,
        learning_rate=own.learning_rate,
        warmup_steps=own.warmup_steps * own.accumulate,
        total_steps=recipe.steps * own.accumulate,
    )
    optimizer = FusedAdam(
        schedule,
        rates=layer_rates(weights, own.layer_decay),
        beta_2=own.beta_2,
        epsilon=own.epsilon,
        weight_decay=own.weight_decay or None,
        global_clipnorm=own.clip_norm,
        use_ema=own.ema > 0,
        ema_momentum=own.ema ** (1 / own.accumulate) if own.ema else 0.99,
        gradient_accumulation_steps=own.accumulate if own.accumulate > 1 else None,
    )
    optimizer.exclude_from_weight_decay([weight for weight in weights if weight.name != "kernel"])
    optimizer.build(weights)
    return optimizer


def layer_rates(weights, decay: float) -> list[float] | None:
    """By what each weight's learning rate is multiplied (arXiv:2106.08254, appendix).

    What lies above the blocks learns at the full rate, each block `decay` times as fast as the one
    above it, and what lies below the blocks slowest.
    """
    if decay == 1:
        return None
    layers = [layer_of(weight.path) for weight in weights]
    top = max((layer for layer in layers if layer is not None), default=0) + 1
    return [decay ** (top - (top if layer is None else layer)) for layer in layers]


def layer_of(path: str) -> int | None:
    """0 below the blocks, i + 1 in block i, None above them."""
    block = re.search(r"/(?:block|encoder|decoder)_(\d+)/", path)
    if block:
        return int(block[1]) + 1
    return None if any(f"/{name}" in path for name in LAST) else 0
