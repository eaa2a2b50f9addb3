"""Multi30k, LSTMs without attention, 13 to 17 min on one core: 15.2 BLEU.

The decoder gets one vector (arXiv:1409.3215): the baseline of docs/road_to_attention.md. The other
LSTM recipes change one or two of its options.

Run:     tfx-transformer train translate_multi30k_lstm --data.train train.en.gz train.de.gz
         --data.validation val.en.gz val.de.gz --data.test test_2016_flickr.en.gz
         test_2016_flickr.de.gz
Time:    13 to 17 minutes on one core
Result:  15.2 sacreBLEU, chrF 37.7 on test_2016_flickr; 15.2 with --seed 1
"""

from dataclasses import replace

from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.recipes.translation.translate_multi30k import RECIPE as TRANSFORMER

RECIPE = replace(
    TRANSFORMER,
    data=replace(TRANSFORMER.data, token_budget=1024),
    model=ModelOptions.of("rnn_seq2seq", "small", depth=1, dropout=0.1),  # for five epochs
    optimizer=replace(TRANSFORMER.optimizer, learning_rate=4e-3, warmup_steps=200),
    steps=3000,
    average=3,
)
