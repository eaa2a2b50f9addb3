"""English → German news, WMT 2014, with the big model and settings of arXiv:1706.03762.

Run:     tfx-transformer train translate_wmt14_big --strategy mirrored
Time:    not measured; the paper's took 3.5 days on 8 P100
Result:  not measured; the paper's is 28.4 tokenised BLEU on newstest2014
"""

import dataclasses

from tfx_transformer.train import translate_wmt14_base
from tfx_transformer.train.recipe import Optimizer, TranslateModel

RECIPE = dataclasses.replace(
    translate_wmt14_base.RECIPE,
    model=TranslateModel("transformer", "big"),
    optimizer=Optimizer(
        learning_rate=4.9e-4,  # 1024^-0.5 · 4000^-0.5
        schedule="inverse_sqrt",
        warmup_steps=4000,
    ),
    steps=300_000,
    average=20,
)
