"""Folders for TensorFlow Serving; tests/export/test_export.py has the warm-up requests."""

import pytest
from google.protobuf import text_format
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from tfx_transformer.serving.tensorflow_serving import (
    RELEASE,
    check_models_folder,
    next_version,
    write_settings,
)


def add_version(folder, version):
    (folder / version).mkdir(parents=True)
    write_settings(folder)


def listed(folder):
    config = text_format.Parse((folder / "models.config").read_text(), ModelServerConfig())
    return {model.name: model.base_path for model in config.model_config_list.config}


def test_every_model_with_a_version_is_listed(tmp_path):
    (tmp_path / "empty").mkdir()
    add_version(tmp_path, "b/1")
    assert listed(tmp_path) == {"b": "/models/b"}
    add_version(tmp_path, "a/7")
    add_version(tmp_path, "b/2")
    assert listed(tmp_path) == {"b": "/models/b", "a": "/models/a"}


def test_changes_of_a_user_are_kept(tmp_path):
    add_version(tmp_path, "b/1")
    for name in ("batching_parameters.txt", "compose.yaml"):
        (tmp_path / name).write_text("# mine")
    config = (tmp_path / "models.config").read_text()
    config = config.replace("base_path", 'version_labels { key: "stable" value: 1 } base_path')
    (tmp_path / "models.config").write_text(config + "# mine\n")
    add_version(tmp_path, "b/2")
    assert (tmp_path / "models.config").read_text().endswith("# mine\n")
    add_version(tmp_path, "a/1")
    assert "stable" in (tmp_path / "models.config").read_text() and set(listed(tmp_path)) == {
        "a",
        "b",
    }
    for name in ("batching_parameters.txt", "compose.yaml"):
        assert (tmp_path / name).read_text() == "# mine"


def test_the_compose_file_names_the_release_and_files_that_exist(tmp_path):
    yaml = pytest.importorskip("yaml")
    add_version(tmp_path, "b/1")
    (service,) = yaml.safe_load((tmp_path / "compose.yaml").read_text())["services"].values()
    assert service["image"] == f"tensorflow/serving:{RELEASE}"
    assert service["volumes"] == [".:/models:ro"]
    named = [flag.split("=/models/")[1] for flag in service["command"] if "=/models/" in flag]
    assert named == ["models.config", "batching_parameters.txt"]
    assert all((tmp_path / name).is_file() for name in named)


def test_batches_have_the_sizes_of_our_own_server(tmp_path):
    add_version(tmp_path, "b/1")
    assert (tmp_path / "batching_parameters.txt").read_text().splitlines() == [
        "max_batch_size { value: 32 }",
        "batch_timeout_micros { value: 0 }",
        "max_enqueued_batches { value: 8 }",
        *(f"allowed_batch_sizes: {size}" for size in (1, 2, 4, 8, 16, 32)),
    ]


def test_versions_are_counted_as_numbers(tmp_path):
    for name in ("9", "10", "x", ".11.tmp"):
        (tmp_path / "b" / name).mkdir(parents=True)
    (tmp_path / "b/12").write_text("a file")
    assert next_version(tmp_path / "b") == tmp_path / "b/11"
    assert next_version(tmp_path / "new") == tmp_path / "new/1"


def test_other_folders_and_names_are_refused(tmp_path):
    check_models_folder(tmp_path / "new", "en_de-1.5")
    with pytest.raises(ValueError, match="must be new or have a file models.config"):
        check_models_folder(tmp_path, "b")
    add_version(tmp_path, "b/1")
    (tmp_path / "b/.2.tmp").mkdir()
    check_models_folder(tmp_path, "b")
    (tmp_path / "b/saved_model.pb").write_text("")
    with pytest.raises(
        ValueError, match=r"b must have only folders of versions; it has saved_model\.pb"
    ):
        check_models_folder(tmp_path, "b")
    for name in ("", "a/b", "..", ".a", "a:b", "a b", "models.config", "compose.yaml"):
        with pytest.raises(ValueError, match="name must be"):
            check_models_folder(tmp_path, name)
