"""CIFAR-10 with convolutions and attention between them (arXiv:1711.07971).

All else is as in classify_cifar10.

Run:     tfx-transformer train classify_cifar10_hybrid --data.source cifar10.zip
Time:    not measured yet
Result:  not measured yet
"""

from dataclasses import replace

from tfx_transformer.train.classify_cifar10 import RECIPE as COMPACT
from tfx_transformer.train.recipe import ClassifyModel

RECIPE = replace(COMPACT, model=ClassifyModel("attention_cnn", "hybrid"))
