"""Strings in, strings out, by an untrained model: what is said is nonsense, but the right one."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data import END, PAD, START, encode_source
from tfx_transformer.translator import Translator, power_of_two

TEXTS = ["red cat", "", "old big dog", "blue dog and " * 20, "cat"]


def test_many_are_translated_as_one_by_one_and_in_order(translator):
    together = translator(TEXTS, batch_size=2)
    assert together == [translator([text])[0] for text in TEXTS]
    assert len(set(together)) > 2  # it does not say the same of all


def test_nothing_is_said_of_nothing(translator):
    found = translator.translate(tf.constant(["", "cat", "  "]))
    assert found["text"].numpy()[[0, 2]].tolist() == [b"", b""]
    assert found["score"].numpy()[[0, 2]].tolist() == [0, 0]
    assert found["text"].numpy()[1] != b""


def test_the_cached_search_is_the_plain_one(translator):
    """Greedy: one token after the other by the whole model, without a cache."""
    greedy = Translator(
        translator.model, translator.source_tokenizer, translator.target_tokenizer, "greedy", 12
    )
    source = encode_source(translator.source_tokenizer, tf.constant(["old big dog"]), 12)
    target = [START]
    for _ in range(12):
        inputs = {"source": source, "target": tf.constant([target])}
        logits = translator.model(inputs).numpy()[0, -1]
        logits[[PAD, START]] = -np.inf
        target.append(int(np.argmax(logits)))
        if target[-1] == END:
            break
    tokens = greedy.decode(source)["tokens"].numpy()[0, 0]
    assert tokens[: len(target) - 1].tolist() == target[1:]
    assert (tokens[len(target) - 1 :] == PAD).all()


def test_what_is_drawn_differs_from_call_to_call_unless_it_has_a_seed(translator):
    parts = translator.model, translator.source_tokenizer, translator.target_tokenizer
    free, fixed = Translator(*parts, "sample"), Translator(*parts, {"kind": "sample", "seed": 3})
    assert free(["old big dog"] * 4) != free(["old big dog"] * 4)
    assert fixed(["old big dog"] * 4) == fixed(["old big dog"] * 4)


def test_the_best_come_first(translator):
    found = translator.translate(tf.constant(TEXTS))
    scores = found["n_best_score"].numpy()
    assert scores.shape == (5, 2) and (scores[:, 0] >= scores[:, 1]).all()
    assert found["n_best"].numpy()[:, 0].tolist() == found["text"].numpy().tolist()


def test_every_token_is_aligned_with_the_source(translator):
    found = translator.translate(tf.constant(["red cat", "old big dog"]))
    alignment, tokens = found["alignment"].numpy(), found["tokens"].numpy()
    np.testing.assert_allclose(alignment.sum(axis=-1), tokens != PAD, atol=1e-5)


def test_xla_finds_the_same(translator):
    compiled = Translator(
        translator.model,
        translator.source_tokenizer,
        translator.target_tokenizer,
        {"kind": "beam", "width": 3, "n_best": 2},
        max_length=12,
        jit_compile=True,
    )
    source = encode_source(translator.source_tokenizer, tf.constant(["red cat", "cat"]), 12)
    expected, found = translator.decode(source), compiled.decode(source)
    np.testing.assert_array_equal(found["tokens"], expected["tokens"])
    np.testing.assert_allclose(found["score"], expected["score"], atol=1e-4)


def test_a_call_may_set_a_smaller_length(translator):
    whole = translator.translate(tf.constant(TEXTS))["tokens"].numpy()
    short = translator.limited(tf.constant(TEXTS), 3)["tokens"].numpy()
    assert (whole != PAD).sum(axis=1).max() > 3
    assert (short != PAD).sum(axis=1).max() == 3


def test_the_room_follows_the_source(translator):
    wide = Translator(
        translator.model, translator.source_tokenizer, translator.target_tokenizer, max_length=100
    )
    source = wide.encode(tf.constant(["cat"]))
    assert wide.decode(source)["tokens"].shape[-1] == 2 * source.shape[1] + 10


def test_powers_of_two():
    assert [int(power_of_two(size)) for size in (1, 2, 3, 64, 65)] == [1, 2, 4, 64, 128]
    assert [int(power_of_two(size, 16)) for size in (1, 16, 17)] == [16, 16, 32]


def test_a_bad_length_is_named(translator):
    with pytest.raises(ValueError, match="max_length must be a whole number above zero"):
        Translator(translator.model, None, None, max_length=0)
