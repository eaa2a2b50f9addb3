from tfx_transformer.data.splits import split_of


def test_the_split_of_a_name_never_changes():
    names = ("running", "elf", "police officer", "family")
    assert [split_of(name) for name in names] == ["test", "train", "validation", "train"]
