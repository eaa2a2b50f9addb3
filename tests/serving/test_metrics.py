from types import SimpleNamespace

from tfx_transformer.serving.metrics import Metrics


def lines(client):
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if line[0] != "#")


def test_requests_errors_and_times_are_counted(client):
    for text in ("a", "b", 7):
        client.post("/translate", {"text": text})
    client.post("/v1/models/translator:predict", {"instances": ["a"]})
    found = lines(client)
    labels = 'method="POST",model="translator",path="/translate"'
    assert found[f'serving_requests_total{{{labels},status="200"}}'] == "2.0"
    refused = 'method="POST",model="",path="/translate"'  # the model was not chosen yet
    assert found[f'serving_requests_total{{{refused},status="400"}}'] == "1.0"
    assert found[f"serving_errors_total{{{refused}}}"] == "1.0"
    assert found[f"serving_request_seconds_count{{{labels}}}"] == "2.0"
    rest = 'method="POST",model="translator",path="/v1/models"'
    assert found[f'serving_requests_total{{{rest},status="200"}}'] == "1.0"


def test_every_path_has_a_name_of_its_own(client):
    known = ("/", "/docs", "/healthz", "/metrics", "/models", "/openapi.json", "/readyz")
    for path in (*known, "/v1/models/translator", "/nothing"):
        client.get(path)
    found = {line.split('path="')[1].split('"')[0] for line in lines(client) if 'path="' in line}
    assert found == {*known, "/v1/models", "other"}


def test_clients_cannot_make_new_labels(client):
    def count():
        return len(lines(client))

    client("GET", "/a")
    client("FOO", "/a")
    client.get("/v1/models/a")
    count()
    before = count()
    for i in range(20):
        client("GET", f"/{i}")
        client(f"FOO{i}", "/a")
        client.get(f"/v1/models/{i}")
    assert count() == before


def test_queues_and_batches_are_shown(client, repository):
    repository.models["translator"].waiting = 5
    assert lines(client)['serving_queue{model="translator"}'] == "5.0"
    repository.is_ready = False
    assert not any(line.startswith("serving_queue{") for line in lines(client))


def test_computed_batches_are_counted():
    metrics = Metrics()
    facts = {"version": 1, "signature": "ids", "rows": 3, "waiting": 0.02, "computing": 0.3}
    metrics.observe(SimpleNamespace(model="mt", batch_size=16, **facts))
    text = metrics.show().decode()
    labels = 'model="mt",signature="ids"'
    assert f'serving_batch_rows_bucket{{le="8.0",{labels}}} 0.0' in text
    assert f'serving_batch_rows_bucket{{le="16.0",{labels}}} 1.0' in text
    assert f"serving_rows_sum{{{labels}}} 3.0" in text
    assert f"serving_wait_seconds_sum{{{labels}}} 0.02" in text
    assert f"serving_compute_seconds_sum{{{labels}}} 0.3" in text
