"""One block learns to copy, and its attention shows how.

The model reads ten letters and a bar and must repeat the letters, each from the past alone. A
causal block with sinusoidal positions solves it by looking ten steps back: a diagonal line.

Run:     make demo
Time:    under a minute on 2 cores
Result:  all letters right; the picture is runs/demo/attention.png
"""

from pathlib import Path

import keras
import numpy as np
from keras import ops

from tfx_transformer.layers import (
    SinusoidalPosition,
    TokenEmbedding,
    TransformerBlock,
    causal_mask,
)
from tfx_transformer.plots import plot_attention, show_attention

LETTERS = "abcdefghijklmnop"
BAR = len(LETTERS)  # the token between the letters and their copy
COUNT = 10  # letters to copy
LENGTH = 2 * COUNT  # what the model reads: the last letter is only predicted


def draw_batch(rng, batch_size):
    """Tokens (B, T), the next tokens (B, T), and weights (B, T) that count the copy alone."""
    letters = rng.integers(len(LETTERS), size=(batch_size, COUNT))
    bar = np.full((batch_size, 1), BAR)
    tokens = np.concatenate([letters, bar, letters], axis=1)
    counted = np.arange(LENGTH) >= COUNT
    return tokens[:, :-1], tokens[:, 1:], np.tile(counted, (batch_size, 1)).astype("float32")


def build_models(dim=64):
    """Tokens (B, T) → logits (B, T, V); and, with the same weights, → attention (B, H, T, T)."""
    tokens = keras.Input((LENGTH,), dtype="int32")
    x = TokenEmbedding(vocab_size=BAR + 1, dim=dim, pad_id=None)(tokens)
    x = SinusoidalPosition()(x)
    block = TransformerBlock(dim=dim, num_heads=1, mlp_dim=2 * dim)
    x, weights, _ = block(x, attention_mask=causal_mask(LENGTH, LENGTH))
    logits = keras.layers.Dense(BAR + 1)(x)
    return keras.Model(tokens, logits), keras.Model(tokens, weights["self"])


def run(folder: str = "runs/demo", steps: int = 600, seed: int = 0) -> float:
    """Trains one block to copy letters and draws where it looks.

    Args:
        folder: where the picture goes.
        steps: batches of 64 to train on.
        seed: of the weights and the data.

    Returns:
        The share of letters copied right, on sequences never seen.
    """
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    model, attention = build_models()
    model.compile(
        keras.optimizers.Adam(3e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
    )
    tokens, targets, weights = draw_batch(rng, 64 * steps)
    model.fit(tokens, targets, sample_weight=weights, batch_size=64)

    tokens, targets, weights = draw_batch(rng, 512)
    accuracy = model.evaluate(tokens, targets, sample_weight=weights, verbose=0)[1]
    names = [*LETTERS, "|"]
    read, said = ([names[i] for i in row] for row in (tokens[0], targets[0]))
    where = ops.convert_to_numpy(attention(tokens[:1]))[0, 0]
    print(f"copied right: {accuracy:.1%} of the letters in 512 new sequences")
    print("where each step looked (rows: the letter said; columns: the letters read)")
    print(show_attention(where[COUNT:], said[COUNT:], read))
    path = plot_attention(where, Path(folder) / "attention.png", read, read, "one block, copying")
    print(f"picture: {path}")
    return accuracy
