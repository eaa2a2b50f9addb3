from tfx_transformer.train import start


def test_memory_is_kept_before_tensorflow_is_imported(monkeypatch):
    called = []
    monkeypatch.setattr(start, "keep_memory", lambda: called.append("memory"))
    monkeypatch.setattr(start, "import_tensorflow", lambda: called.append("tensorflow"))
    start.start_tensorflow()
    assert called == ["memory", "tensorflow"]
