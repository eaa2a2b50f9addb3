"""Weights are found in a file, in a folder, or on the Hugging Face Hub."""

import sys
from fnmatch import fnmatch
from types import SimpleNamespace

import pytest

from tfx_transformer.convert.hub import find_checkpoint, find_folder


class HubError(Exception):
    """The error class of the Hub."""


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Replaces huggingface_hub: one repository, with files that the test sets."""
    fake = SimpleNamespace(files=[], calls=[], errors=SimpleNamespace(HfHubHTTPError=HubError))

    def snapshot_download(name, revision, allow_patterns):
        fake.calls.append((name, revision))
        if name != "someone/some-model":
            raise HubError("404 Client Error\nsome more")
        for file in fake.files:
            if any(fnmatch(file, pattern) for pattern in allow_patterns):
                (tmp_path / file).write_text(file)
        return str(tmp_path)

    fake.snapshot_download = snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    return fake


def test_local_files_and_folders_are_found(tmp_path):
    assert find_folder(tmp_path) == tmp_path
    for name in ("pytorch_model.bin", "model.safetensors"):  # the second wins
        (tmp_path / name).touch()
        assert find_checkpoint(str(tmp_path)) == tmp_path / name
    assert find_checkpoint("some/B_16.npz").name == "B_16.npz"


def test_a_folder_without_weights_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="has neither model.safetensors nor pytorch_mo"):
        find_checkpoint(tmp_path)


@pytest.mark.parametrize("checkpoint", ["model.safetensors", "pytorch_model.bin"])
def test_only_needed_files_are_downloaded(checkpoint, hub, tmp_path):
    hub.files = [checkpoint, "config.json", "source.spm", "tf_model.h5", "flax_model.msgpack"]
    assert find_checkpoint("hf:someone/some-model@v2") == tmp_path / checkpoint
    assert {path.name for path in tmp_path.iterdir()} == {*hub.files[:3]}
    assert set(hub.calls) == {("someone/some-model", "v2")}


def test_the_older_format_is_downloaded_only_without_the_newer(hub, tmp_path):
    hub.files = ["pytorch_model.bin", "model.safetensors"]
    assert find_checkpoint("hf:someone/some-model") == tmp_path / "model.safetensors"
    assert not (tmp_path / "pytorch_model.bin").exists()
    assert hub.calls == [("someone/some-model", None)]


def test_a_repository_without_weights_is_refused(hub):
    hub.files = ["config.json"]
    with pytest.raises(FileNotFoundError, match="hf:someone/some-model has neither model.safe"):
        find_checkpoint("hf:someone/some-model")


@pytest.mark.parametrize("weights", ["hf:", "hf:some-model", "hf:a/b/c", "hf:a b/c"])
def test_an_invalid_name_is_refused_before_any_download(weights, hub):
    with pytest.raises(ValueError, match=r"must be hf:OWNER/NAME\[@REVISION\]; got hf:"):
        find_folder(weights)
    assert not hub.calls


def test_a_failed_download_gives_one_line_with_advice(hub):
    message = "hf:no/where cannot be downloaded: 404 Client Error. Without a network, copy its"
    with pytest.raises(OSError, match=message):
        find_folder("hf:no/where")


@pytest.fixture
def kaggle(tmp_path, monkeypatch):
    """Replaces kagglehub, and keras_hub with its list of presets."""

    def model_download(handle):
        if handle != "keras/gpt2/keras/gpt2_tiny/2":
            raise RuntimeError(f"404 Client Error: {handle}\nsome more")
        (tmp_path / "model.weights.h5").touch()
        return str(tmp_path)

    presets = {"gpt2_tiny": {"kaggle_handle": "kaggle://keras/gpt2/keras/gpt2_tiny/2"}}
    backbone = SimpleNamespace(presets=presets)
    keras_hub = SimpleNamespace(models=SimpleNamespace(Backbone=backbone))
    monkeypatch.setitem(sys.modules, "keras_hub", keras_hub)
    monkeypatch.setitem(sys.modules, "kagglehub", SimpleNamespace(model_download=model_download))


@pytest.mark.parametrize("handle", ["gpt2_tiny", "kaggle://keras/gpt2/keras/gpt2_tiny/2"])
def test_presets_of_keras_hub_are_downloaded(handle, kaggle, tmp_path):
    assert find_checkpoint(f"keras_hub:{handle}") == tmp_path / "model.weights.h5"


def test_a_preset_on_hugging_face_is_downloaded_with_its_head_and_vocabulary(hub, tmp_path):
    (tmp_path / "assets").mkdir()
    hub.files = ["model.weights.h5", "task.weights.h5", "config.json", "assets/merges.txt", "a.bin"]
    found = find_checkpoint("keras_hub:hf://someone/some-model")
    assert found == tmp_path / "model.weights.h5"
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert files == {*hub.files[:4]}


def test_an_unknown_preset_and_a_failed_download_give_one_line(kaggle):
    with pytest.raises(
        ValueError, match="keras_hub:gpt9 must be a folder, a preset that keras_hub"
    ):
        find_folder("keras_hub:gpt9")
    message = "kaggle://a/b cannot be downloaded: 404 Client Error: a/b. Without a network, give"
    with pytest.raises(OSError, match=message):
        find_folder("keras_hub:kaggle://a/b")


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="pip install huggingface_hub, or in a checkout"):
        find_folder("hf:someone/some-model")
