import numpy as np
import pytest

from tfx_transformer.convert.vocabulary import EmbeddingTables, Vocabulary
from tfx_transformer.decoding.constraints import MASKED

MARIAN = Vocabulary(["</s>", "<unk>", "a", "b", "<pad>"], pad=4, start=4, end=0, unk=1)
NO_PAD = Vocabulary(["<s>", "</s>", "a", "<unk>"], pad=None, start=0, end=1, unk=3)


def test_special_tokens_come_first_and_the_rest_keeps_its_order():
    assert MARIAN.order == [4, 4, 0, 1, 2, 3]
    assert MARIAN.pieces == ["<pad>", "<s>", "</s>", "<unk>", "a", "b"]
    assert NO_PAD.order == [None, 0, 1, 3, 2]
    assert NO_PAD.pieces == ["<pad>", "<s>", "</s>", "<unk>", "a"]


def test_rows_move_with_their_tokens(draw):
    table = draw(5, 3)
    np.testing.assert_array_equal(MARIAN.rows(table), table[[4, 4, 0, 1, 2, 3]])
    rows = NO_PAD.rows(table[:4])
    assert (rows[0] == 0).all()
    np.testing.assert_array_equal(rows[1:], table[[0, 1, 3, 2]])


def test_tokens_that_they_share_or_lack_are_excluded():
    bias = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    expected = [0.5, MASKED, 0.1, 0.2, 0.3, 0.4]
    np.testing.assert_allclose(MARIAN.bias(bias), expected, rtol=1e-6)
    np.testing.assert_allclose(MARIAN.bias(bias, predicts_pad=False), [MASKED, *expected[1:]])
    np.testing.assert_allclose(NO_PAD.bias(bias[:4]), [MASKED, 0.1, 0.2, 0.4, 0.3], rtol=1e-6)


def tables(draw, **changes):
    table = draw(5, 3)
    default = {"source": table, "target": table, "output": table, "bias": draw(5)}
    return EmbeddingTables(
        **default | {"source_vocabulary": MARIAN, "target_vocabulary": MARIAN} | changes
    )


def test_equal_tables_are_tied(draw):
    one = tables(draw)
    assert one.tie == "all"
    assert one.options() == {
        "vocab_size": 6,
        "source_vocab_size": 6,
        "tie": "all",
        "output_bias": True,
        "dim": 3,
    }
    assert sorted(one.arrays()) == ["output_bias", "target_table"]
    np.testing.assert_array_equal(one.arrays()["target_table"], MARIAN.rows(one.target))
    np.testing.assert_array_equal(one.arrays()["output_bias"], MARIAN.bias(one.bias))


@pytest.mark.parametrize("vocabulary", [MARIAN, NO_PAD])
def test_different_tables_are_not_tied(vocabulary, draw):
    source = draw(len(vocabulary.tokens), 3)
    two = tables(draw, source=source, source_vocabulary=vocabulary)
    assert two.tie == "output" and two.options()["source_vocab_size"] == len(vocabulary.order)
    np.testing.assert_array_equal(two.arrays()["source_table"], vocabulary.rows(source))
    three = tables(draw, output=draw(5, 3))
    assert three.tie == "none"
    assert sorted(three.arrays()) == [
        "output_bias",
        "output_table",
        "source_table",
        "target_table",
    ]
    np.testing.assert_array_equal(three.arrays()["output_table"], MARIAN.rows(three.output))


def test_equal_tables_with_different_vocabularies_are_not_tied(draw):
    other = Vocabulary(MARIAN.tokens, pad=4, start=4, end=0, unk=2)
    assert tables(draw, source_vocabulary=other).tie == "output"


def test_padding_can_be_excluded(draw):
    assert tables(draw, predicts_pad=False).arrays()["output_bias"][0] == MASKED
