"""Models by name: versions appear, break, go away and take over while requests are answered."""

import gc
import logging
import shutil
import threading
import time
import weakref

import pytest

from tfx_transformer.serving import repository as repository_module
from tfx_transformer.serving.errors import NotFound, Unavailable
from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.repository import Repository


@pytest.fixture
def make(make_toy):
    """A repository of toys: a version is a folder with the file "suffix"."""
    opened = []

    def make(folders, poll=0.0, **options):
        def load(folder):
            return make_toy((folder / "suffix").read_text())

        opened.append(
            Repository(folders, ServingOptions(max_batch_size=4, poll=poll, **options), load)
        )
        return opened[-1]

    yield make
    for repository in opened:
        repository.close()


def write(folder, suffix):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "suffix").write_text(suffix)


def answer(repository, name="toy", text="a", **which):
    return repository.get(name, **which).predict({"text": [text]})["text"][0].decode()


def states(repository, name="toy"):
    return {status.version: status.state for status in repository.statuses(name)}


def wait_until(condition):
    limit = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_models_are_found_by_name_version_and_label(make, tmp_path):
    write(tmp_path / "plain", "!")
    write(tmp_path / "toy/3", "3")
    write(tmp_path / "toy/12", "12")
    (tmp_path / "toy/notes").mkdir()
    repository = make({"plain": tmp_path / "plain", "toy": tmp_path / "toy"})
    assert repository.names() == ["plain", "toy"] and not repository.is_ready
    with pytest.raises(Unavailable, match="toy is not loaded"):
        repository.get("toy")
    repository.start()
    assert repository.wait(30) and repository.is_ready
    assert answer(repository, "plain") == "A!" and answer(repository) == "A12"
    assert answer(repository, version=12) == answer(repository, label="latest") == "A12"
    assert repository.get("plain").version == 1 and states(repository) == {12: "AVAILABLE"}
    for which in ({"version": 3}, {"label": "best"}):
        with pytest.raises(NotFound):
            repository.get("toy", **which)
    for call in (repository.get, repository.statuses):
        with pytest.raises(NotFound, match="there is no model other"):
            call("other")


def test_a_folder_must_exist(tmp_path):
    with pytest.raises(ValueError, match="the folder of toy must exist; got"):
        Repository({"toy": tmp_path / "none"})


def test_no_request_fails_while_versions_change(make, tmp_path):
    write(tmp_path / "toy/1", "1")
    repository = make({"toy": tmp_path / "toy"}, poll=0.05)
    repository.start()
    assert repository.wait(30)
    is_done, failures = threading.Event(), []
    answers = [[] for _ in range(4)]

    def call(seen):
        while not is_done.is_set():
            try:
                seen.append(answer(repository))
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=call, args=(seen,)) for seen in answers]
    for thread in threads:
        thread.start()
    wait_until(lambda: all(answers))
    write(tmp_path / "toy/2", "2")
    wait_until(lambda: all(seen[-1] == "A2" for seen in answers))
    (tmp_path / "toy/3").mkdir()  # broken
    wait_until(lambda: states(repository).get(3) == "END")
    count = min(map(len, answers))
    wait_until(lambda: min(map(len, answers)) > count + 5)
    is_done.set()
    for thread in threads:
        thread.join()
    assert not failures
    for seen in answers:
        assert set(seen) == {"A1", "A2"} and seen == sorted(seen)
    assert "No such file" in repository.statuses("toy")[0].error
    assert states(repository)[2] == "AVAILABLE"


def test_an_old_version_is_freed(make, tmp_path):
    write(tmp_path / "toy/1", "1")
    repository = make({"toy": tmp_path / "toy"})
    repository.poll()
    old = repository.get("toy")
    write(tmp_path / "toy/2", "2")
    repository.poll()
    assert states(repository) == {2: "AVAILABLE", 1: "UNLOADING"}
    assert old.predict({"text": ["a"]})["text"].tolist() == [b"A1"]  # whoever has it may use it
    reference = weakref.ref(old)
    del old
    gc.collect()
    assert reference() is None and states(repository) == {2: "AVAILABLE", 1: "END"}


def test_a_broken_version_is_tried_again_when_its_files_change(make, tmp_path, caplog):
    write(tmp_path / "toy/1", "1")
    (tmp_path / "toy/2").mkdir()
    repository = make({"toy": tmp_path / "toy"})
    for _ in range(3):
        repository.poll()
    assert answer(repository) == "A1"
    assert len([record for record in caplog.records if "cannot be served" in record.message]) == 1
    write(tmp_path / "toy/2", "2")
    repository.poll()
    assert answer(repository) == "A2" and repository.statuses("toy")[0].error == ""


def test_a_model_has_failed_when_all_its_versions_were_tried(make, tmp_path, monkeypatch):
    (tmp_path / "toy/2").mkdir(parents=True)
    write(tmp_path / "toy/1", "1")
    repository, seen = make({"toy": tmp_path / "toy"}), []
    with monkeypatch.context() as patch:  # before each version
        patch.setattr(
            repository_module, "list_files", lambda _: seen.append(repository.failures()) or []
        )
        repository.poll()
    assert seen == [[], []] and answer(repository) == "A1" and repository.failures() == []

    (tmp_path / "broken").mkdir()
    repository = make({"broken": tmp_path / "broken"})
    repository.poll()
    (failure,) = repository.failures()
    assert failure.startswith("broken cannot be served: FileNotFoundError: ")


def test_a_deleted_version_is_unloaded(make, tmp_path):
    write(tmp_path / "toy/1", "1")
    write(tmp_path / "toy/2", "2")
    repository = make({"toy": tmp_path / "toy"})
    repository.poll()
    shutil.rmtree(tmp_path / "toy/2")
    repository.poll()
    assert answer(repository) == "A1"
    shutil.rmtree(tmp_path / "toy/1")
    repository.poll()
    with pytest.raises(Unavailable, match="toy is not loaded"):
        repository.get("toy")
    assert not repository.is_ready and set(states(repository).values()) <= {"UNLOADING", "END"}


def test_a_folder_without_versions_stays_loaded_when_it_goes_away(make, tmp_path):
    write(tmp_path / "toy", "1")
    repository = make({"toy": tmp_path / "toy"})
    repository.poll()
    shutil.rmtree(tmp_path / "toy")
    repository.poll()
    assert answer(repository) == "A1"


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_progress_is_logged_every_few_seconds(seconds, make, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("tfx_transformer.serving.repository.LOG_SECONDS", seconds)
    caplog.set_level(logging.INFO, "tfx_transformer.serving")
    write(tmp_path / "toy/2", "2")
    make({"toy": tmp_path / "toy"}).poll()
    lines = [record.message for record in caplog.records]
    total = int(lines[-2].split()[-2])
    assert lines[0].startswith("toy/2: loading") and lines[-1] == "toy/2: ready" and total > 1
    shown = [0, total] if seconds else range(total + 1)
    assert [f"toy/2: warming up {i} of {total} shapes" for i in shown] == lines[1:-1]


def test_close_refuses_requests(make, tmp_path):
    write(tmp_path / "toy", "1")
    repository = make({"toy": tmp_path / "toy"})
    repository.start()
    assert repository.wait(30)
    model = repository.get("toy")
    repository.close()
    assert not repository.is_ready
    for call in (lambda: repository.get("toy"), lambda: model.predict({"text": ["a"]})):
        with pytest.raises(Unavailable):
            call()
