"""Any text, masked language modeling, BERT-base (110 M parameters): not measured.

The settings of arXiv:1810.04805, appendix A.2: a million steps of 131,072 tokens. Differences: no
next-sentence prediction (as in arXiv:1907.11692), one line of the file per row, up to 512 tokens,
cosine decay, and a vocabulary learned from the text.

Run:     tfx-transformer train bert_base --data.train books_and_wikipedia.txt --strategy mirrored
Time:    not measured; the paper reports 4 days on 16 TPU chips
Result:  not measured
"""

from dataclasses import replace

from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.recipes.text.bert_text import RECIPE as TINY

RECIPE = replace(
    TINY,
    data=replace(TINY.data, vocab_size=30_521, max_length=512, token_budget=131_072),
    model=ModelOptions.of("bert", "base"),
    optimizer=replace(TINY.optimizer, learning_rate=1e-4, warmup_steps=10_000),
    precision="mixed_bfloat16",
    steps=1_000_000,
    eval_steps=10_000,
)
