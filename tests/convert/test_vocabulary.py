import numpy as np
import pytest

from tfx_transformer.convert.vocabulary import NEVER, Tables, Vocabulary

MARIAN = Vocabulary(["</s>", "<unk>", "a", "b", "<pad>"], pad=4, start=4, end=0, unk=1)
BARE = Vocabulary(["<s>", "</s>", "a", "<unk>"], pad=None, start=0, end=1, unk=3)


def test_special_tokens_come_first_and_the_rest_keeps_its_order():
    assert MARIAN.order == [4, 4, 0, 1, 2, 3]
    assert MARIAN.pieces == ["<pad>", "<s>", "</s>", "<unk>", "a", "b"]
    assert BARE.order == [None, 0, 1, 3, 2]
    assert BARE.pieces == ["<pad>", "<s>", "</s>", "<unk>", "a"]


def test_rows_move_with_their_tokens(draw):
    table = draw(5, 3)
    np.testing.assert_array_equal(MARIAN.rows(table), table[[4, 4, 0, 1, 2, 3]])
    rows = BARE.rows(table[:4])
    assert (rows[0] == 0).all()
    np.testing.assert_array_equal(rows[1:], table[[0, 1, 3, 2]])


def test_what_is_there_once_comes_out_once():
    bias = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    expected = [0.5, NEVER, 0.1, 0.2, 0.3, 0.4]
    np.testing.assert_allclose(MARIAN.bias(bias), expected, rtol=1e-6)
    np.testing.assert_allclose(MARIAN.bias(bias, pad_comes=False), [NEVER, *expected[1:]])
    np.testing.assert_allclose(BARE.bias(bias[:4]), [NEVER, 0.1, 0.2, 0.4, 0.3], rtol=1e-6)


def tables(draw, **changes):
    table = draw(5, 3)
    own = {"source": table, "target": table, "output": table, "bias": draw(5)}
    return Tables(**own | {"source_vocabulary": MARIAN, "target_vocabulary": MARIAN} | changes)


def test_tables_of_the_same_numbers_are_one(draw):
    one = tables(draw)
    assert one.tie == "all"
    assert one.options() == {
        "vocab_size": 6,
        "source_vocab_size": 6,
        "tie": "all",
        "output_bias": True,
        "dim": 3,
    }
    assert sorted(one.entries()) == ["output_bias", "target_table"]
    np.testing.assert_array_equal(one.entries()["target_table"], MARIAN.rows(one.target))
    np.testing.assert_array_equal(one.entries()["output_bias"], MARIAN.bias(one.bias))


@pytest.mark.parametrize("vocabulary", [MARIAN, BARE])
def test_tables_of_other_numbers_are_apart(vocabulary, draw):
    source = draw(len(vocabulary.tokens), 3)
    two = tables(draw, source=source, source_vocabulary=vocabulary)
    assert two.tie == "output" and two.options()["source_vocab_size"] == len(vocabulary.order)
    np.testing.assert_array_equal(two.entries()["source_table"], vocabulary.rows(source))
    three = tables(draw, output=draw(5, 3))
    assert three.tie == "none"
    assert sorted(three.entries()) == [
        "output_bias",
        "output_table",
        "source_table",
        "target_table",
    ]
    np.testing.assert_array_equal(three.entries()["output_table"], MARIAN.rows(three.output))


def test_the_same_numbers_in_another_order_are_not_one(draw):
    other = Vocabulary(MARIAN.tokens, pad=4, start=4, end=0, unk=2)
    assert tables(draw, source_vocabulary=other).tie == "output"


def test_padding_may_be_kept_from_coming(draw):
    assert tables(draw, pad_comes=False).entries()["output_bias"][0] == NEVER
