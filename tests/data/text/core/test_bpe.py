"""Merges against a plain loop over the best pair."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.text.core.bpe import BytePair
from tfx_transformer.data.text.core.flat import SEPARATOR

PIECES = [None, None, None, "ab", "bc", "abc", "▁a", "▁ab", "a", "b", "▁", "bb", "cd", "abcd"]
SCORES = [0, 0, 0, -1, 0, -5, -3, -2, -9, -9, -9, -1, -7, -6]
UNK = 1


def merge(text, pieces):
    """Of the pairs with the highest score, the leftmost is merged; "c" and "d" are no pieces."""
    symbols = [*text]
    while True:
        pairs = [a + b for a, b in zip(symbols, symbols[1:], strict=False)]
        scores = [SCORES[pieces.index(p)] if p in pieces else -np.inf for p in pairs]
        if not scores or max(scores) == -np.inf:
            return [pieces.index(s) if s in pieces else UNK for s in symbols]
        best = int(np.argmax(scores))
        symbols[best : best + 2] = [pairs[best]]


@pytest.mark.parametrize("pieces", [PIECES, [*PIECES[:-1], "b▁a"]], ids=["words", "over words"])
def test_the_best_pairs_are_merged(pieces):
    rng = np.random.default_rng(0)
    texts = ["", "a", "?", "▁"]
    texts += ["".join(rng.choice([*"aabbcd▁?"], rng.integers(1, 30))) for _ in range(200)]
    codes = [SEPARATOR]
    for text in texts:
        codes += [*map(ord, text), SEPARATOR]
    start, length, ids = (x.numpy() for x in BytePair(pieces, SCORES, UNK)(tf.constant(codes)))
    rows = np.cumsum(np.array(codes) == SEPARATOR)[start] - 1
    found = [ids[rows == row].tolist() for row in range(len(texts))]
    assert found == [merge(text, pieces) for text in texts]
    covered = np.concatenate([np.arange(a, a + n) for a, n in zip(start, length, strict=True)])
    assert covered.tolist() == np.flatnonzero(np.array(codes) != SEPARATOR).tolist()


def test_there_may_be_no_texts():
    for codes in ([SEPARATOR], [SEPARATOR, SEPARATOR]):
        assert all(len(x) == 0 for x in BytePair(PIECES, SCORES, UNK)(tf.constant(codes)))
