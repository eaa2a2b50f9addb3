"""Lists of pieces against a dict, and splitting and joining against SentencePiece."""

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from tfx_transformer.data import END, PAD, START, UNK, train_tokenizer
from tfx_transformer.data.text.piece_tokenizer import PieceTokenizer, end_empty_rows

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
TEXTS = ["red cat", "big old dog", "", "  red   dog ", "blue ß cat", "xyz", "ﬁne 🦊"]


@pytest.fixture(scope="module")
def model():
    texts = ["red cat", "old big dog", "blue dog and red cat"] * 20
    return train_tokenizer(texts, 40, byte_fallback=False).model


@pytest.fixture(scope="module")
def library(model):
    return sentencepiece.SentencePieceProcessor(model_proto=model)


@pytest.fixture(scope="module")
def tokenizer(library, model):
    """Its pieces are in another order than in the model; one is not in the model."""
    stored = [library.id_to_piece(i) for i in range(4, library.vocab_size())]
    pieces = [*SPECIAL, ">>fra<<", "ß", *reversed(stored)]
    return PieceTokenizer(pieces, model, language_codes=True)


def text_of(tensor):
    return [string.decode() for string in np.array(tensor).reshape(-1)]


def test_the_ids_are_those_of_the_pieces(tokenizer, library):
    ids = tokenizer.encode(TEXTS)
    assert ids.dtype == tf.int32
    index = {piece: i for i, piece in enumerate(tokenizer.pieces)}
    for row, text in zip(ids.to_list(), TEXTS, strict=True):
        pieces = library.encode(text, out_type=str)
        assert row == [index.get(piece, UNK) for piece in pieces]
    assert index["ß"] in ids.to_list()[4]  # unknown to the model, but not to the list
    assert UNK in ids.to_list()[5] and ids.to_list()[2] == []


def test_text_never_becomes_padding_or_start(tokenizer):
    assert min(tokenizer.encode(["<pad> <s>", "<pad>", "<s>"]).flat_values.numpy()) > START


def test_a_language_code_at_the_beginning_is_a_piece(tokenizer):
    ids = tokenizer.encode([">>fra<< red cat", ">>deu<< red cat", "red >>fra<<", "red cat"])
    plain = ids.to_list()[3]
    assert ids.to_list()[0] == [4, *plain] and ids.to_list()[1] == [UNK, *plain]
    assert 4 not in ids.to_list()[2]
    several = tokenizer.encode([">>fra<< red <<", ">>fra<<", ">>fra<<\nred cat"]).to_list()
    assert several[0][0] == several[1][0] == 4 and several[1][1:] == []
    assert several[2][1:] == plain


def test_without_language_codes_they_are_text(tokenizer, model):
    without = PieceTokenizer(tokenizer.pieces, model)
    assert 4 not in without.encode([">>fra<< red cat"]).to_list()[0]


def test_core_ops_give_the_same(tokenizer, model):
    core = tokenizer.with_core_ops()
    texts = [*TEXTS, ">>fra<< red cat", "\n▁ x", b"\xc3 \xff dog"]
    assert core.encode(texts).to_list() == tokenizer.encode(texts).to_list()
    ids = tf.constant(np.random.default_rng(0).integers(0, tokenizer.vocab_size, (200, 6)))
    assert text_of(core.decode(ids)) == text_of(tokenizer.decode(ids))
    assert text_of(core.to_pieces(ids)) == text_of(tokenizer.to_pieces(ids))


def test_decoding_inverts_encoding(tokenizer):
    texts = ["red cat", "big old dog", "", "blue ß cat"]
    assert text_of(tokenizer.decode(tokenizer.encode(texts))) == texts


def test_decoding_stops_at_end_and_drops_special_ids(tokenizer):
    red, cat = tokenizer.encode(["red", "cat"]).to_list()
    rows = [[START, *red, END, *cat], [*red, PAD, UNK, *cat, PAD], [END, *red], [PAD]]
    ragged = tf.ragged.constant(rows, dtype=tf.int32)
    expected = ["red", "red cat", "", ""]
    assert text_of(tokenizer.decode(ragged)) == expected
    beams = tf.cast(ragged.to_tensor(PAD), tf.int64)[:, None]  # (B, beams, T)
    assert tokenizer.decode(beams).shape == (4, 1) and text_of(tokenizer.decode(beams)) == expected


def test_ids_are_converted_to_pieces(tokenizer):
    ids = tf.constant([[4, END, PAD], [5, UNK, PAD]])
    expected = [[">>fra<<", "</s>", ""], ["ß", "<unk>", ""]]
    assert text_of(tokenizer.to_pieces(ids)) == sum(expected, [])
    assert tokenizer.to_pieces(ids).shape == (2, 3)


@pytest.mark.parametrize(
    "splitter, text, ids",
    [("spaces", "ab  b ab x", [5, 4, 5, 3]), ("characters", "bxb", [4, 3, 4])],
)
def test_texts_can_be_split_without_a_model(splitter, text, ids):
    tokenizer = PieceTokenizer([*SPECIAL, "b", "ab"], splitter)
    assert tokenizer.encode([text, ""]).to_list() == [ids, []]
    joined = {"spaces": "b ab", "characters": "bab"}[splitter]
    assert text_of(tokenizer.decode([[4, UNK, 5, END, 4]])) == [joined]


def test_a_source_can_be_encoded_without_end():
    tokenizer = PieceTokenizer([*SPECIAL, "a", "b"], "characters")
    ids = end_empty_rows(tokenizer.encode(["abb", "", "b"]))
    assert ids.to_list() == [[4, 5, 5], [END], [5]]


def test_the_tokenizer_survives_a_new_seed_and_saving(tokenizer, tmp_path):
    class Both(tf.Module):
        def __init__(self):
            super().__init__()
            self.tokenizer = tokenizer

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def __call__(self, texts):
            return tokenizer.decode(tokenizer.encode(texts))

    both = Both()
    assert text_of(both(["red cat"])) == ["red cat"]
    keras.utils.set_random_seed(1)
    keras.utils.clear_session(free_memory=False)
    assert text_of(both(["red cat"])) == ["red cat"]
    tf.saved_model.save(both, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    assert text_of(loaded(tf.constant(["blue ß cat", ""]))) == ["blue ß cat", ""]


def test_an_invalid_argument_is_named(model):
    with pytest.raises(ValueError, match="pieces must be unique; got 'a' more than once"):
        PieceTokenizer([*SPECIAL, "a", "b", "a"], model)
    with pytest.raises(ValueError, match="unknown splitter 'words'; known: spaces, characters"):
        PieceTokenizer([*SPECIAL, "a"], "words")
