"""A large text, GPT-2 small (124 M parameters), for several GPUs: not measured.

Half a million tokens per step and the learning rates of nanoGPT, which reproduced the published
loss. The vocabulary of 50,257 subwords is learned from the text, so compare losses only by bits per
character. The text and its token ids are held in memory.

Run:     tfx-transformer train gpt2_small --data.train openwebtext.txt --strategy one
         or, on several devices, the same step without accumulation:
         … --strategy mirrored --optimizer.accumulate 1 --data.batch-size 480
Time:    not measured; nanoGPT takes 4 days on 8 A100
Result:  not measured; nanoGPT reports 2.85 nats/token on OpenWebText, and 3.12 for OpenAI's
         weights
"""

from dataclasses import replace

from tfx_transformer.train.options import DecodingOptions
from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.recipes.text.gpt_text import RECIPE as TINY
from tfx_transformer.train.tasks.language_model import LanguageModelData

RECIPE = replace(
    TINY,
    data=LanguageModelData(tokenizer="bpe", vocab_size=50_257, max_length=1024, batch_size=96),
    model=ModelOptions.of("gpt", "small", dropout=0.0),
    optimizer=replace(
        TINY.optimizer, learning_rate=6e-4, warmup_steps=2000, beta_2=0.95, accumulate=5
    ),
    decoding=DecodingOptions(kind="sample", top_k=200, temperature=0.8),
    precision="mixed_bfloat16",
    steps=600_000,
    eval_steps=2000,
)
