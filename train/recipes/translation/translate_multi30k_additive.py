"""Multi30k, LSTMs with additive attention, 13 to 17 min on one core: 34.2 BLEU.

The attention of arXiv:1409.0473.

Run:     tfx-transformer train translate_multi30k_additive --data.train train.en.gz train.de.gz
         --data.validation val.en.gz val.de.gz --data.test test_2016_flickr.en.gz
         test_2016_flickr.de.gz
Time:    13 to 17 minutes on one core
Result:  34.2 sacreBLEU, chrF 59.3 on test_2016_flickr
"""

from dataclasses import replace

from tfx_transformer.train.recipes.translation.translate_multi30k_lstm import RECIPE as LSTM

RECIPE = replace(LSTM, model=LSTM.model.replace(attention="additive", readout="combined"))
