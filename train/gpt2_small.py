"""GPT-2 small, 124 million parameters, on a large text such as OpenWebText.

For owners of GPUs or a TPU. Half a million tokens in an update and the rates are nanoGPT's, which
reproduced the published loss. The vocabulary of 50,257 subwords is learned from the text, so losses
compare by bits per character only. The text and its ids are held in memory.

Run:     tfx-transformer train gpt2_small --data.train openwebtext.txt --strategy one
         or, on several devices, the same update without accumulation:
         … --strategy mirrored --optimizer.accumulate 1 --data.batch-size 480
Time:    not measured; nanoGPT needs 4 days on 8 A100
Result:  not measured; nanoGPT's is 2.85 nats a token on OpenWebText, OpenAI's own weights 3.12
"""

from tfx_transformer.train.recipe import Optimizer
from tfx_transformer.train.searching import Decoding
from tfx_transformer.train.text_recipe import LanguageData, LanguageModel, LanguageRecipe

RECIPE = LanguageRecipe(
    data=LanguageData(tokenizer="bpe", vocab_size=50_257, max_length=1024, batch_size=96),
    model=LanguageModel("gpt", "small", dropout=0.0),
    optimizer=Optimizer(
        learning_rate=6e-4,
        schedule="cosine",
        warmup_steps=2000,
        beta_2=0.95,
        epsilon=1e-8,
        weight_decay=0.1,
        clip_norm=1.0,
        accumulate=5,
    ),
    decoding=Decoding("sample", top_k=200, temperature=0.8),
    precision="mixed_bfloat16",
    steps=600_000,
    eval_steps=2000,
)
