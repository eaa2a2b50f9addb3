"""CIFAR-10, convolutions with global attention between them: not measured.

As classify_cifar10, but with the model of arXiv:1711.07971.

Run:     tfx-transformer train classify_cifar10_hybrid --data.source cifar10.zip
Time:    not measured
Result:  not measured
"""

from dataclasses import replace

from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.recipes.vision.classify_cifar10 import RECIPE as COMPACT

RECIPE = replace(COMPACT, model=ModelOptions.of("attention_cnn", "hybrid"))
