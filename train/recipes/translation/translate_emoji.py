"""Embedded emoji names, English → Korean, small Transformer, 5 min on 2 cores: 28 BLEU.

Run:     tfx-transformer train translate_emoji
Time:    5 minutes on 2 cores
Result:  28.0 BLEU, chrF 41.2 on phrases whose main word is not in the training set
"""

from tfx_transformer.train.recipe import ModelOptions, OptimizerOptions
from tfx_transformer.train.tasks.translation import TranslationData, TranslationRecipe

RECIPE = TranslationRecipe(
    data=TranslationData(
        train=("embedded:emoji/en-ko",), vocab_size=2000, max_length=32, token_budget=1024
    ),
    model=ModelOptions.of("transformer", dim=128, depth=2, num_heads=4, mlp_dim=256, dropout=0.2),
    optimizer=OptimizerOptions(learning_rate=2e-3, schedule="inverse_sqrt", warmup_steps=200),
    steps=1600,
    eval_steps=200,
    eval_sentences=300,
    average=4,
)
