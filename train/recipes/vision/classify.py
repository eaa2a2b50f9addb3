"""Your own images in folders by class; sized for your time: CIFAR-10, 20 min: 80 %.

A compact transformer: convolutions, then attention. Model and number of steps are chosen for your
time; the plan is printed before training and kept
in plan.json. To fine-tune a checkpoint of timm, Hugging Face or AugReg with a new head: `--weights
model.safetensors --model.variant s16 --optimizer.learning-rate 1e-4 --optimizer.layer-decay 0.75`;
for DeiT also `--data.normalization imagenet`.

Run:     tfx-transformer train classify --data.source photos/ --minutes 20
Time:    20 minutes, or --minutes
Result:  80.0 % on CIFAR-10 (JPEG files) with --minutes 20, in 19 min 55 s
"""

from dataclasses import replace

from tfx_transformer.data.images.options import Augmentation
from tfx_transformer.train.recipe import ADAMW, ModelOptions
from tfx_transformer.train.tasks.classification import ClassificationData, ClassificationRecipe

RECIPE = ClassificationRecipe(
    data=ClassificationData(batch_size=64),
    augment=Augmentation(crop="resized", min_area=0.3, flip=True, rand_augment=2, magnitude=5.0),
    model=ModelOptions("vit"),
    optimizer=replace(ADAMW, learning_rate=1.5e-3, warmup_steps=500, clip_norm=1.0),
    minutes=20,
)
