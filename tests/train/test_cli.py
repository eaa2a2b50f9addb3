import subprocess
import sys
import time

import pytest

from tfx_transformer import __version__
from tfx_transformer.train.cli import main
from tfx_transformer.train.launch import local
from tfx_transformer.train.recipes import MODULES


def test_the_version_is_the_package_s(capsys):
    main(["--version"])
    assert capsys.readouterr().out == f"tfx-transformer {__version__}\n"


def test_no_command_fails_and_names_those_that_exist(capsys):
    with pytest.raises(SystemExit) as exit:
        main([])
    captured = capsys.readouterr()
    assert exit.value.code == 2 and "demo" in captured.err + captured.out


def test_misspelled_commands_and_options_are_reported_in_one_line():
    for arguments, message in (
        (["trian", "x"], "unknown command trian; did you mean train[?]$"),
        (["fly"], "unknown command fly; known: answer, caption, .*translate$"),
        (["translate", "x", "--n-bset", "3"], "unknown option --n-bset; did you mean --n-best[?]$"),
        (["serve", "x", "--max-row=3"], "unknown option --max-row; did you mean --max-rows[?]$"),
        (["list", "--jason"], "unknown option --jason; did you mean --json[?]$"),
        (["launch", "--worker", "2", "train"], "unknown option --worker; did you mean --workers"),
    ):
        with pytest.raises(SystemExit, match=f"^tfx-transformer: {message}"):
            main(arguments)


def test_help_names_what_to_type(capsys):
    for command, names in {
        "translate": ("MODEL [SENTENCE …]", "default: as in the recipe"),
        "evaluate": ("RUN", "default: as in the recipe"),
        "classify": ("MODEL FILE …",),
        "serve": ("[NAME=]FOLDER …",),
    }.items():
        with pytest.raises(SystemExit):
            main([command, "--help"])
        shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
        assert all(name in shown for name in names), shown


def test_help_answers_in_less_than_a_second():
    command = [sys.executable, "-m", "tfx_transformer.train.cli", "--help"]
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds.append(time.perf_counter() - start)
    assert "translate" in result.stdout and "train" in result.stdout
    assert min(seconds) < 1


def test_train_help_shows_the_first_line_of_every_recipe(capsys):
    main(["train", "--help"])
    out = capsys.readouterr().out
    for name, module in MODULES.items():
        assert any(
            line.split() == [name, *module.__doc__.split("\n")[0].split()]
            for line in out.splitlines()
        )


def test_an_unknown_recipe_fails_even_with_help():
    with pytest.raises(SystemExit, match="unknown recipe 'translate_emojis'; did you mean trans"):
        main(["train", "translate_emojis", "--help"])
    with pytest.raises(SystemExit, match="unknown recipe 'x'; see tfx-transformer train --help"):
        main(["train", "x"])


def test_launch_passes_the_arguments_of_train_to_workers(corpus, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(local, "launch", lambda *arguments: started.append(arguments) or 7)
    options = ["--model.variant", "test", "--folder", str(tmp_path)]
    options += ["--data.train", str(corpus / "train.en"), str(corpus / "train.de")]
    with pytest.raises(SystemExit) as exit:
        main(["launch", "--workers", "3", "train", "translate_multi30k", *options])
    ((command, folder, found),) = started
    assert exit.value.code == 7 and folder == tmp_path and found.workers == 3
    assert command[3:] == ["train", "translate_multi30k", *options, "--strategy", "multiworker"]


def test_launch_needs_a_recipe_that_exists():
    with pytest.raises(SystemExit, match="launch must be followed by train RECIPE"):
        main(["launch", "--workers", "2"])
    with pytest.raises(SystemExit, match="unknown recipe 'x'"):
        main(["launch", "train", "x"])


def test_a_run_is_used_in_a_process_of_its_own(run):
    command = [sys.executable, "-m", "tfx_transformer.train.cli", "translate", str(run[0])]
    result = subprocess.run([*command, "red cat"], capture_output=True, text=True, timeout=200)
    assert (result.stdout, result.stderr) == ("rot Katze\n", "")


def test_a_recipe_is_trained_with_options(corpus, tmp_path, capsys):
    data = [
        part
        for split, name in (("train", "train"), ("validation", "val"), ("test", "test"))
        for part in (f"--data.{split}", str(corpus / f"{name}.en"), str(corpus / f"{name}.de"))
    ]
    options = ["--steps", "2", "--eval-steps", "2", "--data.vocab-size", "300", "--average", "1"]
    options += ["--optimizer.schedule", "inverse_sqrt", "--optimizer.warmup-steps", "1"]
    folder = str(tmp_path / "run")
    options += ["--folder", folder, "--model.dim", "8", "--model.depth", "1"]
    main(["train", "translate_multi30k", *data, *options])
    assert f"next: tfx-transformer export {folder}" in capsys.readouterr().out


def test_a_wrong_value_is_reported_in_one_line(tmp_path):
    with pytest.raises(SystemExit, match=r"^tfx-transformer: .* holds no trained model"):
        main(["translate", str(tmp_path), "red cat"])
    folder = ["--folder", str(tmp_path / "run")]
    with pytest.raises(SystemExit, match=r"^tfx-transformer train: --data.train must name a sou"):
        main(["train", "translate_multi30k", *folder])
    with pytest.raises(SystemExit, match=r"^tfx-transformer train: --data.images must name"):
        main(["train", "caption_flickr8k", *folder])
    with pytest.raises(SystemExit, match=r"--model: num_heads must divide dim; got num_heads=7"):
        main(["train", "translate_emoji", "--model.num-heads", "7", *folder])
    with pytest.raises(SystemExit, match=r"--model.variant is needed for swin"):
        main(["train", "classify", "--model.name", "swin", "--data.source", str(tmp_path), *folder])
    with pytest.raises(SystemExit, match=r"--model: unknown vit variant 'huge'; known: test, "):
        main(["train", "classify_digits", "--model.variant", "huge", *folder])
    with pytest.raises(SystemExit, match=r"^tfx-transformer: run must name .* there is no none"):
        main(["evaluate", "none"])
    with pytest.raises(SystemExit, match=r"^tfx-transformer: to must be new; .* already exists"):
        main(["export", str(tmp_path), "--to", str(tmp_path)])
    assert not (tmp_path / "run").exists()
