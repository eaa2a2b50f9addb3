"""Multi30k, dilated convolutions without attention (ByteNet): not measured.

The model of arXiv:1610.10099, small, with the data and steps of translate_multi30k.

Run:     tfx-transformer train translate_multi30k_bytenet --data.train train.en.gz train.de.gz
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
    model=ModelOptions.of("bytenet", "small"),
    optimizer=replace(TRANSFORMER.optimizer, learning_rate=1e-3),
)
