"""Subword tokenizer: round trips, and the graph against the Python library."""

import logging
import subprocess
import sys

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_transformer.data import END, PAD, START, UNK, Tokenizer, train_tokenizer

UNSEEN = [
    "",
    " ",
    "x",
    "漢字 🦊 ẞ",
    "<s> </s> <pad> <0x41>",
    "▁▁a ▁",
    "tab\tline\nﬁn\u200b e\u0301",
]


def text_of(tensor):
    return [string.decode() for string in np.array(tensor).reshape(-1)]


def byte_values(tokenizer):
    return [piece for piece in tokenizer.pieces if piece.startswith("<0x")]


def test_the_special_ids_are_those_of_the_model(tokenizer):
    assert (PAD, START, END, UNK) == (0, 1, 2, 3)
    assert tokenizer.pieces[:4] == ["<pad>", "<s>", "</s>", "<unk>"]


@pytest.mark.parametrize("language", ["en", "ko", "de"])
def test_decoding_inverts_encoding_on_real_phrases(tokenizer, phrases, language):
    texts = [tokenizer.normalize(text) for text in phrases[language]]
    assert sum(a == b for a, b in zip(texts, phrases[language], strict=True)) > 0.9 * len(texts)
    assert text_of(tokenizer.decode(tokenizer.encode(texts))) == texts
    assert tokenizer.decode_list(tokenizer.encode_list(texts)) == texts


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=30))
def test_decoding_inverts_encoding_on_any_normalized_text(tokenizer, texts):
    normal = [tokenizer.normalize(text) for text in texts]
    assert text_of(tokenizer.decode(tokenizer.encode(texts))) == normal
    assert text_of(tokenizer.decode(tokenizer.encode(normal))) == normal
    assert [tokenizer.normalize(text) for text in normal] == normal


def decode_in_python(pieces, ids):
    """Bytes in succession are characters as far as they are UTF-8, and else nothing."""
    ids = ids[: ids.index(END)] if END in ids else ids
    text, run = "", b""
    for index in [*(i for i in ids if i not in (PAD, START)), None]:
        piece = "" if index is None else pieces[index]
        if piece.startswith("<0x"):
            run += bytes([int(piece[3:5], 16)])
            continue
        text += run.decode("utf-8", "ignore").replace("\ufffd", "")
        text, run = text + (" ⁇ " if index == UNK else piece.replace("▁", " ")), b""
    return text


def test_core_ops_give_the_same(tokenizer, phrases):
    core = tokenizer.with_core_ops()
    texts = UNSEEN + phrases["en"][:300] + phrases["ko"][:300]
    assert core.encode(texts).to_list() == tokenizer.encode(texts).to_list()
    ids = np.random.default_rng(0).integers(0, tokenizer.vocab_size, (200, 3, 6), "int32")
    assert text_of(core.decode(ids)) == text_of(tokenizer.decode(ids))
    assert text_of(core.to_pieces(ids)) == text_of(tokenizer.to_pieces(ids))
    assert core.encode_list(texts[:9]) == tokenizer.encode_list(texts[:9])


def test_any_ids_decode_to_valid_text_without_incomplete_characters(tokenizer):
    rng, pieces = np.random.default_rng(0), tokenizer.pieces
    bytes_ = [i for i, piece in enumerate(pieces) if piece.startswith("<0x")]
    first, second = bytes_[0xC0:], bytes_[0x80:0xC0]  # of characters of several bytes
    rows = []
    for _ in range(2000):
        row = []
        for _ in range(rng.integers(1, 6)):
            kind = rng.integers(4)
            row += rng.integers(len(pieces), size=rng.integers(3)).tolist() if kind == 0 else []
            row += rng.choice(bytes_, rng.integers(4)).tolist() if kind == 1 else []
            row += [rng.choice(first), *rng.choice(second, rng.integers(4))] if kind > 1 else []
        rows.append([int(i) for i in row])
    rows.append([bytes_[value] for value in "a\ufffdé🦊".encode()])
    found = tokenizer.decode_list(rows)
    assert text_of(tokenizer.decode(tf.ragged.constant(rows, tf.int32))) == found
    for row, text in zip(rows, found, strict=True):
        assert text.lstrip(" ") == decode_in_python(pieces, row).lstrip(" ")
        assert "\ufffd" not in text
    assert found[-1] == "aé🦊" and len(set(found)) > 1000


def test_ids_in_the_graph_are_those_of_the_python_library(tokenizer, phrases):
    texts = UNSEEN + phrases["en"] + phrases["ko"] + phrases["de"]
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    ids = tokenizer.encode(texts)
    assert ids.dtype == tf.int32
    assert ids.to_list() == processor.encode(texts) == tokenizer.encode_list(texts)
    assert text_of(tokenizer.decode(ids)) == processor.decode(ids.to_list())


def test_text_never_becomes_a_special_id(tokenizer):
    ids = tokenizer.encode(["<s> </s> <pad> <unk>", *UNSEEN]).flat_values
    assert min(ids.numpy()) > UNK


def test_an_unseen_character_is_encoded_as_bytes_or_unknown(tokenizer, phrases):
    without = train_tokenizer(phrases["en"], 500, byte_fallback=False)
    assert len(byte_values(tokenizer)) == 256 and not byte_values(without)
    pieces = [tokenizer.pieces[i] for i in tokenizer.encode_list(["🦊"])[0]]
    assert pieces[-4:] == [f"<0x{byte:02X}>" for byte in "🦊".encode()]
    assert without.encode_list(["🦊"])[0][-1] == UNK


def test_decoding_stops_at_end_and_drops_padding_and_start(tokenizer):
    dog, cat = tokenizer.encode_list(["dog", "cat"])
    rows = [[START, *dog, END, *cat], [*cat, PAD, *dog, PAD], [END, *dog], [PAD, PAD]]
    expected = ["dog", "cat dog", "", ""]
    assert tokenizer.decode_list(rows) == expected
    ragged = tf.ragged.constant(rows, dtype=tf.int32)
    assert text_of(tokenizer.decode(ragged)) == expected
    assert text_of(tokenizer.decode(ragged.to_tensor(PAD))) == expected
    assert tokenizer.decode_list(ragged.to_tensor(PAD).numpy()) == expected


def test_decoding_keeps_the_leading_axes(tokenizer):
    dog, cat = (row[0] for row in tokenizer.encode_list(["dog", "cat"]))
    assert tokenizer.decode(np.array([dog, END])).shape == ()
    beams = tf.constant([[[dog, END, PAD], [cat, dog, END]]] * 5, tf.int64)  # (B, beams, T)
    result = tokenizer.decode(beams)
    assert result.shape == (5, 2)
    assert text_of(result[0]) == tokenizer.decode_list([[dog], [cat, dog]])


def test_an_empty_batch_stays_empty(tokenizer):
    empty = tokenizer.encode(tf.constant([], tf.string))
    assert empty.shape[0] == 0
    assert tokenizer.decode(empty).shape == (0,)


def test_the_tokenizer_runs_in_tf_data_and_in_a_function(tokenizer, phrases):
    texts = phrases["ko"][:50]
    round_trip = tf.function(
        lambda strings: tokenizer.decode(tokenizer.encode(strings)),
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    assert text_of(round_trip(tf.constant(texts))) == texts
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(7).map(tokenizer.encode)
    assert [row for batch in dataset for row in batch.to_list()] == tokenizer.encode_list(texts)


def test_a_saved_file_loads_as_the_same_tokenizer(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "joint.model")
    loaded = Tokenizer.load(tmp_path / "joint.model")
    assert loaded.vocab_size == tokenizer.vocab_size == len(tokenizer.pieces) == 2500
    assert loaded.encode_list(UNSEEN) == tokenizer.encode_list(UNSEEN)


def test_the_model_survives_a_new_seed_and_a_cleared_session(tokenizer, phrases):
    ids = tokenizer.encode_list(phrases["ko"][:5])
    encode = tf.function(tokenizer.encode)
    encode(tf.constant(phrases["ko"][:5]))
    keras.utils.set_random_seed(7)
    keras.backend.clear_session()
    assert tokenizer.encode(phrases["ko"][:5]).to_list() == ids
    assert encode(tf.constant(phrases["ko"][:5])).to_list() == ids


def test_two_tokenizers_do_not_share_a_model(tokenizer, phrases):
    other = train_tokenizer(phrases["en"], 500)
    for one in (tokenizer, other, tokenizer):
        assert one.encode(["dog face"]).to_list() == one.encode_list(["dog face"])
    assert other.encode_list(["dog face"]) != tokenizer.encode_list(["dog face"])


FRESH = """
import sys, tensorflow as tf, tensorflow_text
module = tf.saved_model.load(sys.argv[1])
tf.random.set_seed(3)
result = module.signatures["serving_default"](text=tf.constant(["dog face", "여자 화가"]))
sys.stdout.buffer.write(b"|".join(result["text"].numpy()))
print("", result["ids"].numpy().tolist(), "tfx_transformer" in sys.modules, sep="|")
"""


def test_a_saved_model_takes_and_returns_strings_in_a_fresh_process(tokenizer, tmp_path):
    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.tokenizer = tokenizer

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def serve(self, text):
            ids = self.tokenizer.encode(text).to_tensor(PAD)
            return {"ids": ids, "text": self.tokenizer.decode(ids)}

    module = Module()
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.serve)
    # from the temporary folder, so that this package cannot be found
    command = [sys.executable, "-c", FRESH, str(tmp_path / "model")]
    run = subprocess.run(command, capture_output=True, cwd=tmp_path, check=True)
    ids = tokenizer.encode(["dog face", "여자 화가"]).to_tensor(PAD).numpy().tolist()
    assert run.stdout.decode().strip() == f"dog face|여자 화가|{ids}|False"


def test_only_the_oldest_text_ops_are_needed_to_serve(tokenizer):
    serve = tf.function(lambda strings: tokenizer.decode(tokenizer.encode(strings)))
    graph = serve.get_concrete_function(tf.TensorSpec([None], tf.string)).graph
    ops = {op.type for op in graph.get_operations() if "piece" in op.type.lower()}
    assert ops == {"SentencepieceTokenizeOp", "SentencepieceDetokenizeOp"}


def test_training_twice_gives_the_same_bytes(phrases):
    for kind in ("unigram", "bpe"):
        once, again = (train_tokenizer(phrases["de"], 700, kind=kind) for _ in range(2))
        assert once.model == again.model
        assert once.vocab_size == 700


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_small_text_gives_a_smaller_vocabulary_and_a_warning(kind, caplog):
    with caplog.at_level(logging.WARNING):
        small = train_tokenizer(["a dog", "a cat and a dog"], 5000, kind=kind)
    assert 4 + 256 < small.vocab_size < 5000
    assert f"supports a vocabulary of {small.vocab_size} pieces only, not 5,000" in caplog.text
    assert small.decode_list(small.encode_list(["a cat", "Zebra"])) == ["a cat", "Zebra"]


def test_a_vocabulary_smaller_than_the_characters_is_refused(phrases):
    with pytest.raises(ValueError, match=r"vocab_size=300 .* 300 vs \d+\. Increase vocab_size"):
        train_tokenizer(phrases["ko"], 300)


def test_the_rarest_characters_can_be_encoded_as_bytes(phrases):
    sizes = [
        sum(len(piece) == 1 for piece in train_tokenizer(phrases["ko"], 1500, **options).pieces)
        for options in ({"character_coverage": 1.0}, {}, {"character_coverage": 0.98})
    ]
    assert sizes[0] > sizes[1] > sizes[2]
    smallest = train_tokenizer(phrases["ko"], 1000, character_coverage=0.98)
    assert smallest.decode_list(smallest.encode_list(phrases["ko"])) == phrases["ko"]


def test_training_is_silent(phrases, capfd):
    train_tokenizer(phrases["en"], 500)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_the_normalization_can_be_chosen(phrases):
    folded = train_tokenizer(phrases["en"], 500, normalization="nmt_nfkc_cf")
    assert folded.decode_list(folded.encode_list(["Ｄog  FACE"])) == ["dog face"]
    standard = train_tokenizer(phrases["en"], 500)
    assert standard.normalize(" Ｄog  FACE ") == "Dog FACE"


def test_training_uses_evenly_spaced_sentences_if_there_are_too_many():
    texts = ["aa bb", "cc dd"] * 20
    assert "c" not in "".join(train_tokenizer(texts, 280, max_sentences=20).pieces[260:])
    assert "c" in "".join(train_tokenizer(texts, 280, max_sentences=40).pieces[260:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "word"}, "unknown kind 'word'; known: unigram, bpe"),
        ({"normalization": "nfc"}, "unknown normalization 'nfc'"),
        ({"character_coverage": 0.5}, "must lie in 0.98 … 1; got character_coverage=0.5"),
        ({"vocab_size": 0}, "vocab_size must be a whole number above zero"),
        ({"texts": ["", " "]}, "at least one sentence"),
    ],
)
def test_an_invalid_argument_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        train_tokenizer(**{"texts": ["a dog"], "vocab_size": 300} | change)


def test_bytes_that_are_not_a_model_are_refused():
    with pytest.raises(ValueError, match=r"not a SentencePiece model \(4 bytes\)"):
        Tokenizer(b"junk")


def test_a_model_with_other_special_ids_is_refused(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a dog and a cat"] * 9),
        model_prefix=str(tmp_path / "other"),
        vocab_size=20,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    with pytest.raises(ValueError, match=r"= \[0, 1, 2, 3\]; got \[-1, 1, 2, 0\]"):
        Tokenizer.load(tmp_path / "other.model")
