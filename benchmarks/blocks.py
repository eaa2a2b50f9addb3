"""Speed of one pre-norm encoder block compared with its peers, forward and forward + backward.

    python benchmarks/blocks.py [--rounds 30]

A ratio is the median over the rounds of (peer's time / our time): above 1 ours is faster; timing.py
explains the measurement. `peak` is the speed of the block's matrix products as a fraction of the
fastest float32 matrix product in the same rounds.
"""

import argparse
import statistics

from timing import block_flops, matmul_case, median_ratio, peak_flops, time_interleaved

from tfx_transformer.runtime import import_tensorflow

import_tensorflow()

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

from tfx_transformer.layers import TransformerBlock  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

SHAPES = {  # batch, tokens, dim, heads, mlp_dim
    "ViT-S": (8, 197, 384, 6, 1536),
    "translator": (64, 32, 512, 8, 2048),
}


def exact_gelu(x):
    return keras.ops.gelu(x, approximate=False)


class KerasBlock(keras.layers.Layer):
    """The same block built from Keras's own layers."""

    def __init__(self, dim, num_heads, mlp_dim):
        super().__init__()
        self.norms = [keras.layers.LayerNormalization(epsilon=1e-6) for _ in range(2)]
        self.attention = keras.layers.MultiHeadAttention(num_heads, dim // num_heads)
        self.up = keras.layers.Dense(mlp_dim, activation=exact_gelu)
        self.down = keras.layers.Dense(dim)

    def call(self, x, training=None):
        y = self.norms[0](x)
        x = x + self.attention(y, y, training=training)
        return x + self.down(self.up(self.norms[1](x)))


def tensorflow_case(layer, shape, jit_compile):
    x = tf.random.normal(shape)
    layer(x)
    weights = [w.value for w in layer.trainable_weights]

    @tf.function(jit_compile=jit_compile)
    def forward(x):
        return layer(x, training=False)

    @tf.function(jit_compile=jit_compile)
    def backward(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x, training=True))
        return tape.gradient(loss, [x, *weights])

    def wait(tensors):  # reading a tensor waits until it is computed
        for tensor in tf.nest.flatten(tensors):
            tensor.numpy()

    return lambda: wait(forward(x)), lambda: wait(backward(x))


def torch_case(batch, tokens, dim, num_heads, mlp_dim):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1 = torch.nn.LayerNorm(dim, eps=1e-6)
            self.norm_2 = torch.nn.LayerNorm(dim, eps=1e-6)
            self.qkv = torch.nn.Linear(dim, 3 * dim)
            self.out = torch.nn.Linear(dim, dim)
            self.up = torch.nn.Linear(dim, mlp_dim)
            self.down = torch.nn.Linear(mlp_dim, dim)

        def forward(self, x):
            qkv = self.qkv(self.norm_1(x)).reshape(batch, tokens, 3, num_heads, -1)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, dim))
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm_2(x))))

    block = Block()
    x = torch.randn(batch, tokens, dim, requires_grad=True)

    def forward():
        with torch.no_grad():
            block(x)

    def backward():
        block.zero_grad(set_to_none=True)
        x.grad = None
        block(x).sum().backward()

    return forward, backward


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    matmul = matmul_case()

    print("| shape | pass | contender | ms | ours is faster by | ours + XLA | peak |")
    print("|---|---|---|---|---|---|---|")
    for name, sizes in SHAPES.items():
        shape = sizes[:3]
        passes = {
            "ours": tensorflow_case(TransformerBlock(*sizes[2:]), shape, False),
            "ours + XLA": tensorflow_case(TransformerBlock(*sizes[2:]), shape, True),
            "Keras": tensorflow_case(KerasBlock(*sizes[2:]), shape, False),
            "Keras + XLA": tensorflow_case(KerasBlock(*sizes[2:]), shape, True),
        }
        if torch is not None:
            passes["torch"] = torch_case(*sizes)
        for i, (direction, factor) in enumerate((("forward", 1), ("forward + backward", 3))):
            cases = {contender: case[i] for contender, case in passes.items()}
            seconds = time_interleaved(cases | {"matmul": matmul}, rounds)
            peak = peak_flops(seconds["matmul"])
            for contender in cases:
                times = seconds[contender]
                ratios = [median_ratio(times, seconds[ours]) for ours in ("ours", "ours + XLA")]
                median = statistics.median(times)
                fraction = factor * block_flops(*shape, sizes[-1]) / median / peak
                print(
                    f"| {name} | {direction} | {contender} | {1000 * median:.1f} | {ratios[0]:.2f} "
                    f"| {ratios[1]:.2f} | {fraction:.0%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
