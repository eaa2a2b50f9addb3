"""Core ops against the ops of tensorflow-text and the Python library."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from tfx_transformer.data import load_pairs, train_tokenizer
from tfx_transformer.data.text.core.sentencepiece import CoreSentencePiece
from tfx_transformer.data.text.sentencepiece_model import SentencePieceModel

from .conftest import make_strings

KINDS = [("unigram", True), ("unigram", False), ("bpe", True), ("bpe", False)]
SHARED = Path(__file__).parents[5] / "shared/data/multi30k"
CHUNK = 512


def check_equal(model, texts):
    """Ids, pieces and decoded texts, of these texts and of their pieces in another order."""
    core, text = CoreSentencePiece(model), SentencePieceModel(model)
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    string = [tf.TensorSpec([None], tf.string)]
    tokenize = tf.function(core.tokenize, string, autograph=False)
    to_pieces = tf.function(lambda x: core.tokenize(x, tf.string), string, autograph=False)
    rng, differ = np.random.default_rng(0), 0
    for begin in range(0, len(texts), CHUNK):
        chunk = tf.constant(texts[begin : begin + CHUNK])
        ids = text.tokenize(chunk)
        assert tokenize(chunk).to_list() == ids.to_list()
        assert to_pieces(chunk).to_list() == text.tokenize(chunk, tf.string).to_list()
        others = library.encode([string.decode(errors="ignore") for string in chunk.numpy()])
        valid = [string.decode(errors="ignore").encode() == string for string in chunk.numpy()]
        differ += sum(v and a != b for a, b, v in zip(others, ids.to_list(), valid, strict=True))
        mixed = ids.with_values(tf.constant(rng.permutation(ids.values), tf.int32))
        for rows in (ids, mixed):
            strings = text.detokenize(rows).numpy().tolist()
            assert core.detokenize(rows).numpy().tolist() == strings
            pieces = rows.with_values(core.id_to_piece(rows.values))
            assert core.detokenize(pieces).numpy().tolist() == strings
            np.testing.assert_array_equal(pieces.values, text.id_to_piece(rows.values))
    # tensorflow-text has an older SentencePiece, which rounds sums of scores in another way
    assert differ <= len(texts) / 200
    return differ


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_ids_and_texts_are_those_of_sentencepiece(kind, models, lines, strings):
    check_equal(models[kind], [*(line.encode() for line in lines), *strings])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_there_may_be_no_texts(kind, models):
    core = CoreSentencePiece(models[kind])
    for strings in (tf.constant([], tf.string), tf.constant(["", ""])):
        ids = core.tokenize(strings)
        assert ids.dtype == tf.int32 and ids.to_list() == [[]] * len(strings)
        assert core.tokenize(strings, tf.string).to_list() == [[]] * len(strings)
        assert core.detokenize(ids).numpy().tolist() == [b""] * len(strings)


def test_any_ids_decode_as_by_sentencepiece(models):
    """Bytes that are no characters, control symbols between them, and marks at the beginning."""
    rng = np.random.default_rng(0)
    for kind in KINDS[::2]:
        model = models[kind]
        core, text = CoreSentencePiece(model), SentencePieceModel(model)
        pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        mark = pieces.piece_to_id("▁")
        rows = [rng.integers(0, 260, rng.integers(9)).tolist() for _ in range(500)]
        rows += [
            rng.choice([0, 1, mark, 3, 4, 4 + 0xC3, 4 + 0xA9, 4 + 0xFF, 300], 5) for _ in range(500)
        ]
        rows = tf.ragged.constant([list(map(int, row)) for row in rows], dtype=tf.int32)
        assert core.detokenize(rows).numpy().tolist() == text.detokenize(rows).numpy().tolist()


def test_pieces_that_the_model_does_not_know_remain(models):
    for model in models.values():
        core, text = CoreSentencePiece(model), SentencePieceModel(model)
        rows = tf.ragged.constant([["▁ü▁", "▁", "<s>"], ["▁", "<unk>", "▁zz"], [">>de<<", "▁"]])
        assert core.detokenize(rows).numpy().tolist() == text.detokenize(rows).numpy().tolist()


def changed(model, change):
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    change(proto)
    return proto.SerializeToString()


def test_texts_may_begin_without_a_mark(models, lines, strings):
    def change(proto):
        proto.normalizer_spec.add_dummy_prefix = False

    check_equal(changed(models["unigram", True], change), [*(x.encode() for x in lines), *strings])


REFUSED = {
    "it is neither unigram nor BPE": lambda p: setattr(p.trainer_spec, "model_type", 4),
    "it has user-defined symbols": lambda p: setattr(p.pieces[-1], "type", 4),
    "it has unused pieces": lambda p: setattr(p.pieces[-1], "type", 5),
    "it keeps double spaces": lambda p: setattr(
        p.normalizer_spec, "remove_extra_whitespaces", False
    ),
    "it does not mark spaces": lambda p: setattr(p.normalizer_spec, "escape_whitespaces", False),
    "it marks the ends": lambda p: setattr(p.trainer_spec, "treat_whitespace_as_suffix", True),
    "it has rules for decoding": lambda p: setattr(
        p.denormalizer_spec, "precompiled_charsmap", b"x"
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_not_supported_is_refused(reason, models):
    model = changed(models["unigram", True], REFUSED[reason])
    with pytest.raises(ValueError, match=f"must be text for this SentencePiece model: {reason}"):
        CoreSentencePiece(model)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_all_of_multi30k_is_tokenized_as_by_sentencepiece(kind):
    if not SHARED.is_dir():
        pytest.skip("Multi30k is not at hand")
    files = [gzip.decompress(path.read_bytes()) for path in sorted(SHARED.glob("*.gz"))]
    texts = [line for file in files for line in file.decode().split("\n")]
    model = train_tokenizer(texts[::3], 8000, kind=kind[0], byte_fallback=kind[1]).model
    print(check_equal(model, [text.encode() for text in texts] + make_strings(10_000)))


@pytest.mark.slow
@pytest.mark.parametrize("language", ["ko", "ja", "ar"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_all_of_cldr_is_tokenized_as_by_sentencepiece(kind, language):
    pairs = load_pairs(f"embedded:cldr/en-{language}")
    texts = [*pairs.source, *pairs.target]
    model = train_tokenizer(texts[::3], 3000, kind=kind[0], byte_fallback=kind[1]).model
    print(check_equal(model, [text.encode() for text in texts] + make_strings(10_000, seed=1)))
