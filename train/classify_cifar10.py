"""CIFAR-10, 60,000 photographs of 32 × 32 pixels, with a compact transformer (CCT).

The files are not part of the package: a folder or a .zip with a sub-folder for each class.

Run:     tfx-transformer train classify_cifar10 --data.source cifar10.zip
         (or --data.source tfds:cifar10)
Time:    97 minutes on one core, beside other work; 2 free cores do 560 images a second, not 335
Result:  82.6 % of the test set, top 5 98.6 %
"""

from tfx_transformer.train.recipe import (
    Augment,
    ClassifyData,
    ClassifyModel,
    ClassifyOptimizer,
    ClassifyRecipe,
)

RECIPE = ClassifyRecipe(
    data=ClassifyData(batch_size=128),
    augment=Augment(crop="pad", flip=True),  # in 40 epochs so small a model needs no more
    model=ClassifyModel(
        variant="cct_2_3x2",
        conv_depth=3,
        dim=192,
        depth=5,
        num_heads=3,
        mlp_dim=384,
        drop_path=0.1,
    ),
    optimizer=ClassifyOptimizer(
        learning_rate=1.5e-3, warmup_steps=500, weight_decay=0.05, clip_norm=1.0
    ),
    steps=14_000,
    eval_steps=500,
)
