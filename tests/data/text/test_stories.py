"""Files in the format of bAbI, folders of them, and the embedded stories."""

import gzip

import pytest

from tfx_transformer.data.text.stories import load_stories, read_stories
from tfx_transformer.data.text.story_world import COUNTS, KINDS, Question

BABI = """\
1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Daniel took the milk there.
5 What is Daniel carrying?  \tmilk,apple\t4 2
1 Sandra left.
2 Who left?\tSandra\t
3 Who is here?\tnobody
"""


@pytest.fixture
def babi(tmp_path):
    path = tmp_path / "qa1_single-supporting-fact_train.txt"
    path.write_text(BABI)
    return path


def test_a_file_of_babi_is_read(babi):
    two = ("Mary moved to the bathroom.", "John went to the hallway.")
    three = (*two, "Daniel took the milk there.")
    assert read_stories(babi, "qa1") == [
        [
            Question("qa1", two, "Where is Mary?", "bathroom", (0,)),
            Question("qa1", three, "What is Daniel carrying?", "milk,apple", (2, 1)),
        ],
        [
            Question("qa1", ("Sandra left.",), "Who left?", "Sandra"),
            Question("qa1", ("Sandra left.",), "Who is here?", "nobody"),
        ],
    ]


@pytest.mark.parametrize(
    "text, message",
    [
        ("2 Mary left.\n", "line 1: must begin with 1; got '2 Mary left.'"),
        ("1 Mary left.\n3 John left.\n", "line 2: must begin with 1 or 2"),
        ("Mary left.\n", "line 1: must begin with 1"),
        ("1 Who?\tMary\t\n", "line 1: must be question<TAB>answer"),
        ("1 Mary left.\n2 Who?\t\t1\n", "line 2: must be question<TAB>answer"),
        ("1 Mary left.\n2 Who?\tMary\t2\n", "line 2: must be question<TAB>answer"),
        ("1 Mary left.\n2 Who?\tMary\tone\n", "line 2: must be question<TAB>answer"),
    ],
)
def test_wrong_lines_are_named(text, message, tmp_path):
    (tmp_path / "x.txt").write_text(text)
    with pytest.raises(ValueError, match=f"x.txt, {message}"):
        load_stories(tmp_path / "x.txt", "test", ())


def write_many(path, count):
    lines = [f"1 Number {i} left.\n2 Who left?\t{i}\t1\n3 Who is it?\t{i}\n" for i in range(count)]
    with gzip.open(path, "wt") as file:
        file.writelines(lines)


def test_a_tenth_of_the_stories_of_a_file_is_held_out(tmp_path):
    path = tmp_path / "mine.txt.gz"
    write_many(path, 300)
    splits = {split: load_stories(path, split) for split in ("train", "validation", "test")}
    stories = {split: {x.story for x in part.questions} for split, part in splits.items()}
    assert sum(map(len, stories.values())) == 300 == len(set().union(*stories.values()))
    assert sum(map(len, splits.values())) == 600  # both questions of a story are in one split
    assert 15 < len(stories["test"]) < 45 and 15 < len(stories["validation"]) < 45
    assert {x.kind for x in splits["test"].questions} == {"mine"}
    assert len(load_stories(path, "train", ("validation",))) == 2 * len(
        stories["train"] | stories["test"]
    )
    assert len(load_stories(path, "test", ())) == 600


def test_a_folder_has_a_kind_in_each_file(tmp_path, babi):
    write_many(tmp_path / "qa10_x_train.txt.gz", 100)
    write_many(tmp_path / "qa10_x_test.txt.gz", 7)
    (tmp_path / "README.txt").write_text("nothing to read")
    test = load_stories(tmp_path, "test")
    assert len(test) == 14 and {x.kind for x in test.questions} == {"qa10_x"}
    train = load_stories(tmp_path, "train", ("validation", "test"))
    validation = load_stories(tmp_path, "validation", ("validation", "test"))
    assert len(train) + len(validation) == 204
    for kind in ("qa10_x", "qa1_single-supporting-fact"):
        assert f" {kind}" in str(train)
    with pytest.raises(ValueError, match=r"must have files …_train.txt, and …_validation.txt"):
        load_stories(tmp_path, "validation", ())


def test_embedded_kinds_can_be_chosen():
    some = load_stories("embedded:stories/yes_no-lists", "validation")
    assert len(some) == 2 * COUNTS["validation"]
    assert {x.kind for x in some.questions} == {"yes_no", "lists"} < {*KINDS}


@pytest.mark.parametrize(
    "spec, message",
    [
        ("embedded:novels", "unknown source 'embedded:novels'; known: a folder of"),
        ("embedded:stories/x", "unknown kind 'x'"),
        ("x.csv", "unknown source 'x.csv'"),
    ],
)
def test_unknown_sources_are_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        load_stories(spec, "test")


def test_a_source_without_questions_is_refused(tmp_path):
    (tmp_path / "x.txt").write_text("1 Mary left.\n")
    with pytest.raises(ValueError, match=r"x.txt \(train\) has no questions"):
        load_stories(tmp_path / "x.txt")
