"""WMT14 English → German, Transformer base, for several GPUs: not measured, paper 27.3.

The settings of arXiv:1706.03762: 100,000 steps of about 25,000 source and 25,000 target tokens. A
batch is split over several devices; on one that is too small for it, `--data.token-budget 3125
--optimizer.accumulate 8` makes the same step.

Run:     tfx-transformer train translate_wmt14_base --strategy mirrored
Time:    not measured; the paper took 12 hours on 8 P100
Result:  not measured; the paper reports 27.3 tokenized BLEU on newstest2014
"""

from tfx_transformer.train.options import DecodingOptions
from tfx_transformer.train.recipe import ModelOptions, OptimizerOptions
from tfx_transformer.train.tasks.translation import TranslationData, TranslationRecipe

RECIPE = TranslationRecipe(
    data=TranslationData(
        train=("tfds:wmt14_translate/de-en@en-de",),
        vocab_size=37_000,
        tokenizer="bpe",
        max_length=256,
        token_budget=25_000,
    ),
    model=ModelOptions.of("transformer", "base"),
    optimizer=OptimizerOptions(
        learning_rate=7e-4,  # 512^-0.5 · 4000^-0.5, the peak of the paper's formula
        schedule="inverse_sqrt",
        warmup_steps=4000,
    ),
    decoding=DecodingOptions(kind="beam", width=4, length_penalty=0.6),
    steps=100_000,
    eval_steps=1500,
    eval_sentences=3000,
    average=5,
)
