"""CIFAR-10, MLP-Mixer, no attention: not measured.

As classify_cifar10, but with the model of arXiv:2105.01601.

Run:     tfx-transformer train classify_cifar10_mixer --data.source cifar10.zip
Time:    not measured
Result:  not measured
"""

from dataclasses import replace

from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.recipes.vision.classify_cifar10 import RECIPE as COMPACT

RECIPE = replace(COMPACT, model=ModelOptions.of("mlp_mixer", "cifar", drop_path=0.1))
