"""Your own photos in folders by class, ViT-Ti/16 (5.5 M parameters): not measured.

To fine-tune a checkpoint of timm, Hugging Face or AugReg with a new head: `--weights
model.safetensors --model.variant s16 --optimizer.learning-rate 1e-4 --optimizer.layer-decay 0.75`;
for DeiT also `--data.normalization imagenet`.

Run:     tfx-transformer train classify_folder --data.source photos/
Time:    not measured: it depends on the images
Result:  not measured
"""

from dataclasses import replace

from tfx_transformer.data.images.augmentation_options import Augmentation
from tfx_transformer.train.recipe import ADAMW, ModelOptions
from tfx_transformer.train.tasks.classification import ClassificationData, ClassificationRecipe

RECIPE = ClassificationRecipe(
    data=ClassificationData(batch_size=32, crop_ratio=0.875),
    augment=Augmentation(crop="resized", min_area=0.2, flip=True, rand_augment=2, magnitude=7.0),
    model=ModelOptions.of("vit", "ti16", drop_path=0.1),
    optimizer=replace(ADAMW, learning_rate=5e-4, warmup_steps=200, clip_norm=1.0),
    steps=4000,
    eval_steps=400,
)
