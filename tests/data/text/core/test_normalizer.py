"""The normalizer against the Python library."""

import pytest
import sentencepiece
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from tfx_transformer.data import train_tokenizer
from tfx_transformer.data.text.core.flat import SEPARATOR
from tfx_transformer.data.text.core.normalizer import Normalizer, read_rules

RULES = ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"]


@pytest.fixture(scope="module", params=RULES)
def model(request):
    return train_tokenizer(["a dog", "a cat and a dog"], 290, normalization=request.param).model


def rules_of(model):
    return sentencepiece_model_pb2.ModelProto.FromString(model).normalizer_spec.precompiled_charsmap


def text_of(codes):
    characters = ["\n" if code == SEPARATOR else chr(code) for code in codes.numpy()]
    return "".join(characters).encode()


def expected_text(model, strings):
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    return b"\n" + b"".join(library.normalize(string) + b"\n" for string in strings)


def test_texts_are_normalized_as_by_the_library(model, strings):
    strings = [string for string in strings if b"\n" not in string]
    assert text_of(Normalizer(rules_of(model))(strings)) == expected_text(model, strings)


def test_characters_with_rules_are_normalized_as_by_the_library(model):
    ranges = range(10), range(11, 0x3400), range(0xF900, 0x10000), range(0x1D400, 0x1F300)
    text = "".join(f"x{chr(code)}" for codes in ranges for code in codes).encode()
    assert text_of(Normalizer(rules_of(model))([text])) == expected_text(model, [text])


def rule_keys(nodes, parent=0, key=b""):
    """The bytes of every rule, by a walk through the trie."""
    for byte in range(256):
        child = nodes[parent, 0] ^ byte
        if nodes[child, 1] == byte and (child != parent):
            if nodes[child, 2] >= 0:
                yield key + bytes([byte])
            yield from rule_keys(nodes, child, key + bytes([byte]))


@pytest.mark.slow
def test_every_rule_is_that_of_the_library(model):
    if not rules_of(model):
        pytest.skip("identity has no rules")
    keys = list(rule_keys(read_rules(rules_of(model))[0]))
    assert len(keys) > 1000 and len(max(keys, key=len)) > 8
    keys = [key for key in keys if b"\n" not in key]
    assert text_of(Normalizer(rules_of(model))(keys)) == expected_text(model, keys)


def test_spaces_are_marked_once(model):
    strings = [b"", b" ", b" a  b ", "▁".encode(), "a▁ ▁".encode(), " \u3000 ".encode(), b"\x01"]
    assert text_of(Normalizer(rules_of(model))(strings)) == expected_text(model, strings)


def test_the_first_mark_can_be_left_out(model):
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.add_dummy_prefix = False
    strings = [b"", b" ", b" a  b ", b"dog", "▁ a".encode()]
    codes = Normalizer(rules_of(model), add_dummy_prefix=False)(strings)
    assert text_of(codes) == expected_text(proto.SerializeToString(), strings)


def test_there_may_be_no_texts(model):
    codes = Normalizer(rules_of(model))(tf.constant([], tf.string))
    assert codes.numpy().tolist() == [SEPARATOR]


@pytest.mark.parametrize("rules", [b"\1\0\0\0" + bytes(9), b"\4\0", bytes(8), b"\xff" * 40])
def test_broken_rules_are_refused(rules):
    with pytest.raises(ValueError, match="rules of the SentencePiece model are broken"):
        read_rules(rules)
