"""Any text, masked language modeling, BERT-base (110 M parameters): not measured.

The settings of arXiv:1810.04805, appendix A.2: a million steps of 131,072 tokens. Differences: no
next-sentence prediction (as in arXiv:1907.11692), one line of the file per row, up to 512 tokens,
cosine decay, and a vocabulary learned from the text.

Run:     tfx-transformer train bert_base --data.train books_and_wikipedia.txt --strategy mirrored
Time:    not measured; the paper reports 4 days on 16 TPU chips
Result:  not measured
"""

from tfx_transformer.train.recipe import ModelOptions, OptimizerOptions
from tfx_transformer.train.tasks.masked_language_model import (
    MaskedLanguageModelData,
    MaskedLanguageModelRecipe,
)

RECIPE = MaskedLanguageModelRecipe(
    data=MaskedLanguageModelData(vocab_size=30_521, max_length=512, token_budget=131_072),
    model=ModelOptions.of("bert", "base"),
    optimizer=OptimizerOptions(
        learning_rate=1e-4,
        schedule="cosine",
        warmup_steps=10_000,
        beta_2=0.999,
        epsilon=1e-6,
        weight_decay=0.01,
        clip_norm=1.0,
    ),
    precision="mixed_bfloat16",
    steps=1_000_000,
    eval_steps=10_000,
)
