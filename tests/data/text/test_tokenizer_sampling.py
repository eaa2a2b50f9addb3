"""Subword regularization against the formula, with SentencePiece's n-best list and scores."""

from collections import Counter

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from tfx_transformer.data import train_tokenizer


def segmentations(tokenizer, text, n_best, alpha):
    """{ids: probability} from the n-best list and the scores of SentencePiece."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    best = [tuple(ids) for ids in processor.nbest_encode_as_ids(text, n_best)]
    powers = [np.exp(alpha * sum(processor.get_score(i) for i in ids)) for ids in best]
    return {ids: power / sum(powers) for ids, power in zip(best, powers, strict=True)}


@pytest.mark.parametrize("text", ["dog face", "여자 화가", "a"])
def test_sampling_follows_the_formula(tokenizer, text):
    count, n_best, alpha = 4000, 5, 0.3
    uniform = (np.arange(count) + 0.5) / count  # every quantile once: nothing is random
    counts = Counter(map(tuple, tokenizer.sample([text] * count, uniform, n_best, alpha).to_list()))
    expected = segmentations(tokenizer, text, n_best, alpha)
    assert set(counts) <= set(expected)
    for ids, probability in expected.items():
        assert counts[ids] / count == pytest.approx(probability, abs=1e-3)


def test_samples_decode_to_the_same_text(tokenizer, phrases):
    texts = ["", *(tokenizer.normalize(text) for text in phrases["ko"][:200]), "漢字 🦊", "", "x"]
    uniform = np.random.default_rng(0).random(len(texts))
    ids = tokenizer.sample(texts, uniform, n_best=8, alpha=0.1)
    assert tokenizer.decode_list(ids.to_list()) == texts
    assert ids.to_list() != tokenizer.encode_list(texts)


def test_a_sample_does_not_depend_on_its_neighbors(tokenizer, phrases):
    texts = [*phrases["en"][:8], "", "", *phrases["de"][:8], ""]
    uniform = np.random.default_rng(0).random(len(texts)).astype("float32")
    together = tf.function(tokenizer.sample)(tf.constant(texts), tf.constant(uniform)).to_list()
    alone = [tokenizer.sample([t], [d]).to_list()[0] for t, d in zip(texts, uniform, strict=True)]
    assert together == alone


def test_a_sample_has_at_most_max_tokens_or_is_the_best(tokenizer, phrases):
    texts = phrases["de"][:300]
    uniform = np.random.default_rng(0).random(len(texts))
    best = tokenizer.encode_list(texts)
    sampled = tokenizer.sample(texts, uniform, n_best=8, alpha=0.0, max_tokens=4).to_list()
    assert all(len(s) <= 4 or s == b for s, b in zip(sampled, best, strict=True))
    assert any(s != b for s, b in zip(sampled, best, strict=True))


def test_the_best_segmentation_can_always_be_sampled(tokenizer, phrases):
    for text, best in zip(phrases["de"], tokenizer.encode_list(phrases["de"]), strict=True):
        if any(len(ids) < len(best) for ids in segmentations(tokenizer, text, 8, 0.0)):
            break  # the best one is not the shortest
    sampled = tokenizer.sample([text] * 2, [0.0, 0.99], 8, 0.0, max_tokens=len(best) - 1).to_list()
    assert sampled[0] == best
    assert len(sampled[1]) < len(best)


def test_only_unigram_models_can_be_sampled(tokenizer, phrases):
    pairs_only = train_tokenizer(phrases["en"], 500, kind="bpe")
    assert tokenizer.can_sample and not pairs_only.can_sample
    with pytest.raises(ValueError, match="only a unigram tokenizer can be sampled"):
        pairs_only.sample(["dog face"], [0.5])


def test_the_largest_random_number_gives_a_segmentation(tokenizer):
    uniform = [np.nextafter(np.float32(1), np.float32(0))] * 2
    assert tokenizer.decode_list(tokenizer.sample(["dog face", "a"], uniform, 7).to_list()) == [
        "dog face",
        "a",
    ]
