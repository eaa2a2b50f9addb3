"""TED talks from TFDS, Portuguese → English, Transformer of dim 256: not measured.

52,000 pairs, the data of TensorFlow's tutorial.

Run:     tfx-transformer train translate_pt_en
Time:    not measured: the data must be downloaded
Result:  not measured
"""

from tfx_transformer.train.recipe import ModelOptions, OptimizerOptions
from tfx_transformer.train.tasks.translation import TranslationData, TranslationRecipe

RECIPE = TranslationRecipe(
    data=TranslationData(
        train=("tfds:ted_hrlr_translate/pt_to_en",), vocab_size=8000, max_length=128
    ),
    model=ModelOptions.of("transformer", "small", dropout=0.3),
    optimizer=OptimizerOptions(learning_rate=1e-3, schedule="inverse_sqrt", warmup_steps=4000),
    steps=20_000,
    eval_steps=1000,
    average=5,
)
