"""English → Korean names of emoji, embedded in a package: the demo.

Run:     tfx-transformer train translate_emoji
Time:    5 minutes on 2 cores
Result:  28.0 BLEU, chrF 41.2 on phrases whose main word is new
"""

from tfx_transformer.train.recipe import Optimizer, TranslateData, TranslateModel, TranslateRecipe

RECIPE = TranslateRecipe(
    data=TranslateData(
        train=("embedded:emoji/en-ko",), vocab_size=2000, max_length=32, token_budget=1024
    ),
    model=TranslateModel(
        "transformer", "tiny", dim=128, depth=2, num_heads=4, mlp_dim=256, dropout=0.2
    ),
    optimizer=Optimizer(learning_rate=2e-3, schedule="inverse_sqrt", warmup_steps=200),
    steps=1600,
    eval_steps=200,
    eval_sentences=300,
    average=4,
)
