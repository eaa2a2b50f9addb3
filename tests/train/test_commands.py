import importlib.util
import json

import pytest

from tfx_transformer.export import FORMATS
from tfx_transformer.layers import ATTENTION, POSITION
from tfx_transformer.train import commands
from tfx_transformer.train.cli import main


def test_layers_lists_all_names(capsys):
    main(["layers"])
    out = capsys.readouterr().out
    for name in (*ATTENTION, *POSITION):
        assert name in out


def test_the_formats_of_an_export_are_those_of_the_package():
    assert set(commands.FORMATS) == set(FORMATS)


def test_an_export_is_made_inspected_and_used(run, tmp_path, capsys):
    folder = str(tmp_path / "served")
    main(["export", str(run[0]), "--to", folder, "--kind", "greedy"])
    shown = capsys.readouterr().out
    assert "serving_default" in shown
    assert shown.endswith(f"next: tfx-transformer serve {folder}\n")
    main(["inspect", folder])
    assert "needs tensorflow-text: no" in capsys.readouterr().out
    main(["translate", folder, "blue cat"])
    assert capsys.readouterr().out == "blau Katze\n"
    with pytest.raises(SystemExit, match="served is an export; its run folder is needed here"):
        main(["evaluate", folder])


def test_a_run_is_scored_and_plotted(run, tmp_path, capsys):
    main(["evaluate", str(run[0]), "--width", "1", "--n-best", "1"])
    assert json.loads(capsys.readouterr().out)["bleu"] > 60
    main(["plot", str(run[0]), "red cat", "--to", str(tmp_path), "--word", "cat"])
    assert str(tmp_path / "word.png") in capsys.readouterr().out.splitlines()


def test_an_image_is_plotted(classify_run, pictures, tmp_path, capsys):
    main(["plot", str(classify_run[0]), str(pictures / "red/1.jpg"), "--to", str(tmp_path)])
    assert str(tmp_path / "rollout.png") in capsys.readouterr().out.splitlines()


def test_a_version_is_exported_for_tensorflow_serving(classify_run, tmp_path, capsys):
    run, folder = classify_run[0], tmp_path / "models"
    command = ["export", str(run), "--for-serving", "--to"]
    main([*command, str(folder)])
    shown = capsys.readouterr().out
    assert shown.startswith(f"{folder / run.name / '1'}\nexplain\n")
    assert shown.endswith(f"next: cd {folder} && docker compose up\n")
    assert f'name: "{run.name}"' in (folder / "models.config").read_text()
    with pytest.raises(SystemExit, match="must be new or have a file models.config"):
        main([*command, str(tmp_path)])
    with pytest.raises(SystemExit, match="format must be saved_model .*; got format=litert"):
        main([*command, str(folder), "--format", "litert"])


def test_the_export_of_a_captioner_is_inspected(caption_export, capsys):
    main(["inspect", str(caption_export)])
    shown = capsys.readouterr().out
    assert "images\n  in  image: float32 [?, 32, 32, 3]" in shown
    assert (
        "serving_default\n  in  image: string [?]" in shown and "needs tensorflow-text: no" in shown
    )
    assert "bleu_4" in (caption_export / "README.md").read_text()


def test_a_captioner_is_plotted(caption_run, pictures, tmp_path, capsys):
    main(["plot", str(caption_run[0]), str(pictures / "red/1.jpg"), "--to", str(tmp_path)])
    assert capsys.readouterr().out.splitlines() == [
        str(tmp_path / "curves.png"),
        str(tmp_path / "regions.png"),
    ]


def test_only_runs_of_one_task_are_compared(run, classify_run):
    with pytest.raises(SystemExit, match="holds a classifier, not a translator"):
        main(["compare", str(run[0]), str(classify_run[0])])
    with pytest.raises(SystemExit, match="a classifier cannot be compared"):
        main(["compare", str(classify_run[0])])
    with pytest.raises(SystemExit, match="runs must name at least one run folder"):
        main(["compare"])


def test_serve_names_the_extra_that_is_missing(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    for package, engine, message in (
        ("uvicorn", "local", r'serve needs the package uvicorn: .* ".\[serve\]"'),
        ("ray", "ray", r'engine=ray needs the package ray\[serve\]: .* ".\[ray\]"'),
    ):
        hidden = lambda name, missing=package: None if name == missing else find(name)  # noqa: E731
        monkeypatch.setattr(importlib.util, "find_spec", hidden)
        with pytest.raises(SystemExit, match=message):
            main(["serve", str(tmp_path), "--engine", engine])


def test_serve_checks_its_options_before_it_starts(tmp_path):
    for arguments, message in (
        ([], "models must name at least one folder"),
        ([str(tmp_path / "x")], "models must name folders; there is no"),
        ([f"a={tmp_path}", f"a={tmp_path}"], "models must have different names"),
        ([str(tmp_path), "--max-rows", "0"], "max_rows must be a whole number above zero"),
        ([str(tmp_path), "--replicas", "2"], "the options of replicas need engine=ray"),
        ([str(tmp_path), "--token", ""], "token and TFX_TRANSFORMER_TOKEN must not be empty"),
    ):
        with pytest.raises(SystemExit, match=f"^tfx-transformer: {message}"):
            main(["serve", *arguments])
