"""WordPiece against stored ids of BERT, and against Hugging Face if it is installed."""

import importlib.util
import json

import pytest
import tensorflow as tf

from tfx_transformer.data.text.wordpiece import WordPiece

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "un", "##aff", "##able"]
PIECES += ["na", "##ive", ",", "!", "中", "国", "##s", "the", "Na", "##ï"]
TEXTS = ["Hello, worlds!unaffable", "naïve 中国 xyz", "", "the\tthe\u200b the\0 the", "Naï"]
TEXTS += ["hello world\u00a0the \ufffd the", "un" + "s" * 120]
LOWER = [[5, 12, 6, 16, 13, 7, 8, 9], [10, 11, 14, 15, 1], [], [17, 17, 17, 17], [1]]
LOWER += [[5, 6, 17, 17], [1]]
CASED = [[1, 12, 6, 16, 13, 7, 8, 9], [1, 14, 15, 1], [], [17, 17, 17, 17], [18, 19]]
CASED += [[5, 6, 17, 17], [1]]


@pytest.mark.parametrize("lower_case, ids", [(True, LOWER), (False, CASED)], ids=["lower", "cased"])
def test_the_ids_are_those_of_bert(lower_case, ids):
    tokenizer = WordPiece(PIECES, lower_case)
    assert tokenizer.encode_list(TEXTS) == ids
    encode = tf.function(tokenizer.encode, autograph=False)
    assert encode(tf.constant(TEXTS)).to_list() == ids
    assert encode(tf.constant(TEXTS)).dtype == tf.int32


ACCENTS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "naïve", "naive", "Naïve", "Naive", "όσοσ", "İ"]
ACCENTS += ["i\u0307", "i"]


@pytest.mark.parametrize(
    "lower_case, strip_accents, ids",
    [
        (True, None, [5, 1, 11]),  # as lower_case
        (True, True, [5, 1, 11]),
        (True, False, [4, 8, 10]),
        (False, None, [6, 1, 9]),
        (False, False, [6, 1, 9]),
        (False, True, [7, 1, 1]),
    ],
)
def test_accents_are_stripped_as_the_config_says(lower_case, strip_accents, ids, tmp_path):
    WordPiece(ACCENTS).save(tmp_path)
    config = {"do_lower_case": lower_case, "strip_accents": strip_accents}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = WordPiece.load(tmp_path)
    assert tokenizer.encode_list(["Naïve ΌΣΟΣ İ"]) == [ids]
    tokenizer.save(tmp_path)
    assert WordPiece.load(tmp_path).encode_list(["Naïve ΌΣΟΣ İ"]) == [ids]


def test_damaged_files_are_refused(tmp_path):
    WordPiece(PIECES).save(tmp_path)
    for content in ('{"do_lower_case": 3}', '{"strip_accents": "no"}', "[]", "{"):
        (tmp_path / "tokenizer_config.json").write_text(content)
        with pytest.raises(ValueError, match=r"tokenizer_config.json[^\n]*$"):
            WordPiece.load(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"vocab.txt is damaged[^\n]*$"):
        WordPiece.load(tmp_path)


@pytest.mark.parametrize("strip_accents", [None, True, False])
@pytest.mark.parametrize("lower_case", [True, False])
def test_the_ids_are_those_of_hugging_face(lower_case, strip_accents, tmp_path):
    if importlib.util.find_spec("tokenizers") is None:
        pytest.skip("tokenizers is not installed")
    from tokenizers import BertWordPieceTokenizer

    options = {"lowercase": lower_case, "strip_accents": strip_accents}
    texts = [*TEXTS, "Naïve ΌΣΟΣ İ"]
    for pieces in (PIECES, ACCENTS):
        WordPiece(pieces, lower_case, strip_accents).save(tmp_path)
        theirs = BertWordPieceTokenizer(str(tmp_path / "vocab.txt"), **options)
        expected = [theirs.encode(text, add_special_tokens=False).ids for text in texts]
        assert WordPiece.load(tmp_path).encode_list(texts) == expected


def test_the_special_ids_are_those_of_the_vocabulary():
    tokenizer = WordPiece(PIECES)
    assert (tokenizer.start_id, tokenizer.end_id, tokenizer.vocab_size) == (2, 3, len(PIECES))


def test_a_tokenizer_is_saved_and_loaded(tmp_path):
    WordPiece(PIECES, lower_case=False).save(tmp_path)
    again = WordPiece.load(tmp_path)
    assert again.pieces == PIECES and not again.lower_case
    (tmp_path / "tokenizer_config.json").unlink()
    assert WordPiece.load(tmp_path).lower_case
    with pytest.raises(FileNotFoundError, match=r"no such file: .*vocab.txt"):
        WordPiece.load(tmp_path / "none")


def test_an_invalid_vocabulary_is_refused():
    with pytest.raises(ValueError, match=r"pieces must include \[SEP\]"):
        WordPiece([piece for piece in PIECES if piece != "[SEP]"])
    with pytest.raises(ValueError, match=r"the first piece must be \[PAD\]; got 'hello'"):
        WordPiece(["hello", *PIECES])
