"""Any text by characters, small GPT (0.8 M parameters): not measured.

Subwords instead of characters: `--data.tokenizer unigram --data.vocab-size 4000`. Without
`--data.validation` and `--data.test`, the last tenth of the file is split into both.

Run:     tfx-transformer train gpt_text --data.train tale.txt
         tfx-transformer generate runs/gpt_text "Once upon a time"
Time:    not measured
Result:  not measured; nanoGPT reports 1.88 nats/character on Shakespeare with a model of this
         size and half the context length
"""

from dataclasses import replace

from tfx_transformer.train.options import DecodingOptions
from tfx_transformer.train.recipe import ADAMW, ModelOptions
from tfx_transformer.train.tasks.language_model import LanguageModelData, LanguageModelRecipe

RECIPE = LanguageModelRecipe(
    data=LanguageModelData(tokenizer="char", max_length=128, batch_size=32),
    model=ModelOptions.of("gpt", dim=128, depth=4, num_heads=4, mlp_dim=512, dropout=0.1),
    optimizer=replace(ADAMW, warmup_steps=100, beta_2=0.99, weight_decay=0.1, clip_norm=1.0),
    decoding=DecodingOptions(kind="sample", temperature=0.8),
    steps=3000,
    eval_steps=500,
)
