"""ImageNet, Swin-T (28 M parameters), for several GPUs: not measured, paper 81.3 %.

The settings of arXiv:2103.14030, appendix A2.1: 300 epochs, batches of 1,024, RandAugment, mixup or
cutmix, random erasing and stochastic depth.

Run:     tfx-transformer train swin_t_imagenet --strategy mirrored
Time:    not measured
Result:  not measured; the paper reports 81.3 %
"""

from dataclasses import replace

from tfx_transformer.data.images.augmentation_options import Augmentation
from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.tasks.classification import (
    ADAMW,
    ClassificationData,
    ClassificationRecipe,
)

RECIPE = ClassificationRecipe(
    data=ClassificationData(
        source="tfds:imagenet2012", batch_size=1024, crop_ratio=0.875, normalization="imagenet"
    ),
    augment=Augmentation(
        crop="resized", flip=True, rand_augment=2, magnitude=9.0, erase=0.25, mixup=0.8, cutmix=1.0
    ),
    model=ModelOptions.of("swin", "t", drop_path=0.2),
    optimizer=replace(
        ADAMW, learning_rate=1e-3, warmup_steps=25_020, weight_decay=0.05, clip_norm=5.0
    ),
    steps=375_300,
    eval_steps=1251,
)
