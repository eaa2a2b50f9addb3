"""The best segmentation against all segmentations, and ties against SentencePiece's loop."""

import itertools
import math

import numpy as np
import tensorflow as tf

from tfx_transformer.data.text.core.flat import SEPARATOR
from tfx_transformer.data.text.core.unigram import Unigram, build_trie

PIECES = [None, None, None, None, "a", "b", "ab", "ba", "aba", "bb", "abab", "c", "ca", "▁", "▁a"]
UNK = 3


def segment(unigram, texts):
    """The ids of each text, and a check that its pieces cover it."""
    codes = [SEPARATOR]
    for text in texts:
        codes += [*map(ord, text), SEPARATOR]
    start, length, ids = (x.numpy().tolist() for x in unigram(tf.constant(codes)))
    rows = [[] for _ in texts]
    offsets = np.cumsum([1, *(len(text) + 1 for text in texts)])
    for begin, size, index in zip(start, length, ids, strict=True):
        row = int(np.searchsorted(offsets, begin, side="right")) - 1
        assert sum(n for _, n in rows[row]) == begin - offsets[row]
        rows[row].append((index, size))
    assert [sum(n for _, n in row) for row in rows] == [len(text) for text in texts]
    return [[index for index, _ in row] for row in rows]


def all_segmentations(text, pieces):
    if not text:
        yield []
    for size in range(1, len(text) + 1):
        index = pieces.index(text[:size]) if text[:size] in pieces else UNK if size == 1 else None
        if index is not None:
            yield from ([index, *rest] for rest in all_segmentations(text[size:], pieces))


def test_the_best_of_all_segmentations_is_found():
    rng = np.random.default_rng(0)
    scores = np.where([piece is None for piece in PIECES], 0, -rng.uniform(1, 5, len(PIECES)))
    unigram = Unigram(PIECES, scores, UNK)
    texts = ["".join(letters) for n in range(6) for letters in itertools.product("abc?", repeat=n)]
    values = [*scores]
    values[UNK] = min(scores) - 10
    for text, found in zip(texts, segment(unigram, texts), strict=True):
        every = list(all_segmentations(text, PIECES))
        best = max(sum(values[i] for i in row) for row in every)
        assert math.isclose(sum(values[i] for i in found), best, rel_tol=1e-6) and found in every


def sequential(text, pieces, scores):
    """SentencePiece's loop: a sum in float64 against the best in float32; unknown in float32."""
    best, last = [np.float32(0)] + [None] * len(text), [None] * (len(text) + 1)
    for begin in range(len(text)):
        for end in range(begin + 1, len(text) + 1):
            piece = text[begin:end]
            if piece in pieces:
                index = pieces.index(piece)
                total = np.float64(np.float32(scores[index])) + np.float64(best[begin])
            elif end == begin + 1:
                index, total = UNK, np.float32(scores[UNK]) + best[begin]
            else:
                continue
            if best[end] is None or total > best[end]:
                best[end], last[end] = np.float32(total), (index, begin)
    ids, end = [], len(text)
    while end:
        index, end = last[end]
        ids.insert(0, index)
    return ids


def test_ties_are_those_of_sentencepiece():
    """Scores with few digits, and their sums so large that float32 rounds them."""
    rng = np.random.default_rng(1)
    for step, lowest in ((1, -3), (0.1, -2000), (0.001, -9000)):
        scores = np.round(rng.uniform(lowest, -1, len(PIECES)) / step) * step
        scores[:4] = 0
        unigram = Unigram(PIECES, scores, UNK)
        scores[UNK] = np.float32(scores[4:].min()) - np.float32(10)
        texts = ["".join(rng.choice([*"aaabbbc▁?"], rng.integers(1, 90))) for _ in range(60)]
        texts += ["ab" * 40, "a" * 99]
        expected = [sequential(text, PIECES, scores) for text in texts]
        assert segment(unigram, texts) == expected


def test_there_may_be_no_texts():
    unigram = Unigram(PIECES, [-1.0] * len(PIECES), UNK)
    assert segment(unigram, []) == [] and segment(unigram, ["", ""]) == [[], []]


def test_the_trie_leads_to_the_pieces():
    keys, ids = build_trie([None, "ab", "a", "b"])
    assert len(keys) == 3 and ids == [4, 2, 1, 3]
