"""Mutated requests of HTTP and gRPC: only answers and errors of the client, and memory is flat."""

import asyncio
import json
import random
import resource
import tracemalloc

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis.get_model_metadata_pb2 import GetModelMetadataRequest
from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusRequest
from tensorflow_serving.apis.predict_pb2 import PredictRequest

from tfx_transformer.serving.app import create_app
from tfx_transformer.serving.grpc_server import create_grpc_server
from tfx_transformer.serving.options import ServingOptions

IMAGE = "iVBORw0KGgo="
SEEDS = [
    ("/v1/models/translator:predict", {"instances": ["a b", {"b64": "YQ=="}]}),
    ("/v1/models/translator:predict", {"inputs": {"text": ["a", "b"]}}),
    ("/v1/models/translator/versions/3:predict", {"instances": [{"text": "a"}]}),
    (
        "/v1/models/translator:predict",
        {"signature_name": "add", "inputs": {"a": [[1, 2.5], [3, 4]], "b": [1, 2]}},
    ),
    (
        "/v1/models/translator:predict",
        {"signature_name": "add", "instances": [{"a": [1, 2], "b": 1}]},
    ),
    ("/v1/models/classifier:predict", {"instances": [{"image": {"b64": IMAGE}}]}),
    ("/translate", {"text": ["a", "b c"], "n_best": 2, "attention": True}),
    ("/classify", {"image": IMAGE, "top_k": 2, "rollout": True}),
    ("/classify", {"text": "a", "model": "text_classifier"}),
    ("/caption", {"image": [IMAGE], "attention": True}),
    ("/draw", {"text": ["a", "b"], "count": 2, "seed": 3}),
    ("/generate", {"text": "a b c", "max_length": 2, "stream": True}),
]
VALUES = [
    *(None, True, False, 0, -1, 1.5, 1e400, 2**31, 2**63, 10**50, "", "a", "\ud800", "\x00"),
    *(
        [],
        {},
        [[]],
        [None],
        {"b64": "YQ=="},
        {"b64": 1},
        {"b64": "%"},
        {"text": "a"},
        [[1], [2, 3]],
    ),
    *("x" * 300, ["a"] * 300, [[1.0] * 50] * 50, "serving_default", "add", "translator", "다"),
    *(json.loads("[" * depth + leaf + "]" * depth) for depth in (40, 70) for leaf in ("1", '"a"')),
]
TOKENS = [
    b"NaN",
    b"-Infinity",
    b"{",
    b"}",
    b"[",
    b'"',
    b",",
    b"\xff",
    b"\\ud800",
    b"1e999",
    b"null",
]


def change(value, rng):
    """The value with one part replaced, removed, repeated or wrapped."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(list(value))
        action = rng.random()
        if action < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if action < 0.2:
            return value | {str(rng.choice(VALUES))[:20]: rng.choice(VALUES)}
        return value | {key: change(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        index = rng.randrange(len(value))
        return [*value[:index], change(value[index], rng), *value[index + rng.randint(0, 1) :]]
    return [value] if rng.random() < 0.1 else rng.choice(VALUES)


def mutate(seed):
    """Method, path, headers and body of a request that is wrong in some way, or not."""
    rng = random.Random(seed)
    path, value = rng.choice(SEEDS)
    for _ in range(rng.randint(0, 3)):
        value = change(value, rng)
    body = json.dumps(value).encode()
    for _ in range(rng.choice([0, 0, 0, 1, 3])):
        at, size = rng.randrange(len(body) + 1), rng.randint(0, 8)
        body = body[:at] + rng.choice(TOKENS) + body[at + size :]
    if rng.random() < 0.02:
        body = b'{"text": ' + b"[" * 20_000
    if rng.random() < 0.1:
        at = rng.randrange(len(path))
        path = path[:at] + rng.choice([":", "/", "%", "é", "\n", "x", ""]) + path[at + 1 :]
    headers = []
    if rng.random() < 0.1:
        headers += [(b"content-type", rng.choice([b"image/png", b"text/plain", b"\xff", b""]))]
    if rng.random() < 0.1:
        headers += [(b"x-request-timeout", rng.choice([b"-1", b"x", b"5", b"nan", b"\xff"]))]
    if rng.random() < 0.1:
        headers += [(b"x-request-id", rng.choice([b"a", b"\xff" * 300, b"\r\n"]))]
    if rng.random() < 0.05:
        headers += [(b"content-length", rng.choice([b"x", b"-1", b"9" * 5000, b"1e9"]))]
    method = rng.choice(["GET", "PUT", "X"]) if rng.random() < 0.05 else "POST"
    return method, path, headers, body


async def send(app, method, path, headers, body):
    """Status and body of the answer, without a client between."""
    sent, finished, parts = [{"type": "http.request", "body": body}], asyncio.Event(), []

    async def receive():
        if sent:
            return sent.pop()
        await finished.wait()
        return {"type": "http.disconnect"}

    async def take(message):
        parts.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            finished.set()

    scope = {
        **{"type": "http", "method": method, "path": path, "headers": headers},
        **{"query_string": b"top_k=x" if len(body) % 7 == 0 else b"", "http_version": "1.1"},
        **{"scheme": "http", "server": ("test", 80), "client": ("test", 1), "asgi": {}},
        **{"raw_path": path.encode(), "root_path": ""},
    }
    await app(scope, receive, take)
    return parts[0]["status"], b"".join(part.get("body", b"") for part in parts[1:])


async def fuzz(app, seeds):
    statuses: dict[int, int] = {}
    for seed in seeds:
        status, body = await send(app, *mutate(seed))
        assert 200 <= status < 500, (seed, mutate(seed), body)
        if status >= 400:
            error = json.loads(body)
            assert list(error) == ["error"] and "\n" not in error["error"], (seed, body)
        statuses[status] = statuses.get(status, 0) + 1
    return statuses


COUNTS = pytest.mark.parametrize(
    "count", [500, pytest.param(10_000, marks=pytest.mark.serving)], ids=["some", "many"]
)


@COUNTS
def test_mutated_requests_are_answered_or_refused(repository, count):
    app = create_app(repository, ServingOptions(deadline=5, max_body=0.1))
    asyncio.run(fuzz(app, range(count // 2)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kB
    tracemalloc.start()
    statuses = asyncio.run(fuzz(app, range(count // 2, count)))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert statuses[200] > count / 20 and statuses[400] > count / 10
    assert kept < 2e6, f"{kept} bytes are still used"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    assert app.state.active.count == app.state.active.bytes == 0


PREDICTION, STATUS = "/tensorflow.serving.PredictionService/", grpc.StatusCode
REFUSED = {STATUS.INVALID_ARGUMENT, STATUS.NOT_FOUND, STATUS.UNIMPLEMENTED}
TENSORS = [
    *(["a b", ""], [b"\xff"], [["a"]], "a", [], [1, 2], [[1.5, 2.0]], [True], 7),
    *(np.zeros((2, 2), "float32"), np.ones(2, "int32"), np.full(300, "a", object), [2**40]),
]


def valid_call(rng):
    """A method and its request, which fits the model or not."""
    method = rng.choice(["Predict", "Predict", "Predict", "GetModelMetadata", "GetModelStatus"])
    kinds = {"Predict": PredictRequest, "GetModelMetadata": GetModelMetadataRequest}
    request = kinds.get(method, GetModelStatusRequest)()
    spec = request.model_spec
    spec.name = rng.choice(["translator"] * 6 + ["classifier", "", "x" * 2000])
    if rng.random() < 0.2:
        spec.version.value = rng.choice([3, 4, -1, 2**62])
    elif rng.random() < 0.2:
        spec.version_label = rng.choice(["stable", "x"])
    if method == "GetModelMetadata":
        request.metadata_field.extend(rng.choice([["signature_def"], [], ["x", "y"]]))
    if method == "Predict":
        spec.signature_name = rng.choice(["", "", "", "add", "explain", "x"])
        for name in rng.choice([["text"], ["text"], ["a", "b"], ["text", "x"], []]):
            tensor = tf.make_tensor_proto(TENSORS[0 if rng.random() < 0.5 else rng.randrange(13)])
            if rng.random() < 0.1:
                tensor.dtype = rng.randrange(130)
            if rng.random() < 0.1:
                tensor.tensor_shape.dim.add(size=rng.choice([-1, 0, 3, 2**40]))
            request.inputs[name].CopyFrom(tensor)
    path = PREDICTION if method != "GetModelStatus" else "/tensorflow.serving.ModelService/"
    return path + method, request.SerializeToString()


def mutate_call(seed):
    """Method and message of a call that is wrong in some way, or not."""
    rng = random.Random(seed)
    method, message = valid_call(rng)
    for _ in range(rng.choice([0, 0, 1, 3])):
        at, size = rng.randrange(len(message) + 1), rng.randint(0, 4)
        message = message[:at] + rng.randbytes(rng.randint(0, 4)) + message[at + size :]
    if rng.random() < 0.03:
        method = rng.choice([PREDICTION, PREDICTION + "Classify", "/x/Predict"])
    return method, message


@COUNTS
def test_mutated_calls_of_grpc_are_answered_or_refused(repository, count):
    server = create_grpc_server(repository, ServingOptions(deadline=5, max_body=0.1))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    codes: dict[grpc.StatusCode, int] = {}
    with grpc.insecure_channel(address) as channel:
        for seed in range(count):
            method, message = mutate_call(seed)
            try:
                channel.unary_unary(method)(message, timeout=10)
                code = STATUS.OK
            except grpc.RpcError as error:
                code = error.code()
                assert code in REFUSED and error.details(), (seed, code, error.details())
                assert "internal error" not in error.details()
            codes[code] = codes.get(code, 0) + 1
    server.stop(5).wait()
    assert codes[STATUS.OK] > count / 20 and codes[STATUS.INVALID_ARGUMENT] > count / 10
