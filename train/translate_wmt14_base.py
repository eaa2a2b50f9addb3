"""English → German news, WMT 2014, with the base model and settings of arXiv:1706.03762.

For owners of GPUs or a TPU: 100,000 updates of about 25,000 source and 25,000 target tokens. On
several devices a batch is spread over all of them; on one that is too small for it,
`--data.token-budget 3125 --optimizer.accumulate 8` is the same update.

Run:     tfx-transformer train translate_wmt14_base --strategy mirrored
Time:    not measured; the paper's took 12 hours on 8 P100
Result:  not measured; the paper's is 27.3 tokenised BLEU on newstest2014
"""

from tfx_transformer.train.recipe import (
    Decoding,
    Optimizer,
    TranslateData,
    TranslateModel,
    TranslateRecipe,
)

RECIPE = TranslateRecipe(
    data=TranslateData(
        train=("tfds:wmt14_translate/de-en@en-de",),
        vocab_size=37_000,
        tokenizer="bpe",
        max_length=256,
        token_budget=25_000,
    ),
    model=TranslateModel("transformer", "base"),
    optimizer=Optimizer(
        learning_rate=7e-4,  # 512^-0.5 · 4000^-0.5, the peak of the paper's formula
        schedule="inverse_sqrt",
        warmup_steps=4000,
    ),
    decoding=Decoding("beam", width=4, length_penalty=0.6),
    steps=100_000,
    eval_steps=1500,
    eval_sentences=3000,
    average=5,
)
