# %% [markdown]
# # Attention from scratch
#
# What attention computes, first in NumPy and then with the layers of this package: queries, keys
# and values, masks, heads and positions. Nothing is trained here; it runs in seconds.

# %%
import numpy as np

from tfx_transformer.layers import MultiHeadAttention, SinusoidalPosition, causal_mask, padding_mask
from tfx_transformer.visualization.attention import (
    plot_attention,
    plot_heads,
    plot_mask,
    plot_positions,
    show_attention,
)

rng = np.random.default_rng(0)
np.set_printoptions(precision=2, suppress=True)

# %% [markdown]
# ## A search with soft results
#
# A dictionary returns the value whose key equals the query. Attention returns a mixture of all
# values, and a value counts the more, the better its key fits the query. Here are three words,
# their keys (is it an animal? is it large?) and their values (how many legs).

# %%
words = ["cat", "elephant", "bus"]
keys = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
values = np.array([[4.0], [4.0], [0.0]])
query = np.array([1.0, 0.0])  # an animal that is not large

scores = keys @ query
print("scores ", scores)

# %% [markdown]
# The scores become weights by softmax: they are positive and sum to one.

# %%
weights = np.exp(scores) / np.exp(scores).sum()
print("weights", weights)
print("legs   ", weights @ values)

# %% [markdown]
# "cat" and "elephant" have the same score, because nothing in the query is against large animals.
# A query of `[1, -1]` prefers the cat. Larger numbers make the choice sharper:

# %%
for size in (1, 3, 10):
    scores = keys @ (size * np.array([1.0, -1.0]))
    weights = np.exp(scores) / np.exp(scores).sum()
    print(f"query of length {size:2}:", dict(zip(words, weights.round(3).tolist(), strict=True)))

# %% [markdown]
# ## Why the scores are divided by √K
#
# The product of two random vectors of size K has a standard deviation of √K. With long vectors the
# softmax would therefore start with one weight of nearly 1, where it has almost no gradient.
# Dividing by √K keeps the scores in the same range for any K.

# %%
for size in (4, 64, 1024):
    q, k = rng.normal(size=(2, 10_000, size))
    deviation = (q * k).sum(axis=1).std()
    print(f"K = {size:4}: deviation {deviation:5.1f}, divided by √K {deviation / size**0.5:.2f}")

# %% [markdown]
# ## Self-attention with three matrices
#
# In self-attention each word of a sentence makes its own query, key and value, by three matrices
# that are learned. For a sentence of T words, attention is four lines:

# %%
sentence = ["the", "cat", "saw", "a", "dog"]
length, dim = len(sentence), 8
x = rng.normal(size=(length, dim)).astype("float32")  # (T, D), a vector for each word
w_query, w_key, w_value = rng.normal(size=(3, dim, dim))

q, k, v = x @ w_query, x @ w_key, x @ w_value  # (T, D) each
scores = q @ k.T / dim**0.5  # (T, T)
weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
output = weights @ v  # (T, D)
print(output.shape, "rows of the weights sum to", weights.sum(axis=1))

# %%
plot_attention(
    weights, "pictures/scratch_weights.png", sentence, sentence, "Random attention weights"
)

# %% [markdown]
# ![Attention weights of a random layer, a row for each query](pictures/scratch_weights.png)
#
# The layer `MultiHeadAttention` computes the same, with a projection of the output. We give it our
# matrices, and an identity matrix for the output:

# %%
layer = MultiHeadAttention(dim=dim, num_heads=1)
layer(x[None])  # builds its weights; the first axis is the batch
for weight in layer.weights:
    print(weight.path.split("/", 1)[1], weight.shape)

# %%
zeros = np.zeros(dim)
layer.query.set_weights([w_query, zeros])
layer.key_value.set_weights([np.concatenate([w_key, w_value], axis=1), np.zeros(2 * dim)])
layer.out.set_weights([np.eye(dim), zeros])
y, their_weights = layer(x[None], return_attention_scores=True)
print("largest difference:", np.abs(np.asarray(y)[0] - output).max().round(4))
print("weights (B, H, T, S):", their_weights.shape)

# %% [markdown]
# ## Masks
#
# A mask says where a query may attend. A decoder must not see the words that it has to predict:
# with a *causal* mask, word t attends to words 0 … t only. Masks are boolean, and True means "may
# attend".

# %%
mask = np.asarray(causal_mask(length, length))[0, 0]
plot_mask(mask, "pictures/scratch_mask.png", sentence, sentence, "Causal mask")
_, past = layer(
    x[None],
    attention_mask=causal_mask(length, length),
    return_attention_scores=True,
)
print(show_attention(np.asarray(past)[0, 0], sentence, sentence))

# %% [markdown]
# ![The causal mask: the lower triangle may be attended to](pictures/scratch_mask.png)
#
# Sentences of a batch have different lengths and are padded with the id 0. A *padding* mask hides
# these positions: changing them changes nothing.

# %%
ids = np.array([[5, 6, 7, 0, 0]])
changed = x.copy()
changed[3:] = 100
one = layer(x[None], attention_mask=padding_mask(ids))
two = layer(changed[None], attention_mask=padding_mask(ids))
print("real words are equal:", np.allclose(np.asarray(one)[0, :3], np.asarray(two)[0, :3]))

# %% [markdown]
# ## Heads
#
# One softmax gives one set of weights for each word. Several heads, each with smaller queries,
# keys and values of its own, attend to several things at a time. The number of weights stays the
# same.

# %%
heads = MultiHeadAttention(dim=dim, num_heads=4)
_, weights = heads(x[None], return_attention_scores=True)
plot_heads(np.asarray(weights)[0], "pictures/scratch_heads.png", sentence, sentence, "Four heads")
print("weights (B, H, T, S):", weights.shape)
print("parameters:", layer.count_params(), "with one head,", heads.count_params(), "with four")

# %% [markdown]
# ![Attention weights of four heads](pictures/scratch_heads.png)
#
# ## Attention has no order
#
# If the words change places, their outputs change places with them and stay the same otherwise. So
# "dog bites man" and "man bites dog" look alike to attention:

# %%
order = rng.permutation(length)
one = np.asarray(heads(x[None]))[0]
two = np.asarray(heads(x[None, order]))[0]
print("permuted input, permuted output:", np.allclose(one[order], two, atol=1e-5))

# %% [markdown]
# ## Positions
#
# So the position is added to each word before the first layer. The Transformer of 2017 adds sine
# waves: fast ones in the first dimensions, slow ones in the last. Together they identify a
# position, as the hands of a clock identify the time.

# %%
position = SinusoidalPosition()
encoding = np.asarray(position(np.zeros((1, 64, 64), "float32")))[0]  # (T, D)
plot_positions(encoding, "pictures/scratch_positions.png", "Sinusoidal positions")
print(encoding[:3, :6])

# %% [markdown]
# ![Sinusoidal positions as a heat map, and as curves](pictures/scratch_positions.png)
#
# The product of two encodings depends on their distance alone, and is largest where the distance
# is 0. This lets attention find "the word before".

# %%
products = encoding @ encoding.T
for distance in (0, 1, 5, 20):
    diagonal = np.diagonal(products, distance)
    print(f"distance {distance:2}: product {diagonal.mean():5.1f} ± {diagonal.std():.3f}")

# %% [markdown]
# With positions, the order of the words matters:

# %%
one = np.asarray(heads(position(x[None])))[0]
two = np.asarray(heads(position(x[None, order])))[0]
print("permuted input, permuted output:", np.allclose(one[order], two, atol=1e-5))

# %% [markdown]
# Attention, positions, a feed-forward layer and residual connections make a `TransformerBlock`.
# The next tutorials train models of such blocks: [a translator](translator.md), [a Vision
# Transformer](vision.md). Other kinds of attention and position: [Layers](../guides/layers.md).
