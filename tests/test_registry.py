import pytest

from tfx_transformer.registry import Registry


class Part:
    def __init__(self, size=1, colour="red"):
        self.size, self.colour = size, colour


PARTS = Registry("part", {"part": Part})


def test_a_name_or_a_dict_builds_and_the_dict_wins_over_what_is_shared():
    assert PARTS.make("part").size == 1
    made = PARTS.make({"kind": "part", "size": 2}, size=3, colour="blue")
    assert (made.size, made.colour) == (2, "blue")


def test_the_spec_is_left_as_it_was():
    spec = {"kind": "part", "size": 2}
    PARTS.make(spec)
    assert spec == {"kind": "part", "size": 2}


@pytest.mark.parametrize("spec", ["other", {"kind": "other"}, {"size": 1}, None, ["part"]])
def test_an_unknown_spec_lists_the_known(spec):
    with pytest.raises(ValueError, match=r"unknown part .*; known: part"):
        PARTS.make(spec)
