"""Any text, masked language modeling, BERT-tiny (5 M parameters): not measured.

One sentence per line. The trained model is a start for `classify_text`. Without `--data.validation`
and `--data.test`, the last tenth of the file is split into a validation and a test set.

Run:     tfx-transformer train bert_text --data.train sentences.txt
         tfx-transformer train classify_text --weights runs/bert_text --data.train labeled.tsv
Time:    not measured
Result:  not measured
"""

from dataclasses import replace

from tfx_transformer.train.recipe import ADAMW, ModelOptions
from tfx_transformer.train.tasks.masked_language_model import (
    MaskedLanguageModelData,
    MaskedLanguageModelRecipe,
)

RECIPE = MaskedLanguageModelRecipe(
    data=MaskedLanguageModelData(vocab_size=8000, max_length=64, token_budget=4096),
    model=ModelOptions.of("bert", "tiny"),
    optimizer=replace(ADAMW, warmup_steps=500, epsilon=1e-6, weight_decay=0.01, clip_norm=1.0),
    steps=5000,
    eval_steps=500,
)
