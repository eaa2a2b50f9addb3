"""Expected JSON: the documentation of TensorFlow Serving's REST API, and its source code."""

import pytest

from tfx_transformer.serving.errors import DeadlineExceeded

V1 = "/v1/models/translator"


def test_the_status_has_all_versions(client):
    answer = client.get(V1)
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    available = {
        "version": "3",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    failed = {"error_code": "UNKNOWN", "error_message": "ValueError: broken"}
    broken = {"version": "2", "state": "END", "status": failed}
    assert answer.json() == {"model_version_status": [available, broken]}
    for path in ("/versions/3", "/labels/stable"):
        assert client.get(V1 + path).json() == {"model_version_status": [available]}


def test_the_metadata_are_the_signatures(client):
    answer = client.get(f"{V1}/metadata").json()
    assert answer["model_spec"] == {"name": "translator", "signature_name": "", "version": "3"}
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert signatures["add"]["inputs"] == {
        "a": {
            "dtype": "DT_FLOAT",
            "tensor_shape": {
                "dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}],
                "unknown_rank": False,
            },
            "name": "add_a:0",
        },
        "b": {
            "dtype": "DT_INT32",
            "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
            "name": "add_b:0",
        },
    }
    default = signatures["serving_default"]
    assert default["inputs"]["text"]["dtype"] == "DT_STRING"
    assert default["method_name"] == "tensorflow/serving/predict"
    assert client.get(f"{V1}/versions/3/metadata").json() == answer


@pytest.mark.parametrize("path", ["", "/versions/3", "/labels/stable"])
def test_rows_are_answered_with_rows(client, path):
    answer = client.post(f"{V1}{path}:predict", {"instances": ["a b", {"b64": "Yw=="}]})
    assert answer.status_code == 200, answer.text
    first, second = answer.json()["predictions"]
    assert first["text"] == "A B" and second["text"] == "C"
    assert first["score"] == -0.2 and first["pieces"] == ["a", "b", ""]
    assert first["truncated"] is False and first["alignment"][0] == [0.33333334] * 3


def test_columns_are_answered_with_columns(client):
    answer = client.post(f"{V1}:predict", {"inputs": {"text": ["a", "b"]}}).json()
    assert answer["outputs"]["text"] == ["A", "B"]
    request = {"signature_name": "add", "inputs": {"a": [[1, 2.5]], "b": [10]}}
    assert client.post(f"{V1}:predict", request).json() == {"outputs": [[11.0, 12.5]]}
    request = {"signature_name": "add", "instances": [{"a": [1, 2], "b": 0}, {"a": [3, 4], "b": 1}]}
    answer = client.post(f"{V1}:predict", request).json()
    assert answer == {"predictions": [[1.0, 2.0], [4.0, 5.0]]}


def test_large_requests_and_answers_are_the_same(client):
    rows = [{"a": [i, 0.5], "b": 1} for i in range(9000)]
    answer = client.post(f"{V1}:predict", {"signature_name": "add", "instances": rows}).json()
    assert answer["predictions"] == [[i + 1, 1.5] for i in range(9000)]
    texts = ["a b c d e f g h i j"] * 300
    answer = client.post(f"{V1}:predict", {"instances": texts}).json()
    assert len(answer["predictions"]) == 300


@pytest.mark.parametrize(
    "method, path, status, message",
    [
        ("GET", "/v1/models/other", 404, "there is no model other"),
        ("GET", "/v1/models/translator/versions/9", 404, "Could not find any versions"),
        ("GET", "/v1/models/translator/labels/new", 404, "translator has no version new"),
        ("GET", "/v1/models/translator/versions/x", 400, "Malformed request: GET /v1/models/tr"),
        ("GET", "/v1/models", 400, "Malformed request: GET /v1/models"),
        ("GET", "/v1/models/other/metadata", 404, "there is no model other"),
        ("POST", "/v1/models/other:predict", 404, "there is no model other"),
        ("POST", "/v1/models/translator/versions/9:predict", 404, "has no version 9"),
        ("POST", "/v1/models/translator:classify", 400, "Malformed request: POST"),
        ("PUT", "/v1/models/translator", 405, "Method Not Allowed"),
        ("GET", "/v2/models/translator", 404, "Not Found"),
    ],
)
def test_errors_have_the_codes_and_the_form_of_tensorflow_serving(
    client, method, path, status, message
):
    answer = client(method, path, content=b"{}")
    assert answer.status_code == status and list(answer.json()) == ["error"]
    assert message in answer.json()["error"] and "\n" not in answer.json()["error"]


def test_an_unknown_signature_is_an_error(client):
    for name in ("other", ["a"], 7):
        answer = client.post(f"{V1}:predict", {"signature_name": name, "instances": ["a"]})
        assert answer.status_code == 400 and "not found in signature def" in answer.json()["error"]


def test_errors_of_a_model_have_their_status(client, repository, overloaded):
    model = repository.models["translator"]
    model.error = overloaded
    answer = client.post(f"{V1}:predict", {"instances": ["a"]})
    assert answer.status_code == 429 and answer.headers["retry-after"] == "1"
    model.error = DeadlineExceeded("late")
    assert client.post(f"{V1}:predict", {"instances": ["a"]}).status_code == 504
    model.error = RuntimeError("a secret")
    answer = client.post(f"{V1}:predict", {"instances": ["a"]})
    assert answer.status_code == 500 and "secret" not in answer.text
    assert answer.headers["x-request-id"] in answer.json()["error"]
    repository.is_ready = False
    answer = client.post(f"{V1}:predict", {"instances": ["a"]})
    assert answer.status_code == 503 and answer.headers["retry-after"] == "1"


def test_fixed_words_may_have_any_case(client):
    assert client.get("/v1/Models/translator/VERSIONS/3").status_code == 200
