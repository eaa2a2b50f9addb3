"""BERT-base, 110 million parameters, with the settings of arXiv:1810.04805, appendix A.2.

For owners of GPUs or a TPU: 131,072 tokens in an update, a million updates. Unlike there, no next
sentence is told (arXiv:1907.11692 found no use in it), rows are as long as the lines of the file,
up to 512 tokens, the rate falls by a cosine, and the vocabulary is learned from the text.

Run:     tfx-transformer train bert_base --data.train books_and_wikipedia.txt --strategy mirrored
Time:    not measured; the paper's is 4 days on 16 TPU chips
Result:  not measured
"""

from tfx_transformer.train.recipe import Optimizer
from tfx_transformer.train.text_recipe import EncoderModel, MaskData, MaskRecipe

RECIPE = MaskRecipe(
    data=MaskData(vocab_size=30_521, max_length=512, token_budget=131_072),
    model=EncoderModel("bert", "base"),
    optimizer=Optimizer(
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
