"""ImageNet-1k with ViT-S/16 and the plain recipe of arXiv:2205.01580, 90 epochs.

For owners of GPUs or a TPU: batches of 1,024, RandAugment and mixup, mean pooling, sine-cosine
positions.

Run:     tfx-transformer train vit_s16_imagenet --strategy mirrored
Time:    not measured
Result:  not measured; the paper's is 76.5 % after 90 epochs
"""

from tfx_transformer.train.recipe import (
    Augment,
    ClassifyData,
    ClassifyModel,
    ClassifyOptimizer,
    ClassifyRecipe,
)

RECIPE = ClassifyRecipe(
    data=ClassifyData(source="tfds:imagenet2012", batch_size=1024, crop_ratio=0.875),
    augment=Augment(
        crop="resized", min_area=0.05, flip=True, rand_augment=2, magnitude=10.0, mixup=0.2
    ),
    model=ClassifyModel(variant="s16", num_tokens=0, pool="mean", position="sincos_2d"),
    optimizer=ClassifyOptimizer(
        learning_rate=1e-3, warmup_steps=10_000, weight_decay=0.1, clip_norm=1.0
    ),
    label_smoothing=0.0,
    steps=112_600,
    eval_steps=1251,
)
