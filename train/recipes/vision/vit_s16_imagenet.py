"""ImageNet, ViT-S/16 (22 M parameters), for several GPUs: not measured, paper 76.5 %.

The settings of arXiv:2205.01580: 90 epochs, batches of 1,024, RandAugment, mixup, mean pooling and
2-D sine-cosine positions.

Run:     tfx-transformer train vit_s16_imagenet --strategy mirrored
Time:    not measured
Result:  not measured; the paper reports 76.5 % after 90 epochs
"""

from dataclasses import replace

from tfx_transformer.data.images.options import Augmentation
from tfx_transformer.train.recipe import ADAMW, ModelOptions
from tfx_transformer.train.tasks.classification import ClassificationData, ClassificationRecipe

RECIPE = ClassificationRecipe(
    data=ClassificationData(source="tfds:imagenet2012", batch_size=1024, crop_ratio=0.875),
    augment=Augmentation(
        crop="resized", min_area=0.05, flip=True, rand_augment=2, magnitude=10.0, mixup=0.2
    ),
    model=ModelOptions.of("vit", "s16", num_tokens=0, pool="mean", position="sincos_2d"),
    optimizer=replace(
        ADAMW, learning_rate=1e-3, warmup_steps=10_000, weight_decay=0.1, clip_norm=1.0
    ),
    label_smoothing=0.0,
    steps=112_600,
    eval_steps=1251,
)
