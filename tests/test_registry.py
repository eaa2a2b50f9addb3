import pytest

from tfx_transformer.registry import Registry


class Part:
    def __init__(self, size=1, color="red"):
        self.size, self.color = size, color


PARTS = Registry("part", {"part": Part})


def test_options_in_a_spec_override_shared_ones():
    assert PARTS.make("part").size == 1
    made = PARTS.make({"kind": "part", "size": 2}, size=3, color="blue")
    assert (made.size, made.color) == (2, "blue")


def test_the_spec_is_not_changed():
    spec = {"kind": "part", "size": 2}
    PARTS.make(spec)
    assert spec == {"kind": "part", "size": 2}


@pytest.mark.parametrize("spec", ["other", {"kind": "other"}, {"size": 1}, None, ["part"]])
def test_an_unknown_spec_lists_the_known(spec):
    with pytest.raises(ValueError, match=r"unknown part .*; known: part"):
        PARTS.make(spec)


def test_missing_and_unknown_options_are_named():
    with pytest.raises(ValueError, match="^part {'kind': 'part', 'shade': 1}: .*'shade'$"):
        PARTS.make({"kind": "part", "shade": 1})
    sized = Registry("part", {"sized": lambda size: size})
    with pytest.raises(ValueError, match="^part 'sized': missing a required argument: 'size'$"):
        sized.make("sized")
