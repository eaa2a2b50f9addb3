"""Your own pictures, a sub-folder for each class, with a small Vision Transformer.

From scratch, or from a checkpoint of timm, Hugging Face or AugReg with a new head: `--weights
model.safetensors --model.variant s16 --optimizer.learning-rate 1e-4 --optimizer.layer-decay 0.75`.
DeiT's checkpoints want `--data.normalisation imagenet`.

Run:     tfx-transformer train classify_folder --data.source photos/
Time:    not measured: it depends on the pictures
Result:  not measured
"""

from tfx_transformer.train.recipe import (
    Augment,
    ClassifyData,
    ClassifyModel,
    ClassifyOptimizer,
    ClassifyRecipe,
)

RECIPE = ClassifyRecipe(
    data=ClassifyData(batch_size=32, crop_ratio=0.875),
    augment=Augment(crop="resized", min_area=0.2, flip=True, rand_augment=2, magnitude=7.0),
    model=ClassifyModel(variant="ti16", drop_path=0.1),
    optimizer=ClassifyOptimizer(learning_rate=5e-4, warmup_steps=200, clip_norm=1.0),
    steps=4000,
    eval_steps=400,
)
