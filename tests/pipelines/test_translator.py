"""Strings in, translations out, with an untrained model."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data import END, PAD, START, UNK
from tfx_transformer.models import create_model
from tfx_transformer.pipelines import Translator
from tfx_transformer.pipelines.translator import power_of_two

TEXTS = ["red cat", "", "old big dog", "blue dog and " * 20, "cat"]


def test_a_translation_does_not_depend_on_the_other_texts_of_the_batch(translator):
    together = translator(TEXTS, batch_size=2)
    assert together == [translator([text])[0] for text in TEXTS]
    assert len(set(together)) > 2


def test_an_empty_text_has_an_empty_translation(translator):
    outputs = translator.predict(tf.constant(["", "cat", "  "]))
    assert outputs["text"].numpy()[[0, 2]].tolist() == [b"", b""]
    assert outputs["score"].numpy()[[0, 2]].tolist() == [0, 0]
    assert outputs["text"].numpy()[1] != b""


def test_decoding_with_a_cache_gives_the_tokens_of_the_whole_model(translator):
    """Greedy decoding, without a cache."""
    greedy = Translator(
        translator.model, translator.source_tokenizer, translator.target_tokenizer, "greedy", 12
    )
    source = translator.encode(tf.constant(["old big dog"]))
    target = [START]
    for _ in range(12):
        inputs = {"source": source, "target": tf.constant([target])}
        logits = translator.model(inputs).numpy()[0, -1]
        logits[[PAD, START]] = -np.inf
        target.append(int(np.argmax(logits)))
        if target[-1] == END:
            break
    tokens = greedy.predict_ids(source)["tokens"].numpy()[0, 0]
    assert tokens[: len(target) - 1].tolist() == target[1:]
    assert (tokens[len(target) - 1 :] == PAD).all()


def test_ids_outside_of_the_vocabulary_are_unknown_tokens(translator):
    size = translator.source_tokenizer.vocab_size
    rows = [[5, other, 2] for other in (-1, size, 2**31 - 1, -(2**31), UNK)]
    outputs = translator.predict_ids(tf.constant(rows, tf.int32))
    for name in ("tokens", "score"):
        expected = np.broadcast_to(outputs[name][-1:], outputs[name].shape)
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-5)
    known = translator.predict_ids(tf.constant([[5, 6, 2]]))
    assert not np.allclose(known["score"][0], outputs["score"][-1])


def test_sampling_differs_from_call_to_call_unless_it_has_a_seed(translator):
    parts = translator.model, translator.source_tokenizer, translator.target_tokenizer
    unseeded, seeded = (Translator(*parts, {"kind": "sample", "seed": seed}) for seed in (None, 3))
    assert unseeded(["old big dog"] * 4) != unseeded(["old big dog"] * 4)
    assert seeded(["old big dog"] * 4) == seeded(["old big dog"] * 4)


@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "attention": "additive"}])
def test_a_recurrent_translator_answers_an_empty_batch(translator, options):
    tokenizer = translator.source_tokenizer
    options = options | ({"feed": "context"} if options else {})
    model = create_model("rnn_seq2seq", "test", vocab_size=tokenizer.vocab_size, **options)
    outputs = Translator(model, tokenizer, tokenizer, "greedy", 12).predict(
        tf.constant([], tf.string)
    )
    assert {len(value) for value in outputs.values()} == {0}


def test_the_best_translations_come_first(translator):
    outputs = translator.predict(tf.constant(TEXTS))
    scores = outputs["n_best_score"].numpy()
    assert scores.shape == (5, 2) and (scores[:, 0] >= scores[:, 1]).all()
    assert outputs["n_best"].numpy()[:, 0].tolist() == outputs["text"].numpy().tolist()


def test_every_token_is_aligned_with_the_source(translator):
    outputs = translator.explain(tf.constant(["red cat", "old big dog"]))
    alignment, tokens = outputs["alignment"].numpy(), outputs["tokens"].numpy()
    np.testing.assert_allclose(alignment.sum(axis=-1), tokens != PAD, atol=1e-5)


def test_an_explanation_has_the_attention_of_every_block_and_head(translator):
    text = tf.constant(["red cat", "", "old big dog"])
    outputs, expected = translator.explain(text), translator.predict(text)
    attention = outputs.pop("attention").numpy()  # (B, blocks, H, T, S)
    assert set(outputs) == {*expected, "alignment"}
    assert outputs["tokens"].numpy().tolist() == expected["tokens"].numpy().tolist()
    tokens, source = outputs["tokens"].numpy(), translator.encode(text)
    target = np.concatenate([np.full((3, 1), START), tokens[:, :-1]], axis=1)
    maps = translator.model.attention_maps({"source": source, "target": target})
    for block, row in np.ndindex(len(translator.model.decoder), 3):
        weights = maps[f"decoder_{block}/cross"][row].numpy()
        weights[:, tokens[row] == PAD] = 0
        np.testing.assert_allclose(attention[row, block], weights, atol=1e-5)
    np.testing.assert_allclose(attention.mean(axis=(1, 2)), outputs["alignment"], atol=1e-5)


def test_a_result_has_the_attention_to_its_own_subwords(translator):
    outputs = translator.explain(tf.constant(["cat", "blue dog and red cat"]))
    arrays = {name: value.numpy() for name, value in outputs.items()}
    result = translator.result.unpack(arrays, 0)
    shape = len(result.pieces), len(result.source_pieces)
    assert result.alignment.shape == shape and result.attention.shape[2:] == shape
    np.testing.assert_allclose(result.attention.sum(axis=-1), 1, atol=1e-5)
    (plain,), (explained,) = (translator.results(["cat"], explain=x) for x in (False, True))
    assert plain.attention is None and plain.alignment is None
    np.testing.assert_allclose(explained.alignment, result.alignment, atol=1e-5)
    assert explained.attention.shape[2:] == explained.alignment.shape == shape


def test_the_subwords_of_a_source_are_those_of_its_translation(translator):
    text = tf.constant(["cat", "blue dog and red cat", "", "blue " * 50])
    outputs, expected = translator.signatures()["pieces"](text), translator.predict(text)
    assert set(outputs) == {"source_pieces", "truncated"}
    for name, value in outputs.items():
        assert value.numpy().tolist() == expected[name].numpy().tolist()


def test_only_a_model_with_attention_has_an_explanation(translator):
    tokenizer = translator.source_tokenizer
    for options in ({}, {"attention": "additive", "feed": "context"}):
        model = create_model("rnn_seq2seq", "test", vocab_size=tokenizer.vocab_size, **options)
        pipeline = Translator(model, tokenizer, tokenizer, "greedy", 12)
        assert ("explain" in pipeline.signatures()) == bool(options)
        if not options:
            with pytest.raises(ValueError, match="explain must be False for this translator"):
                pipeline.results(["cat"], explain=True)
    assert pipeline.explain(tf.constant(["cat"]))["attention"].shape[:3] == (1, 1, 1)


def test_xla_gives_the_same_translations(translator):
    compiled = Translator(
        translator.model,
        translator.source_tokenizer,
        translator.target_tokenizer,
        {"kind": "beam", "width": 3, "n_best": 2},
        max_length=12,
        jit_compile=True,
    )
    source = translator.encode(tf.constant(["red cat", "cat"]))
    expected, outputs = translator.predict_ids(source), compiled.predict_ids(source)
    np.testing.assert_array_equal(outputs["tokens"], expected["tokens"])
    np.testing.assert_allclose(outputs["score"], expected["score"], atol=1e-4)


def test_a_call_may_set_a_smaller_length(translator):
    whole = translator.predict(tf.constant(TEXTS))["tokens"].numpy()
    short = translator.predict_limited(tf.constant(TEXTS), 3)["tokens"].numpy()
    assert (whole != PAD).sum(axis=1).max() > 3
    assert (short != PAD).sum(axis=1).max() == 3


def test_the_maximum_length_follows_the_source(translator):
    wide = Translator(
        translator.model, translator.source_tokenizer, translator.target_tokenizer, max_length=100
    )
    source = wide.encode(tf.constant(["cat"]))
    assert wide.predict_ids(source)["tokens"].shape[-1] == 2 * source.shape[1] + 10


def test_powers_of_two():
    assert [int(power_of_two(size)) for size in (1, 2, 3, 64, 65)] == [1, 2, 4, 64, 128]
    assert [int(power_of_two(size, 16)) for size in (1, 16, 17)] == [16, 16, 32]


def test_max_length_must_be_positive(translator):
    with pytest.raises(ValueError, match="max_length must be a whole number above zero"):
        Translator(translator.model, None, None, max_length=0)
