"""ImageNet, Swin-T (28 M parameters), for several GPUs: not measured, paper 81.3 %.

The settings of arXiv:2103.14030, appendix A2.1: 300 epochs, batches of 1,024, RandAugment, mixup or
cutmix, random erasing and stochastic depth.

Run:     tfx-transformer train swin_t_imagenet --strategy mirrored
Time:    not measured
Result:  not measured; the paper reports 81.3 %
"""

from dataclasses import replace

from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.recipes.vision.deit_s16_imagenet import RECIPE as DEIT

RECIPE = replace(
    DEIT,
    augment=replace(DEIT.augment, repeats=1),
    model=ModelOptions.of("swin", "t", drop_path=0.2),
    optimizer=replace(DEIT.optimizer, warmup_steps=25_020, clip_norm=5.0),
)
