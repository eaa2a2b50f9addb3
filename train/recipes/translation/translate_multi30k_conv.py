"""Multi30k, convolutions with multi-step attention (ConvS2S): not measured.

The model of arXiv:1705.03122, small, with the data and steps of translate_multi30k.

Run:     tfx-transformer train translate_multi30k_conv --data.train train.en.gz train.de.gz
         --data.validation val.en.gz val.de.gz --data.test test_2016_flickr.en.gz
         test_2016_flickr.de.gz
Time:    not measured
Result:  not measured
"""

from dataclasses import replace

from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.recipes.translation.translate_multi30k import RECIPE as TRANSFORMER

RECIPE = replace(
    TRANSFORMER,
    model=ModelOptions.of("conv_seq2seq", "small", dim=192, embedding_dim=128, tie="all"),
    optimizer=replace(TRANSFORMER.optimizer, learning_rate=1e-3),
)
