"""Embedded 8 × 8 digits, compact ViT (0.1 M parameters), 1 min on 2 cores: 100 %.

The 1,797 scans come with scikit-learn.

Run:     tfx-transformer train classify_digits
Time:    1 minute on 2 cores
Result:  100 % of the 177 scans of the test set, 98.5 % of the 197 of the validation set
"""

from dataclasses import replace

from tfx_transformer.data.images.options import Augmentation
from tfx_transformer.train.recipe import ADAMW, ModelOptions
from tfx_transformer.train.tasks.classification import ClassificationData, ClassificationRecipe

RECIPE = ClassificationRecipe(
    data=ClassificationData(source="embedded:digits", batch_size=64),
    augment=Augmentation(crop="none", flip=False),
    model=ModelOptions.of(
        "vit", "cct_7_3x1", image_size=8, dim=64, depth=3, num_heads=4, mlp_dim=128, dropout=0.1
    ),
    optimizer=replace(ADAMW, learning_rate=2e-3, warmup_steps=100),
    steps=800,
    eval_steps=200,
)
