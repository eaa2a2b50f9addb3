"""ImageNet, DeiT-S/16 (22 M parameters), for several GPUs: not measured, paper 79.9 %.

The settings of arXiv:2012.12877, table 9: 300 epochs, batches of 1,024, RandAugment, mixup or
cutmix, random erasing, repeated augmentation and stochastic depth.

Run:     tfx-transformer train deit_s16_imagenet --strategy mirrored
Time:    not measured; the paper took 3 days on 4 GPUs
Result:  not measured; the paper reports 79.9 %
"""

from dataclasses import replace

from tfx_transformer.data.images.options import Augmentation
from tfx_transformer.train.recipe import ADAMW, ModelOptions
from tfx_transformer.train.tasks.classification import ClassificationData, ClassificationRecipe

RECIPE = ClassificationRecipe(
    data=ClassificationData(
        source="tfds:imagenet2012", batch_size=1024, crop_ratio=0.875, normalization="imagenet"
    ),
    augment=Augmentation(
        crop="resized",
        flip=True,
        rand_augment=2,
        magnitude=9.0,
        erase=0.25,
        mixup=0.8,
        cutmix=1.0,
        repeats=3,
    ),
    model=ModelOptions.of("vit", "s16", drop_path=0.1),
    optimizer=replace(ADAMW, learning_rate=1e-3, warmup_steps=6255),
    steps=375_300,
    eval_steps=1251,
)
