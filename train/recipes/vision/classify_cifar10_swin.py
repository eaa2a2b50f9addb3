"""CIFAR-10, small Swin Transformer: not measured.

As classify_cifar10, but with attention in shifted windows (arXiv:2103.14030).

Run:     tfx-transformer train classify_cifar10_swin --data.source cifar10.zip
Time:    not measured
Result:  not measured
"""

from dataclasses import replace

from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.recipes.vision.classify_cifar10 import RECIPE as COMPACT

RECIPE = replace(COMPACT, model=ModelOptions.of("swin", "cifar", drop_path=0.1))
