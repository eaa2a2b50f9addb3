"""How near to the best matrix product of the machine: what the benchmarks count."""

import numpy as np

SIZE = 2048


def multiply_case():
    """A large single-precision product; as a contender it tells the peak of the same rounds."""
    a = np.random.default_rng(0).normal(size=(SIZE, SIZE)).astype("float32")
    return lambda: a @ a


def peak(seconds):
    """Operations a second, from the times of `multiply_case`."""
    return 2 * SIZE**3 / min(seconds)


def block_flops(batch, tokens, dim, mlp_dim):
    """Of the matrix products of a Transformer block, forward."""
    dense = 2 * batch * tokens * dim * (4 * dim + 2 * mlp_dim)
    return dense + 4 * batch * tokens * tokens * dim
