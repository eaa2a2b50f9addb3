"""A server on a real port: in a thread with fake models, and the command with small exports."""

import base64
import functools
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from tfx_transformer.export import export
from tfx_transformer.pipelines import TextToImage
from tfx_transformer.serving.app import create_app
from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.server import DrainingServer, show_address
from tfx_transformer.serving.supervisor import listen

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
KINDS = ("translator", "classifier", "captioner", "generator", "text_to_image")
OPTIONS = "--max-batch-size 2 --max-rows 8 --max-body 1 --max-characters 200 --deadline 60 "
OPTIONS += "--no-warm-up"

get, post = functools.partial(httpx.get, timeout=60), functools.partial(httpx.post, timeout=60)


@pytest.fixture
def running(repository):
    """A server in a thread, with fake models: its address and itself."""
    options = ServingOptions(deadline=5, max_body=0.1)
    server = DrainingServer(create_app(repository, options), options)
    listener = listen("127.0.0.1", 0)
    address = f"http://{show_address(listener)}"
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield address, server
    server.should_exit = server.force_exit = True
    for model in repository.models.values():
        model.may_run.set()
    thread.join(10)
    assert not thread.is_alive()


def test_a_stop_waits_for_requests_in_flight_and_refuses_new_ones(running, repository, wait_until):
    address, server = running
    model, answers = repository.models["translator"], []
    model.may_run.clear()
    post = {"json": {"text": "a"}, "timeout": 10}
    thread = threading.Thread(
        target=lambda: answers.append(httpx.post(f"{address}/translate", **post))
    )
    thread.start()
    wait_until(lambda: server.active.count == 1)
    server.handle_exit(signal.SIGTERM, None)
    assert httpx.get(f"{address}/readyz").status_code == 503
    refused = httpx.post(f"{address}/translate", **post)
    assert refused.status_code == 503 and refused.headers["retry-after"] == "1"
    assert thread.is_alive()
    model.may_run.set()
    thread.join(10)
    assert answers[0].status_code == 200 and answers[0].json()["translations"][0]["text"] == "A"

    def is_closed():
        try:
            socket.create_connection(server.config.app_address).close()
        except OSError:
            return True

    host, port = address.removeprefix("http://").split(":")
    server.config.app_address = (host, int(port))
    wait_until(is_closed)


def test_a_client_that_leaves_frees_its_place(running, repository, wait_until):
    address, server = running
    model = repository.models["translator"]
    model.may_run.clear()
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{address}/translate", json={"text": "a"}, timeout=0.2)
    wait_until(lambda: server.active.count == 0)
    assert not model.may_run.is_set()


def test_a_stream_ends_when_its_client_leaves(running, repository, wait_until):
    address, server = running
    made = []

    def stream(*_):
        for i in range(10_000):
            made.append(i)
            time.sleep(0.005)
            yield "word "

    repository.models["generator"].stream = stream
    with httpx.stream("POST", f"{address}/generate", json={"text": "a"}) as answer:
        assert next(answer.iter_lines()) == 'data: {"text":"word "}'
    wait_until(lambda: server.active.count == 0)
    count = len(made)
    time.sleep(0.1)
    assert len(made) <= count + 1 < 1000


def test_a_text_is_not_generated_for_a_client_that_left(running, repository, wait_until):
    address, server = running
    made = []

    def stream(*_):
        for i in range(10_000):
            made.append(i)
            time.sleep(0.005)
            yield "word "

    repository.models["generator"].stream = stream
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{address}/generate", json={"text": "a", "stream": False}, timeout=0.2)
    wait_until(lambda: server.active.count == 0)
    count = len(made)
    time.sleep(0.1)
    assert len(made) <= count + 1 < 1000


def test_an_idle_connection_lives_longer_than_proxies_reuse_theirs(running):
    """Otherwise a request can meet the end of its connection: nginx reuses it for 60 s."""
    address, server = running
    assert server.config.timeout_keep_alive > 60
    server.config.timeout_keep_alive = 0.1
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in connection.recv(1000)
        while connection.recv(1000):
            pass  # the server closes the idle connection


def test_the_rest_of_a_large_body_is_not_read(running):
    address, _ = running
    answer = httpx.post(f"{address}/translate", content=b"x" * 1_000_000)
    assert answer.status_code == 413
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(
            b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n\r\n"
        )
        assert b"413" in connection.recv(100)
        while connection.recv(1000):
            pass  # the server closes the connection


@pytest.fixture(scope="module")
def exports(request, tmp_path_factory):
    """Small exports, one of each kind; drawings are sampled, four of each text."""
    folder = tmp_path_factory.mktemp("models")
    for kind in KINDS:
        pipeline = request.getfixturevalue(kind)
        if kind == "text_to_image":
            parts = pipeline.model, pipeline.image_model, pipeline.tokenizer
            pipeline = TextToImage(*parts, {"kind": "sample", "n_best": 4})
        export(pipeline, folder / kind / "served")
    return folder


class Process:
    """The command `serve`, with everything that it writes."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "tfx_transformer.train.cli", "serve"]
        self.port, self.grpc_port = free_port(), free_port()
        ports = ["--port", str(self.port), "--grpc-port", str(self.grpc_port)]
        self.process = subprocess.Popen(
            [*command, *arguments, *ports], stderr=subprocess.PIPE, text=True
        )
        self.lines, self.address = [], f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def wait(self, text, count=1, seconds=180):
        limit = time.monotonic() + seconds
        while sum(text in line for line in self.lines) < count:
            assert self.process.poll() is None and time.monotonic() < limit, "".join(self.lines)
            time.sleep(0.05)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.thread.join()
        self.process.stderr.close()

    def child(self):
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(path.read_text().split()[0])


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture(scope="module")
def server(exports):
    server = Process(*(str(exports / kind / "served") for kind in KINDS), *OPTIONS.split())
    server.wait("ready: ")
    yield server
    server.close()


def test_the_start_says_what_is_loaded_and_where_it_is(server):
    text = "".join(server.lines)
    for kind in KINDS:
        assert f"{kind}/1: loading" in text and f"{kind}/1: ready" in text
    assert f"ready: {server.address}, gRPC 127.0.0.1:{server.grpc_port} (translator/1, " in text
    assert get(f"{server.address}/readyz").status_code == 200


def test_both_apis_give_the_results_of_the_pipeline(server, translator, classifier, items):
    texts = ["red cat", "", "blue dog and red cat"]
    answer = post(f"{server.address}/translate", json={"text": texts, "n_best": 2})
    expected = translator.results(texts)
    translations = answer.json()["translations"]
    assert [x["text"] for x in translations] == [x.text for x in expected]
    assert [[y["text"] for y in x["n_best"]] for x in translations] == [
        [text for text, _ in x.n_best] for x in expected
    ]
    rows = {
        "instances": [{"image": {"b64": base64.b64encode(x).decode()}} for x in items["classifier"]]
    }
    answer = post(f"{server.address}/v1/models/classifier:predict", json=rows)
    predictions = answer.json()["predictions"]
    assert [x["is_readable"] for x in predictions] == [True, False, True]
    values = classifier(items["classifier"])
    assert predictions[0]["label"] == next(iter(values[0])) and predictions[1]["label"] == ""


def test_limits_of_the_models_are_errors_of_the_client(server):
    def translate(text):
        return post(f"{server.address}/translate", json={"text": text})

    for text in ("x" * 201, ["x"] * 9):
        answer = translate(text)
        assert answer.status_code == 413 and "at most" in answer.json()["error"]
    assert translate([]).status_code == 400
    assert translate("x" * 1_000_001).status_code == 413


def test_batches_are_counted(server):
    post(f"{server.address}/translate", json={"text": ["a", "b"]})
    text = get(f"{server.address}/metrics").text
    assert re.search(r'serving_batch_rows_sum\{model="translator",.*default"\} [1-9]', text)
    assert 'serving_queue{model="translator"} 0.0' in text


def test_the_grpc_client_of_the_guide_gets_the_same_translation(server, capsys):
    page = (ROOT / "docs/guides/serving.md").read_text()
    program = page.split("```py\n")[1].split("```")[0].replace("8500", str(server.grpc_port))
    exec(program.replace("timeout=10", "timeout=60"), {})
    answer = post(f"{server.address}/translate", json={"text": "in 3 weeks"})
    assert capsys.readouterr().out == answer.json()["translations"][0]["text"] + "\n"


def test_pages_of_other_names_cannot_call_the_server(server):
    answer = get(f"{server.address}/models", headers={"Host": f"evil.example:{server.port}"})
    assert answer.status_code == 403 and "Host" in answer.json()["error"]


def curl_lines():
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), flags=re.S):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("curl "):
                    yield pytest.param(line, id=f"{page.name}: {line}")


@pytest.mark.parametrize("line", list(curl_lines()))
def test_the_curl_lines_of_the_pages_work(server, line, items, tmp_path):
    """As they are written, but for the port and the names of the models."""
    for name in re.findall(r"@(\S+)", line):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(items["classifier"][2])
    line = line.replace("localhost:8501", f"127.0.0.1:{server.port}")
    words = shlex.split(line, comments=True)
    command = [
        "curl",
        "--fail-with-body",
        "--silent",
        "--show-error",
        "--max-time",
        "30",
        *words[1:],
    ]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout and '"error"' not in result.stdout


def test_the_parent_has_not_loaded_tensorflow(server):
    def libraries(pid):
        return Path(f"/proc/{pid}/maps").read_text()

    assert "tensorflow" in libraries(server.child())
    assert "tensorflow" not in libraries(server.process.pid)


def test_a_killed_server_answers_again(server):
    os.kill(server.child(), signal.SIGKILL)
    server.wait("the server crashed (signal 9)")
    assert get(f"{server.address}/healthz").status_code == 200  # it waited
    server.wait("ready: ", count=2)
    answer = post(f"{server.address}/translate", json={"text": "red cat"})
    assert answer.status_code == 200


def test_sigterm_ends_the_server_with_exit_code_0(server):
    server.process.terminate()
    assert server.process.wait(60) == 0
    assert "stopped" in server.lines[-1] and "Traceback" not in "".join(server.lines)


def test_a_broken_export_ends_the_command_with_one_line(tmp_path):
    (tmp_path / "mt").mkdir()
    info = {"kind": "translator", "format": "saved_model", "options": {}}
    (tmp_path / "mt/export.json").write_text(json.dumps(info))
    server = Process(str(tmp_path / "mt"))
    assert server.process.wait(120) == 1
    server.close()
    assert server.lines[-1].startswith("tfx-transformer: mt cannot be served: ")
    assert "Traceback" not in "".join(server.lines)
