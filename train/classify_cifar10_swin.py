"""CIFAR-10 with attention in shifted windows (arXiv:2103.14030).

All else is as in classify_cifar10.

Run:     tfx-transformer train classify_cifar10_swin --data.source cifar10.zip
Time:    not measured yet
Result:  not measured yet
"""

from dataclasses import replace

from tfx_transformer.train.classify_cifar10 import RECIPE as COMPACT
from tfx_transformer.train.recipe import ClassifyModel

RECIPE = replace(COMPACT, model=ClassifyModel("swin", "cifar", drop_path=0.1))
