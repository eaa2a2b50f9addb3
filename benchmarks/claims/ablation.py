"""Parts of the Transformer, one changed at a time: sequences are reversed, also longer ones.

    python benchmarks/claims/ablation.py [--steps 600] [--seeds 3] [--only position]

Sequences of 4 to 10 of 20 symbols are written backwards by models of dim 32 with 2 + 2 blocks.
The score is the percentage of right symbols, given the right ones before, in new sequences of the
lengths of the training, and in those of 11 to 16. Mean and range over the seeds.
"""

import argparse

import numpy as np

from tfx_transformer.runtime import import_tensorflow

import_tensorflow()

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import ops  # noqa: E402

from tfx_transformer.layers import SinusoidalPosition  # noqa: E402
from tfx_transformer.layers import block as blocks  # noqa: E402
from tfx_transformer.layers.attention import multi_head  # noqa: E402
from tfx_transformer.models import new_model  # noqa: E402
from tfx_transformer.training.losses import TokenCrossentropy  # noqa: E402
from tfx_transformer.training.optimizer import FusedAdam  # noqa: E402

START, END, FIRST, SYMBOLS = 1, 2, 4, 20
SIZES = {"vocab_size": FIRST + SYMBOLS, "dim": 32, "depth": 2, "num_heads": 4, "mlp_dim": 64}
SIZES |= {"dropout": 0.0}
SHORT, LONG = (4, 10), (11, 16)


class Concatenated(keras.layers.Layer):
    """[embedding; sinusoids], projected to the width of the embedding, instead of their sum."""

    def build(self, shape):
        self.position = SinusoidalPosition(combine="concat")
        self.position.build(shape)
        self.dense = keras.layers.Dense(shape[-1])
        self.dense.build((None, None, 2 * shape[-1]))

    def call(self, x, start=0):
        return self.dense(self.position(x, start=start))


def change_positions(model, make):
    model.source_position, model.target_position = make(), make()


def without_residuals(self, norm, x, y, scale, token_mask=None, training=None):
    return norm(y, token_mask=token_mask, training=training)


def unscaled_scores(q, k):
    return ops.matmul(q, ops.swapaxes(k, -1, -2))


# name: options of the model, a change of the unbuilt model, replaced functions
ROWS = {
    "position": {
        "sinusoidal, sines and cosines alternate": ({}, None, ()),
        "sinusoidal, in halves": (
            {"position": {"kind": "sinusoidal", "layout": "halves"}},
            None,
            (),
        ),
        "sinusoidal, concatenated": ({}, lambda m: change_positions(m, Concatenated), ()),
        "learned": ({"position": "learned"}, None, ()),
        "rotary": ({"position": "rotary"}, None, ()),
        "index": ({"position": "index"}, None, ()),
        "none": ({}, lambda m: change_positions(m, lambda: None), ()),
    },
    "part": {
        "as in the paper": ({}, None, ()),
        "norm first": ({"norm_first": True}, None, ()),
        "batch norm": ({"norm": "batch"}, None, ()),
        "1 head": ({"num_heads": 1}, None, ()),
        "2 heads": ({"num_heads": 2}, None, ()),
        "8 heads": ({"num_heads": 8}, None, ()),
        "without 1/√K": (
            {},
            None,
            ((multi_head, "scaled_dot_product_scores", unscaled_scores),),
        ),
        "without residuals": (
            {},
            None,
            ((blocks.ResidualBlock, "after", without_residuals),),
        ),
        "layer-wise memory": ({"memory": "layerwise"}, None, ()),
    },
}


def batch(rng, rows, lengths):
    """A sequence and END; its reverse after START, with weights."""
    shortest, longest = lengths
    source = np.zeros((rows, longest + 1), "int32")
    target, targets = np.zeros_like(source), np.zeros_like(source)
    for i, length in enumerate(rng.integers(shortest, longest + 1, rows)):
        symbols = rng.integers(FIRST, FIRST + SYMBOLS, length)
        source[i, : length + 1] = [*symbols, END]
        target[i, : length + 1] = [START, *symbols[::-1]]
        targets[i, : length + 1] = [*symbols[::-1], END]
    return {"source": source, "target": target}, targets, (targets > 0).astype("float32")


def measure(row, steps, seed):
    """Accuracy in percent on short and on long sequences."""
    options, change, replaced = row
    kept = [getattr(owner, name) for owner, name, _ in replaced]
    for owner, name, function in replaced:
        setattr(owner, name, function)
    try:
        keras.utils.set_random_seed(seed)
        model = new_model("transformer", **SIZES | options)
        if change:
            change(model)
        model.build(model.input_shapes())
        model.compile(FusedAdam(2e-3, global_clipnorm=1.0), TokenCrossentropy())
        rng = np.random.default_rng(seed)
        batches = [batch(rng, 64, SHORT) for _ in range(steps)]
        spec = keras.tree.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), batches[0])
        data = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=spec)
        model.fit(data, verbose=0)
        scores = []
        for lengths in (SHORT, LONG):
            inputs, targets, weights = batch(rng, 500, lengths)
            found = np.argmax(model.predict(inputs, batch_size=500, verbose=0), axis=-1)
            scores.append(100 * float((found == targets)[weights > 0].mean()))
        return scores
    finally:
        for (owner, name, _), function in zip(replaced, kept, strict=True):
            setattr(owner, name, function)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=ROWS)
    arguments = parser.parse_args()
    for what, rows in ROWS.items():
        if arguments.only not in (None, what):
            continue
        print(f"| {what} | 4 to 10 symbols | 11 to 16 symbols |\n|---|---:|---:|", flush=True)
        for name, row in rows.items():
            scores = [measure(row, arguments.steps, seed) for seed in range(arguments.seeds)]
            columns = zip(*scores, strict=True)
            cells = (f"{np.mean(x):.1f} ({min(x):.1f} – {max(x):.1f})" for x in columns)
            print(f"| {name} |", " | ".join(cells), "|", flush=True)
        print()


if __name__ == "__main__":
    main()
