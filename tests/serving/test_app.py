import re
from urllib.parse import urljoin


def test_health_and_readiness(client, repository):
    assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
    repository.is_ready = False
    answer = client.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "loading\n")
    assert answer.headers["retry-after"] == "1" and client.get("/healthz").status_code == 200


def test_a_server_that_stops_is_not_ready_and_refuses_requests(client):
    client.app.state.active.is_draining = True
    assert (client.get("/readyz").status_code, client.get("/readyz").text) == (503, "draining\n")
    for path in ("/translate", "/generate", "/v1/models/translator:predict"):
        answer = client.post(path, {"text": "a"})
        assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
    assert client.get("/healthz").status_code == 200


def test_the_page_may_run_its_own_files_only(client):
    policy = client.get("/").headers["content-security-policy"]
    assert "script-src 'self';" in policy and "default-src 'none'" in policy
    assert "http" not in policy


def test_every_file_of_the_page_is_there_without_a_token(make_client):
    client, todo, types = make_client(token="sesame"), {"/"}, {}
    while todo:
        path = todo.pop()
        answer = client.get(path)
        assert answer.status_code == 200, path
        types[path] = answer.headers["content-type"]
        inner = r"""(?:from|src=|<link[^>]*href=) *"([^"]+)"|url\(([^)]+)\)"""
        found = {urljoin(path, first or last) for first, last in re.findall(inner, answer.text)}
        todo |= found - set(types)
    assert types["/static/page.js"].startswith("text/javascript") and len(types) > 5
    assert client.get("/static/../app.py").status_code in (401, 404)
    assert client.get("/static/%2e%2e/app.py").status_code in (401, 404)


def test_other_origins_are_refused_unless_they_are_named(client, make_client):
    origin = {"Origin": "https://other.example"}
    assert "access-control-allow-origin" not in client.get("/models", headers=origin).headers
    open_ = make_client(cors_origin=("https://other.example",), token="sesame")
    asked = origin | {"Access-Control-Request-Method": "POST"}
    preflight = open_("OPTIONS", "/translate", headers=asked)
    assert preflight.headers["access-control-allow-origin"] == "https://other.example"
    foreign = open_.get("/healthz", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in foreign.headers


def test_no_page_loads_anything_from_elsewhere(client):
    for path in ("/", "/docs"):
        text = client.get(path).text
        assert not re.search(r"(src|href)=[\"']?(https?:)?//", text)
