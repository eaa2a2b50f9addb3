"""Layers or steps between two positions, counted in LSTM, ConvS2S, ByteNet and Transformer.

    python benchmarks/claims/path_length.py [--picture docs/pictures/path_length.png]

The embedding of one token becomes NaN, which spreads to all that depends on it: the first layer in
which position n is NaN is the length of the path. The encoders have random weights; no training.
"""

import argparse

import numpy as np
from common import plot_lines, print_table
from keras import ops

from tfx_transformer.models import create_model

DISTANCES = (1, 2, 4, 8, 16, 32, 64)
SIZES = {"vocab_size": 9, "dim": 8, "dropout": 0.0}
IDS = np.full((1, max(DISTANCES) + 1), 3)


def spoil(x):
    """Embeddings (1, N, D) with NaN at position 0."""
    return ops.where(ops.arange(x.shape[1])[:, None] == 0, np.float32("nan"), x)


def lstm_states():
    """(1, 1, D) after each step, of which step t reads position t."""
    model = create_model("rnn_seq2seq", embedding_dim=8, depth=1, attention=None, **SIZES)
    x, states = spoil(model.source_embedding(IDS)), [ops.zeros((1, 8))] * 2
    for t in range(len(IDS[0])):
        y, states = model.encoder[0].cell(x[:, t], states)
        yield y[:, None]


def conv_layers():
    sizes = SIZES | {"embedding_dim": 8, "max_length": 999}
    model = create_model("conv_seq2seq", depth=max(DISTANCES), **sizes)
    x = spoil(model.source_embedding(IDS))
    for layer in model.encoder:
        x, _, _ = layer(x)
        yield x


def bytenet_layers():
    model = create_model("bytenet", depth=7, max_dilation=64, **SIZES)
    x = spoil(model.source_embedding(IDS))
    for block in model.encoder_blocks:
        x = block(x)
        yield x


def transformer_layers():
    model = create_model("transformer", depth=1, num_heads=2, mlp_dim=8, **SIZES)
    yield model.encoder[0](spoil(model.source_embedding(IDS)))


def spoiled(layers):
    """[(N,) for each layer]: the positions that depend on position 0."""
    return [np.isnan(ops.convert_to_numpy(x)).all(axis=-1)[0] for x in layers()]


def path_lengths():
    """{model: [the length of the path for each distance]}."""
    if not all(spoiled(lstm_states)):
        raise RuntimeError("a state does not depend on the first token")
    lengths = {"LSTM": [n + 1 for n in DISTANCES]}  # the step that reads position n is step n + 1
    stacks = {
        "ConvS2S": conv_layers,
        "ByteNet": bytenet_layers,
        "Transformer": transformer_layers,
    }
    for name, layers in stacks.items():
        reached = spoiled(layers)
        lengths[name] = [1 + [bool(x[n]) for x in reached].index(True) for n in DISTANCES]
    return lengths


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", default="runs/path_length.png")
    arguments = parser.parse_args()
    lengths = path_lengths()
    print_table("distance", DISTANCES, lengths)
    labels = "distance of two positions", "layers or steps between them"
    title = "Path between two positions of a sentence"
    plot_lines(DISTANCES, lengths, arguments.picture, title, *labels)


if __name__ == "__main__":
    main()
