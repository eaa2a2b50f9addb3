import pytest

from tfx_transformer.train.cli import main

STORY = "Mary went to the kitchen. John moved to the garden.\nSandra went to the office.\n"


def test_questions_are_answered_by_a_run_and_by_its_export(
    answer_run, standard_input, tmp_path, capsys
):
    (tmp_path / "story.txt").write_text(STORY)
    run, served = str(answer_run[0]), str(tmp_path / "served")
    asked = ["Where is John?", "Where is Mary?"]
    main(["answer", run, *asked, "--story", str(tmp_path / "story.txt"), "--hops"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in (lines[0], lines[4])] == ["garden", "kitchen"]
    assert lines[2].endswith("John moved to the garden.") and len(lines) == 8
    main(["export", run, "--to", served])
    assert "in  question: string [?]" in capsys.readouterr().out
    card = (tmp_path / "served/README.md").read_text()
    assert 'story=tf.constant(["Mary went' in card and 'question=tf.constant(["Where' in card
    standard_input(STORY.encode())
    main(["answer", served, *asked])
    answers = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert answers == ["garden", "kitchen"]


def test_a_long_story_is_reported(answer_run, standard_input, capsys):
    standard_input(STORY.encode() * 9)
    main(["answer", str(answer_run[0]), "Where is John?"])
    line = "the story is too long: its last 20 sentences were read"
    assert line in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "question must be given"),
        (["Who?", "--story", "no.txt"], "story must name a file or folder; there is no no.txt"),
    ],
)
def test_a_missing_question_or_file_is_named(arguments, message, answer_run):
    with pytest.raises(SystemExit, match=message):
        main(["answer", str(answer_run[0]), *arguments])


def test_a_story_must_be_utf8(answer_run, tmp_path):
    (tmp_path / "story.txt").write_bytes(b"Mary \xff left.")
    with pytest.raises(SystemExit, match="story.txt is not UTF-8"):
        main(["answer", str(answer_run[0]), "Who?", "--story", str(tmp_path / "story.txt")])
