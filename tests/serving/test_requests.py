import math
import time
from types import SimpleNamespace

import pytest

from tfx_transformer.serving import requests
from tfx_transformer.serving.errors import InvalidRequest, TooLarge
from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.requests import deadline_of, parse_json


@pytest.mark.parametrize(
    "body, message",
    [
        (b"", "must be JSON in UTF-8; it is empty"),
        (b"{", "must be JSON"),
        (b"[1]", "must be an object"),
        (b"null", "must be an object"),
        (b'{"a": NaN}', "must not have NaN"),
        (b'{"a": -Infinity}', "must not have -Infinity"),
        (b'{"a": 1, "a": 2}', "must be unique"),
        (b'{"a": {"b": 1, "b": 2}}', "must be unique"),
        (b'{"a": "\xff"}', "JSON in UTF-8"),
        (b'\xef\xbb\xbf{"a": 1}', "JSON in UTF-8"),
        (b'{"a": ' + 5000 * b"1" + b"}", "JSON in UTF-8"),
        (b'{"a": ' + 100_000 * b"[" + 100_000 * b"]" + b"}", "nested too deeply"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(body, message):
    with pytest.raises(InvalidRequest, match=message) as error:
        parse_json(body)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_tensorflow_serving_allows_special_floats():
    assert math.isnan(parse_json(b'{"a": NaN}', allow_nan=True)["a"])


def test_the_number_of_values_is_bounded(monkeypatch):
    monkeypatch.setattr(requests, "MAX_VALUES", 9)
    assert parse_json(b'{"a": [1, 2, 3, 4, 5, 6, 7, 8]}')
    with pytest.raises(TooLarge, match="at most 9 values"):
        parse_json(b'{"a": [1, 2, 3, 4, 5, 6, 7, 8, 9]}')


def test_a_client_may_only_shorten_the_deadline():
    def seconds(value=None):
        headers = {} if value is None else {"x-request-timeout": value}
        deadline = deadline_of(SimpleNamespace(headers=headers), ServingOptions(deadline=20))
        return deadline - time.monotonic()

    assert seconds() == pytest.approx(20, abs=0.1) == seconds("1e9")
    assert seconds("0.5") == pytest.approx(0.5, abs=0.1)
    for value in ("", "x", "0", "-1", "nan"):
        with pytest.raises(InvalidRequest, match="x-request-timeout must be seconds above 0"):
            seconds(value)


def test_a_body_above_the_limit_is_refused_while_it_is_read(make_client):
    client = make_client(serving=ServingOptions(max_body=0.001))
    answer = client.post("/translate", content=b"x" * 1001)
    assert answer.status_code == 413 and "at most 1000 bytes" in answer.json()["error"]
    assert answer.headers["connection"] == "close"
    sent = 0

    async def chunks():  # without a content-length
        nonlocal sent
        for _ in range(1000):
            sent += 100
            yield b"x" * 100

    answer = client.post("/translate", content=chunks())
    assert answer.status_code == 413 and sent < 2000


def test_all_bodies_together_are_bounded(make_client):
    client = make_client(serving=ServingOptions(max_body=0.001))
    traffic = client.app.state.traffic
    for before, status in ((7900, 200), (7990, 429)):
        traffic.bytes = before
        answer = client.post("/translate", {"text": "a b c d"})
        assert (answer.status_code, traffic.bytes, traffic.count) == (status, before, 0)
    assert answer.headers["retry-after"] == "1"
