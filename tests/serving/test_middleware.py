import logging
import re

import pytest

from tfx_transformer.serving.options import AccessOptions


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "tfx_transformer.serving.middleware")
    return caplog


def test_a_sane_request_id_is_kept_and_another_one_replaced(client, log):
    answer = client.get("/models", headers={"X-Request-Id": "job-7.a"})
    assert answer.headers["x-request-id"] == "job-7.a" and "job-7.a" in log.text
    for bad in ("", "a b", "x" * 200, "a\tb", "é".encode()):
        own = client.get("/healthz", headers={"X-Request-Id": bad}).headers["x-request-id"]
        assert re.fullmatch("[0-9a-f]{32}", own)


def test_the_log_has_one_line_for_a_request_without_its_text(client, log):
    client.post("/translate", {"text": "very private"})
    (record,) = log.records
    line = record.getMessage()
    assert re.match(r"POST /translate 200 [\d.]+ ms [0-9a-f]{32}", line)
    assert "private" not in line and "\n" not in line
    log.clear()
    client.get("/a%0Ab?text=private")
    assert r"GET /a\nb 404" in log.text and "private" not in log.text


def test_probes_are_not_logged(client, log):
    client.get("/readyz")
    assert not log.records


def test_the_text_is_logged_on_request(make_client, log):
    make_client(log_text=True).post("/translate", {"text": "not\nprivate" + 2000 * "x"})
    (record,) = log.records
    assert r"not\\nprivate" in record.getMessage() and len(record.getMessage()) < 1500


def test_a_token_is_needed_everywhere_but_for_health_and_the_page(make_client):
    client = make_client(token="sesame")
    for path in ("/healthz", "/readyz", "/"):
        assert client.get(path).status_code == 200
    for path in ("/models", "/metrics", "/docs", "/openapi.json", "/v1/models/translator", "/x"):
        for wrong in ({}, {"Authorization": "Bearer open"}, {"Authorization": "sesame"}):
            answer = client.get(path, headers=wrong)
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
            assert list(answer.json()) == ["error"]
    right = {"Authorization": "Bearer sesame"}
    assert client.get("/models", headers=right).status_code == 200
    assert client.post("/translate", {"text": "a"}, headers=right).status_code == 200


def test_a_server_of_this_machine_is_called_by_names_of_this_machine(make_client):
    """A page whose name turns into 127.0.0.1 sends its own name (DNS rebinding)."""
    access = AccessOptions(allow_host=("Models.example",)).at("127.0.0.1")
    client = make_client(allow_host=access.allow_host)
    for host in ("localhost", "LOCALHOST:8501", "127.0.0.1:1", "[::1]:8501", "models.example"):
        assert client.get("/models", headers={"Host": host}).status_code == 200, host
    for host in ("evil.example", "evil.example:8501", "localhost.evil.example", "[::2]"):
        for path in ("/", "/models", "/v1/models/translator", "/healthz", "/static/page.js"):
            answer = client.get(path, headers={"Host": host})
            assert answer.status_code == 403 and "--allow-host" in answer.json()["error"]


def test_a_server_of_a_network_is_called_by_any_name_unless_some_are_given():
    assert AccessOptions().at("0.0.0.0").allow_host == ()
    hosts = AccessOptions(allow_host=("a.example",)).at("10.0.0.7").allow_host
    assert hosts == ("localhost", "127.0.0.1", "::1", "10.0.0.7", "a.example")


def test_every_answer_forbids_to_guess_its_type(client):
    for path in ("/", "/models", "/nothing"):
        assert client.get(path).headers["x-content-type-options"] == "nosniff"


def test_an_unexpected_error_is_logged_and_not_shown(client, repository, log):
    repository.models["translator"].error = KeyError("secret")
    answer = client.post("/translate", {"text": "a"})
    assert answer.status_code == 500 and "secret" not in answer.text
    assert "secret" in log.text and answer.headers["x-request-id"] in log.text
