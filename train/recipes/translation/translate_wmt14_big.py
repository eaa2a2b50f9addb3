"""WMT14 English → German, Transformer big, for several GPUs: not measured, paper 28.4.

The settings of arXiv:1706.03762.

Run:     tfx-transformer train translate_wmt14_big --strategy mirrored
Time:    not measured; the paper took 3.5 days on 8 P100
Result:  not measured; the paper reports 28.4 tokenized BLEU on newstest2014
"""

from dataclasses import replace

from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.recipes.translation.translate_wmt14_base import RECIPE as BASE

RECIPE = replace(
    BASE,
    model=ModelOptions.of("transformer", "big"),
    optimizer=replace(BASE.optimizer, learning_rate=4.9e-4),  # 1024^-0.5 · 4000^-0.5
    steps=300_000,
    average=20,
)
