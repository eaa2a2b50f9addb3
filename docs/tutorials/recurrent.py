# %% [markdown]
# # From LSTM to Transformer, with alignments
#
# Three translators of the years 2014, 2015 and 2017 learn the same small task: to read a date as
# people write it, "Monday, 5 March 2001", and to write it as 2001-03-05. They share data, loss,
# training and decoding; only the model differs. Attention shows where each of them reads.

# %%
import datetime
import os
import random

import keras
import numpy as np

from tfx_transformer.data import PairBatches, language_tokenizer, load_pairs
from tfx_transformer.models import create_model
from tfx_transformer.pipelines import Translator
from tfx_transformer.training.losses import TokenCrossentropy
from tfx_transformer.visualization.attention import plot_attention

SMALL = "SMALL" in os.environ  # a test sets it, to run every line in seconds
EPOCHS, STEPS = (1, 1) if SMALL else (5, 200)

# %% [markdown]
# ## The task
#
# Day, month and year change places, and the name of the month has to become a number. Dates of the
# test are never seen in training.

# %%
FORMATS = ["%A, %d %B %Y", "%B %d, %Y", "%d %b %Y", "the %d of %B in the year %Y"]


def make_date(day: int) -> tuple[str, str]:
    date = datetime.date(1900, 1, 1) + datetime.timedelta(days=day)
    return date.strftime(random.choice(FORMATS)), date.isoformat()


random.seed(0)
days = random.sample(range(73_000), 10_400)  # of two centuries
train = load_pairs([make_date(day) for day in days[:10_000]])
test = load_pairs([make_date(day) for day in days[10_000:]])
for source, target in list(zip(test.source, test.target, strict=True))[:4]:
    print(f"{source:40} {target}")

# %% [markdown]
# ## Characters as tokens
#
# Each character is a token, so that we can see later which character is read for which digit.

# %%
tokenizer = language_tokenizer("\n".join(train.source + train.target))
batches = PairBatches(train, tokenizer, tokenizer, token_budget=3072, max_length=48)
inputs, targets, weights = next(iter(batches.dataset()))
print("vocabulary", tokenizer.vocab_size, "batch", inputs["source"].shape, targets.shape)
print(batches)

# %% [markdown]
# ## Training
#
# Every model predicts the next token from the source and the correct tokens before it. One
# function trains any of them.


# %%
def fit(model):
    optimizer = keras.optimizers.Adam(2e-3, global_clipnorm=1.0)
    model.compile(optimizer, TokenCrossentropy(), jit_compile=False)  # XLA would compile each shape
    history = model.fit(
        batches.stream(), epochs=EPOCHS, steps_per_epoch=STEPS, shuffle=False, verbose=0
    )
    translator = Translator(model, tokenizer, tokenizer, decoder="greedy", max_length=48)
    answers = translator(test.source[: 4 if SMALL else None])
    right = np.mean([a == b for a, b in zip(answers, test.target, strict=False)])
    losses = ", ".join(f"{loss:.3f}" for loss in history.history["loss"])
    print(
        f"{model.count_params():,} parameters; loss {losses}; {right:.0%} of the test dates right"
    )
    return translator


# %% [markdown]
# ## 2014: one vector for the whole source
#
# An LSTM reads the source; its last state is all that the decoder knows about it.

# %%
sizes = {"vocab_size": tokenizer.vocab_size, "dropout": 0.0}
recurrent = sizes | {"dim": 128, "depth": 1, "embedding_dim": 64}
keras.utils.set_random_seed(0)
lstm = fit(create_model("rnn_seq2seq", **recurrent))

# %% [markdown]
# ## 2015: attention to all states
#
# Now the decoder keeps every state of the encoder and weights them anew for each token. The query
# is the decoder's state. This is the attention of Bahdanau, Cho and Bengio.

# %%
keras.utils.set_random_seed(0)
additive = fit(
    create_model(
        "rnn_seq2seq", **recurrent, attention="additive", bidirectional=True, readout="combined"
    )
)

# %% [markdown]
# The attention weights are an alignment of target and source that is learned without supervision.
# A row is a token of the answer, a column a character of the source.

# %%
date = "Monday, 05 March 2001"


def plot(translator, name, title):
    (result,) = translator.results([date], explain=True)
    pieces = [piece.replace("</s>", "end") for piece in result.pieces]
    source = [piece.replace("</s>", "end") for piece in result.source_pieces]
    plot_attention(result.alignment, f"pictures/{name}.png", pieces, source, title)
    print(date, "→", result.text)


plot(additive, "dates_additive", "LSTM with additive attention")

# %% [markdown]
# ![Alignment of the LSTM with attention](pictures/dates_additive.png)
#
# The year is read first, although it stands last in the source, and digit by digit. For month and
# day the model attends to the end of the source: the recurrent state there has read everything, and
# carries these few facts. Attention is only one of two paths in this model.
#
# ## 2017: attention alone
#
# The Transformer has no recurrent state. Its positions are computed at the same time, and
# attention is the only way from one to another.

# %%
keras.utils.set_random_seed(0)
transformer = fit(create_model("transformer", **sizes, dim=64, depth=2, num_heads=4, mlp_dim=128))
plot(transformer, "dates_transformer", "Transformer, mean of heads and blocks")

# %% [markdown]
# ![Alignment of the Transformer](pictures/dates_transformer.png)
#
# Here attention is the only path, and it finds all three parts: the year at the end, the month by
# its name, the day before it. It is less sharp because it is the mean of eight heads, which divide
# the work.
#
# ## An export is the same for all three
#
# The models have the same interface, so that everything after training is the same too: decoding,
# evaluation, plots and export. [Export and serve](serve.md) shows it.
#
# The same comparison on real sentences, with BLEU by length: [The road to
# attention](../road_to_attention.md).
