"""ImageNet-1k with Swin-T and the settings of arXiv:2103.14030, appendix A2.1, 300 epochs.

For owners of GPUs or a TPU: batches of 1,024, RandAugment, mixup or cutmix, random erasing,
stochastic depth.

Run:     tfx-transformer train swin_t_imagenet --strategy mirrored
Time:    not measured
Result:  not measured; the paper's is 81.3 %
"""

from tfx_transformer.train.recipe import (
    Augment,
    ClassifyData,
    ClassifyModel,
    ClassifyOptimizer,
    ClassifyRecipe,
)

RECIPE = ClassifyRecipe(
    data=ClassifyData(
        source="tfds:imagenet2012", batch_size=1024, crop_ratio=0.875, normalisation="imagenet"
    ),
    augment=Augment(
        crop="resized", flip=True, rand_augment=2, magnitude=9.0, erase=0.25, mixup=0.8, cutmix=1.0
    ),
    model=ClassifyModel("swin", "t", drop_path=0.2),
    optimizer=ClassifyOptimizer(
        learning_rate=1e-3, warmup_steps=25_020, weight_decay=0.05, clip_norm=5.0
    ),
    steps=375_300,
    eval_steps=1251,
)
