"""CIFAR-10 with an MLP-Mixer: no attention at all (arXiv:2105.01601).

All else is as in classify_cifar10.

Run:     tfx-transformer train classify_cifar10_mixer --data.source cifar10.zip
Time:    not measured yet
Result:  not measured yet
"""

from dataclasses import replace

from tfx_transformer.train.classify_cifar10 import RECIPE as COMPACT
from tfx_transformer.train.recipe import ClassifyModel

RECIPE = replace(COMPACT, model=ClassifyModel("mlp_mixer", "cifar", drop_path=0.1))
