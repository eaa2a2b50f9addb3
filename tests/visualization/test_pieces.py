import pytest

from tfx_transformer.visualization.pieces import readable


@pytest.mark.parametrize(
    "pieces, labels",
    [
        (["▁ani", "mal", "s", ".", "</s>"], ["ani", "·mal", "·s", ".", "(end)"]),
        (["▁2026", "년", "▁11", "월"], ["2026", "·년", "11", "·월"]),
        (["▁国際", "学校", "に", "。"], ["国際", "学校", "に", "。"]),  # no spaces between words
        (["▁", "犬", "▁", "dog"], ["(space)", "犬", "(space)", "dog"]),
        (["a", "n", "▁", "o", "x"], ["a", "n", "(space)", "o", "x"]),  # characters
        (["▁الت", "فاح"], ["الت", "\u200f·فاح"]),
        (["<s>", "▁x", "<unk>", "y", "<pad>"], ["(start)", "x", "(unknown)", "y", "(padding)"]),
        (
            ["[CLS]", "play", "##ing", "[SEP]", "[MASK]"],
            ["(start)", "play", "·ing", "(end)", "(mask)"],
        ),
        (["▁tone", "<0x3A>", "<0xE2>", "<0x0A>"], ["tone", ":", "(byte E2)", "(line break)"]),
        (["▁a▁b", "c▁d", "\n", "\t"], ["a b", "·c d", "(line break)", "(tab)"]),
    ],
)
def test_subwords_are_readable(pieces, labels):
    assert readable(pieces) == labels


def test_labels_that_are_no_subwords_stay():
    labels = ["0", "red", "사과", "$x$", "<0x3>", "##", ""]
    assert readable(labels) == labels
    assert readable(range(3)) == ["0", "1", "2"]
