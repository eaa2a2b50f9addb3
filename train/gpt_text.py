"""Any text, character by character, with a small GPT: it learns to go on in the same manner.

Subwords instead of characters: `--data.tokenizer unigram --data.vocab-size 4000`. The last
twentieth of the file is the test set, and the one before it the validation set, where
`--data.validation` and `--data.test` name no others.

Run:     tfx-transformer train gpt_text --data.train tale.txt
         tfx-transformer generate runs/gpt_text "Once upon a time"
Time:    not measured yet
Result:  not measured yet; nanoGPT reports 1.88 nats a character on Shakespeare with a model of this
         size and half of the context
"""

from tfx_transformer.train.recipe import Optimizer
from tfx_transformer.train.searching import Decoding
from tfx_transformer.train.text_recipe import LanguageData, LanguageModel, LanguageRecipe

RECIPE = LanguageRecipe(
    data=LanguageData(tokenizer="char", max_length=128, batch_size=32),
    model=LanguageModel("gpt", "tiny", dim=128, depth=4, num_heads=4, mlp_dim=512, dropout=0.1),
    optimizer=Optimizer(
        learning_rate=1e-3,
        schedule="cosine",
        warmup_steps=100,
        beta_2=0.99,
        epsilon=1e-8,
        weight_decay=0.1,
        clip_norm=1.0,
    ),
    decoding=Decoding("sample", temperature=0.8),
    steps=3000,
    eval_steps=500,
)
