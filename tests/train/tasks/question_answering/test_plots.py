import pytest

from tfx_transformer.train.run_folder import load_run

TEXT = "Mary went to the kitchen. John moved to the garden. Where is John?"


def test_the_sentences_of_each_hop_are_plotted(answer_run, tmp_path, monkeypatch):
    from tfx_transformer.train.tasks.question_answering import plots

    calls = []
    monkeypatch.setattr(plots, "plot_attention", lambda *args: calls.append(args) or args[1])
    run = load_run(answer_run[0])
    (path,) = plots.plot(run, TEXT, lambda name: tmp_path / name, -1)
    (tmp_path / "story.txt").write_text(TEXT.replace(". ", ".\n"))
    assert plots.plot(run, str(tmp_path / "story.txt"), lambda name: tmp_path / name, -1) == [path]
    for weights, _, sentences, hops, title, _ in calls:
        assert weights.shape == (2, 2) and hops == ["hop 1", "hop 2"]
        assert sentences == ["Mary went to the kitchen.", "John moved to the garden."]
        assert title.startswith("Where is John? garden (")


def test_a_question_needs_a_story(answer_run, tmp_path):
    run = load_run(answer_run[0])
    for text in ("Where is John?", ""):
        with pytest.raises(ValueError, match="the text must be sentences and then a question"):
            run.task.plot(run, text, to=str(tmp_path))
