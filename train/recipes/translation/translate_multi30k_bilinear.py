"""Multi30k, LSTMs with bilinear attention, 13 to 17 min on one core: 32.4 BLEU.

The attention of arXiv:1508.04025, a matrix between both states.

Run:     tfx-transformer train translate_multi30k_bilinear --data.train train.en.gz train.de.gz
         --data.validation val.en.gz val.de.gz --data.test test_2016_flickr.en.gz
         test_2016_flickr.de.gz
Time:    13 to 17 minutes on one core
Result:  32.4 sacreBLEU, chrF 57.8 on test_2016_flickr
"""

from dataclasses import replace

from tfx_transformer.train.recipes.translation.translate_multi30k_lstm import RECIPE as LSTM

RECIPE = replace(LSTM, model=LSTM.model.replace(attention="bilinear", readout="combined"))
