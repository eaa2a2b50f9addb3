"""Portuguese → English TED talks from TFDS: the data of TensorFlow's own tutorial, 52,000 pairs.

Run:     tfx-transformer train translate_pt_en
Time:    not measured: the data must be downloaded
Result:  not measured
"""

from tfx_transformer.train.recipe import Optimizer, TranslateData, TranslateModel, TranslateRecipe

RECIPE = TranslateRecipe(
    data=TranslateData(
        train=("tfds:ted_hrlr_translate/pt_to_en",), vocab_size=8000, max_length=128
    ),
    model=TranslateModel("transformer", "small", dropout=0.3),
    optimizer=Optimizer(learning_rate=1e-3, schedule="inverse_sqrt", warmup_steps=4000),
    steps=20_000,
    eval_steps=1000,
    average=5,
)
