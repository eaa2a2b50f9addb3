"""ImageNet-1k with Mixer-B/16 and the settings of arXiv:2105.01601, appendix B, 300 epochs.

For owners of GPUs or a TPU: batches of 4,096, RandAugment and mixup, stochastic depth. The paper
decays linearly and takes a sigmoid for each class; here it is a cosine and a softmax.

Run:     tfx-transformer train mixer_b16_imagenet --strategy mirrored
Time:    not measured
Result:  not measured; the paper's is 76.4 %
"""

from tfx_transformer.train.recipe import (
    Augment,
    ClassifyData,
    ClassifyModel,
    ClassifyOptimizer,
    ClassifyRecipe,
)

RECIPE = ClassifyRecipe(
    data=ClassifyData(source="tfds:imagenet2012", batch_size=4096, crop_ratio=0.875),
    augment=Augment(crop="resized", flip=True, rand_augment=2, magnitude=10.0, mixup=0.5),
    model=ClassifyModel("mlp_mixer", "b16", drop_path=0.1),
    optimizer=ClassifyOptimizer(
        learning_rate=1e-3, warmup_steps=10_000, weight_decay=0.1, clip_norm=1.0
    ),
    label_smoothing=0.0,
    steps=93_600,
    eval_steps=312,
)
