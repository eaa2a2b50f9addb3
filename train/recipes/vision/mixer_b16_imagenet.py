"""ImageNet, Mixer-B/16 (60 M parameters), for several GPUs: not measured, paper 76.4 %.

The settings of arXiv:2105.01601, appendix B: 300 epochs, batches of 4,096, RandAugment, mixup and
stochastic depth. The paper uses linear decay and a sigmoid per class; this a cosine and softmax.

Run:     tfx-transformer train mixer_b16_imagenet --strategy mirrored
Time:    not measured
Result:  not measured; the paper reports 76.4 %
"""

from dataclasses import replace

from tfx_transformer.data.images.options import Augmentation
from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.recipes.vision.vit_s16_imagenet import RECIPE as VIT

RECIPE = replace(
    VIT,
    data=replace(VIT.data, batch_size=4096),
    augment=Augmentation(crop="resized", flip=True, rand_augment=2, magnitude=10.0, mixup=0.5),
    model=ModelOptions.of("mlp_mixer", "b16", drop_path=0.1),
    steps=93_600,
    eval_steps=312,
)
