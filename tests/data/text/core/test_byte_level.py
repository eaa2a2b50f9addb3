"""Byte-level pieces against the tokenizers library, which is what GPT-2 is used with."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tokenizers

from tfx_transformer.data.text.core.byte_level import ByteLevel, byte_alphabet

TEXTS = [
    "",
    " ",
    "Hello, world!",
    "  two  spaces   before a word ",
    "don't we'll I'm \"they've\" he'd she's 'quoted'",
    "year 2026, 3.14 and x² or Ⅻ",
    "tab\tand\n\nlines \n of text\r\n",
    "안녕하세요 wörld ☃ 🎉🎉 ١٢٣",
    "no-break\xa0space, ideographic\u3000space, thin\u2009 one, next\x85line",
    "<s>special<mask> tokens </s> <s> ",
    "aaaa aaaaa the then them there",
]
SPECIAL = ["<s>", "</s>", "<mask>"]


@pytest.fixture(scope="module")
def merges():
    """Trained on the texts by the library."""
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator(TEXTS * 2, trainer)
    merges = json.loads(trained.to_str())["model"]["merges"]
    assert len(merges) > 50
    return [" ".join(pair) for pair in merges]


def reference(merges, special):
    """The library's own tokenizer of these merges."""
    pieces = byte_alphabet()
    for merge in merges:
        pieces.append(merge.replace(" ", ""))
    pieces = list(dict.fromkeys([*special, *pieces]))
    pairs = [tuple(merge.split(" ")) for merge in merges]
    model = tokenizers.models.BPE({piece: i for i, piece in enumerate(pieces)}, pairs)
    library = tokenizers.Tokenizer(model)
    library.add_special_tokens(list(special))
    library.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return library


def pieces_of(ours, texts):
    return [[piece.decode() for piece in row] for row in ours.tokenize(texts).to_list()]


@pytest.mark.parametrize("special", [(), SPECIAL])
def test_the_pieces_are_those_of_the_library(special, merges):
    library, ours = reference(merges, special), ByteLevel(merges, special)
    rng = np.random.default_rng(0)
    characters = [*"aethn 's.,!?12<>\t\n éß안🎉\u3000", *"   ", *special]
    random = ["".join(rng.choice(characters, rng.integers(1, 30))) for _ in range(300)]
    texts = TEXTS + random
    for text, pieces in zip(texts, pieces_of(ours, texts), strict=True):
        assert pieces == library.encode(text).tokens, repr(text)


def test_decoding_gives_the_text_again(merges):
    ours = ByteLevel(merges)
    assert ours.detokenize(ours.tokenize(TEXTS)).numpy().tolist() == [t.encode() for t in TEXTS]


def test_incomplete_characters_are_dropped_and_bad_bytes_replaced(merges):
    ours = ByteLevel(merges)
    snowman = ours.tokenize(["☃!"])
    assert ours.detokenize(snowman[:, 1:]).numpy().tolist() == [b"!"]
    pieces = ours.tokenize([b"a\xffb\xc3"])
    assert ours.detokenize(pieces).numpy()[0].decode() == "a�b�"


def test_the_alphabet_is_that_of_the_library():
    assert sorted(byte_alphabet()) == sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    assert byte_alphabet()[ord(" ")] == "Ġ"


def test_there_may_be_no_texts(merges):
    ours = ByteLevel(merges)
    empty = tf.constant([], tf.string)
    assert ours.tokenize(empty).to_list() == []
    assert ours.detokenize(ours.tokenize(empty)).shape == (0,)


def test_too_many_special_tokens_are_refused():
    with pytest.raises(ValueError, match="special must be 10 tokens at most; got 11"):
        ByteLevel([], [f"<{i}>" for i in range(11)])
