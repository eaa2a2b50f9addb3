"""Any text, a sentence in each line, with a small BERT that learns to fill in blanks.

What it learns is a start for `classify_text`. The last twentieth of the file is the test set, and
the one before it the validation set, where no other files are named.

Run:     tfx-transformer train bert_text --data.train sentences.txt
         tfx-transformer train classify_text --weights runs/bert_text --data.train labelled.tsv
Time:    not measured yet
Result:  not measured yet
"""

from tfx_transformer.train.recipe import Optimizer
from tfx_transformer.train.text_recipe import EncoderModel, MaskData, MaskRecipe

RECIPE = MaskRecipe(
    data=MaskData(vocab_size=8000, max_length=64, token_budget=4096),
    model=EncoderModel("bert", "bert_tiny"),
    optimizer=Optimizer(
        learning_rate=1e-3,
        schedule="cosine",
        warmup_steps=500,
        beta_2=0.999,
        epsilon=1e-6,
        weight_decay=0.01,
        clip_norm=1.0,
    ),
    steps=5000,
    eval_steps=500,
)
