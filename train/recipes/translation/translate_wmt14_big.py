"""WMT14 English → German, Transformer big, for several GPUs: not measured, paper 28.4.

The settings of arXiv:1706.03762.

Run:     tfx-transformer train translate_wmt14_big --strategy mirrored
Time:    not measured; the paper took 3.5 days on 8 P100
Result:  not measured; the paper reports 28.4 tokenized BLEU on newstest2014
"""

import dataclasses

from tfx_transformer.train.recipe import ModelOptions, OptimizerOptions
from tfx_transformer.train.recipes.translation import translate_wmt14_base

RECIPE = dataclasses.replace(
    translate_wmt14_base.RECIPE,
    model=ModelOptions.of("transformer", "big"),
    optimizer=OptimizerOptions(
        learning_rate=4.9e-4,  # 1024^-0.5 · 4000^-0.5
        schedule="inverse_sqrt",
        warmup_steps=4000,
    ),
    steps=300_000,
    average=20,
)
