from tfx_transformer.data.splits import assign_split, is_in_split, split_rows


def test_the_split_of_a_key_never_changes():
    names = ("running", "elf", "police officer", "family")
    assert [assign_split(name) for name in names] == ["test", "train", "validation", "train"]


def test_a_missing_split_is_held_out_from_train():
    counts = {"train": 50, "test": 3}
    rows = {split: split_rows(counts, split, True) for split in ("train", "validation", "test")}
    assert rows["test"] == ("test", [0, 1, 2]) and rows["validation"][0] == "train"
    assert rows["validation"][1] == [i for i in range(50) if assign_split(str(i)) == "validation"]
    assert sorted(rows["train"][1] + rows["validation"][1]) == list(range(50))
    assert split_rows(counts, "validation", False) == ("train", list(range(50)))
    assert is_in_split("test", "running", ("train", "test"), "test", True)
