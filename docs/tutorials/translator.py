# %% [markdown]
# # A translator with Keras `fit`
#
# From sentence pairs to an exported translator in plain Keras: tokenizer, batches, model,
# `compile`, `fit`, and a pipeline that turns strings into strings. The command `tfx-transformer
# train` does the same and adds checkpoints, evaluation and continuation; here you see the parts.

# %%
import os

import keras

from tfx_transformer.data import PairBatches, load_pairs, train_tokenizer
from tfx_transformer.export import export, load
from tfx_transformer.models import create_model
from tfx_transformer.pipelines import Translator
from tfx_transformer.training.losses import TokenCrossentropy
from tfx_transformer.training.metrics import translation_scores
from tfx_transformer.training.schedules import Cosine
from tfx_transformer.visualization.attention import plot_attention

SMALL = "SMALL" in os.environ  # a test sets it, to run every line in seconds
EPOCHS, STEPS = (1, 2) if SMALL else (5, 160)

# %% [markdown]
# ## Sentence pairs
#
# The embedded pairs are dates, times, amounts and lists in the words of CLDR, the data that
# computers use to write such things in many languages. For your own data write
# `load_pairs(["train.en", "train.ko"])`: two files, line by line.

# %%
train = load_pairs("embedded:cldr/en-ko")
test = load_pairs("embedded:cldr/en-ko", "test")
print(train)
for source, target in list(zip(test.source, test.target, strict=True))[:4]:
    print(f"{source:50} {target}")

# %% [markdown]
# ## Subwords
#
# A model needs a fixed list of tokens. SentencePiece finds frequent parts of words; rare words are
# written in several parts, so that no word is unknown. Both languages share one vocabulary.

# %%
tokenizer = train_tokenizer(train.source + train.target, vocab_size=1500, character_coverage=1.0)
ids = tokenizer.encode_list([test.source[0]])[0]
print(ids)
print([tokenizer.pieces[i] for i in ids])

# %% [markdown]
# ## Batches
#
# Pairs of similar length share a batch, up to a budget of tokens, so that little is padding. A
# batch has the shape that `fit` expects: inputs, targets and weights.

# %%
batches = PairBatches(train, tokenizer, tokenizer, token_budget=1024, max_length=48)
print(batches)
inputs, targets, weights = next(iter(batches.dataset()))
for name, value in (inputs | {"targets": targets, "weights": weights}).items():
    print(f"{name:8} {tuple(value.shape)}  {value[0, :6].numpy()}")

# %% [markdown]
# The decoder's input is the target after a start token (1); the targets are the same, one position
# earlier, with an end token (2). So at each position the model predicts the next token. Padding
# (0) has the weight 0.
#
# ## The model
#
# The Transformer of 2017, with two blocks of encoder and decoder. `create_model` returns a built
# Keras model.

# %%
keras.utils.set_random_seed(0)
model = create_model(
    "transformer",
    vocab_size=tokenizer.vocab_size,
    dim=128,
    depth=2,
    num_heads=4,
    mlp_dim=256,
    dropout=0.1,
)
print(f"{model.count_params():,} parameters")

# %% [markdown]
# ## Training
#
# The learning rate rises to its maximum and falls along a cosine. The loss is cross-entropy with
# label smoothing, over real tokens. XLA is off because it would compile each length of the batches
# anew.

# %%
schedule = Cosine(2e-3, warmup_steps=EPOCHS * STEPS // 5 + 1, total_steps=EPOCHS * STEPS + 1)
model.compile(
    keras.optimizers.Adam(schedule, beta_2=0.98, epsilon=1e-9),
    TokenCrossentropy(label_smoothing=0.1),
    jit_compile=False,
)
history = model.fit(
    batches.stream(), epochs=EPOCHS, steps_per_epoch=STEPS, shuffle=False, verbose=0
)
print("loss", *(f"{loss:.2f}" for loss in history.history["loss"]))

# %% [markdown]
# ## The pipeline
#
# `Translator` joins the model with its tokenizers and a decoder. It takes one string or a list.

# %%
translator = Translator(
    model, tokenizer, tokenizer, decoder={"kind": "beam", "width": 4, "n_best": 2}, max_length=48
)
for source in test.source[:4]:
    print(f"{source:50} {translator(source)}")

# %% [markdown]
# On test phrases, which are not in the training set, with BLEU as sacreBLEU computes it:

# %%
count = 4 if SMALL else 200
answers = translator(test.source[:count])
scores = translation_scores(answers, test.target[:count])
print(f"BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f}, {scores['exact_match']:.0f} % exact")

# %% [markdown]
# ## Alignment
#
# `results` returns more than the text: the other hypotheses, scores, subwords and attention. Here
# the parts of a date change places.

# %%
phrase = "Wednesday, April 9, 2025"
(result,) = translator.results([phrase], explain=True)
plot_attention(
    result.alignment,
    "pictures/translator_alignment.png",
    result.pieces,
    result.source_pieces,
    f"{phrase} → {result.text}",
)
for text, score in result.n_best:
    print(f"{score:6.2f}  {text}")

# %% [markdown]
# ![Attention from each target token to the source](pictures/translator_alignment.png)
#
# ## Export
#
# A SavedModel with tokenizer, model and beam search: strings in, strings out. It runs without this
# package; [Export and serve](serve.md) goes through it.

# %%
export(translator, "exported/translator")
print(load("exported/translator")(phrase))
