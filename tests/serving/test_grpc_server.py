"""Clients of TensorFlow Serving work unchanged: its own stubs against a port of the loopback."""

import re
import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from tfx_transformer.serving import errors
from tfx_transformer.serving.grpc_server import create_grpc_server
from tfx_transformer.serving.metrics import Metrics
from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.server import serve

STATUS = grpc.StatusCode
FINISHED = 10  # seconds after which a test gives up


@dataclass
class Signature:
    inputs: dict[str, tf.TensorSpec]
    outputs: dict[str, tf.TensorSpec]


@dataclass
class VersionStatus:
    version: int
    state: str
    error: str = ""


class Model:
    """Returns texts in capitals, and their lengths; "wait" waits for `release`."""

    name, version = "capitals", 3
    pool = ThreadPoolExecutor(16)

    def __init__(self):
        text = tf.TensorSpec([None], tf.string)
        outputs = {"text": text, "length": tf.TensorSpec([None, 1], tf.int32)}
        self.signatures = {
            "serving_default": Signature({"text": text}, outputs),
            "limited": Signature(
                {"text": text, "max_length": tf.TensorSpec([], tf.int32)}, outputs
            ),
        }
        self.release, self.deadline = threading.Event(), 0.0
        self.waiting, self.canceled = 0, 0

    def submit(self, inputs, signature, deadline):
        self.deadline = deadline
        (kind,) = {x for x in (b"wait", b"full", b"broken") if x in inputs["text"]} or [b""]
        if kind == b"wait":
            future = Future()
            future.add_done_callback(self.count)
            self.waiting += 1
            self.pool.submit(self.finish, future, inputs)
            return future
        if kind == b"full":
            raise errors.Overloaded("2 requests wait")
        if kind == b"broken":
            raise RuntimeError("a secret of the machine")
        future = Future()
        future.set_result(self.compute(**inputs))
        return future

    def count(self, future):
        self.canceled += future.cancelled()

    def finish(self, future, inputs):
        self.release.wait(FINISHED)
        if future.set_running_or_notify_cancel():
            future.set_result(self.compute(**inputs))

    def compute(self, text, max_length=99):
        text = np.array([x.upper()[: int(max_length)] for x in text], object)
        return {"text": text, "length": np.array([[len(x)] for x in text], "int32").reshape(-1, 1)}


class FakeRepository:
    def __init__(self):
        self.model = Model()

    def get(self, name, version=None, label=None):
        if name != "capitals" or version not in (None, 3) or label not in (None, "latest"):
            raise errors.NotFound(f"there is no {name}, version {version}, label {label}")
        return self.model

    def names(self):
        return ["capitals"]

    def statuses(self, name):
        self.get(name)
        return [VersionStatus(3, "AVAILABLE"), VersionStatus(4, "END", "no saved_model.pb")]


@pytest.fixture
def start():
    """Starts a server with options and returns the repository, both stubs and the server."""
    servers, channels = [], []

    def start(token=None, metrics=None, **options):
        repository = FakeRepository()
        server = create_grpc_server(repository, ServingOptions(**options), token, metrics)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        servers.append((server, repository))
        channels.append(grpc.insecure_channel(f"127.0.0.1:{port}"))
        predictions = prediction_service_pb2_grpc.PredictionServiceStub(channels[-1])
        predictions.channel = channels[-1]
        models = model_service_pb2_grpc.ModelServiceStub(channels[-1])
        return repository, predictions, models, server

    yield start
    for channel in channels:
        channel.close()
    for server, repository in servers:
        repository.model.release.set()
        server.stop(0).wait()


def make_request(text=("a dog",), signature="", outputs=(), name="capitals", **inputs):
    request = predict_pb2.PredictRequest(output_filter=outputs)
    request.model_spec.name, request.model_spec.signature_name = name, signature
    for key, value in {"text": list(text), **inputs}.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
    return request


def fail(call, *arguments, **options):
    """The status code and the message of a call that fails."""
    with pytest.raises(grpc.RpcError) as error:
        call(*arguments, timeout=FINISHED, **options)
    return error.value.code(), error.value.details()


def test_a_prediction_has_the_outputs_and_the_version(start):
    _, predictions, _, _ = start()
    response = predictions.Predict(make_request(["a dog", ""]), timeout=FINISHED)
    outputs = {name: tf.make_ndarray(x).tolist() for name, x in response.outputs.items()}
    assert outputs == {"text": [b"A DOG", b""], "length": [[5], [0]]}
    spec = response.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == (
        "capitals",
        3,
        "serving_default",
    )
    assert response.outputs["length"].dtype == tf.int32.as_datatype_enum


def test_signature_and_outputs_are_selected(start):
    _, predictions, _, _ = start()
    request = make_request(["horse"], "limited", ["text"], max_length=np.int32(3))
    response = predictions.Predict(request, timeout=FINISHED)
    assert response.model_spec.signature_name == "limited"
    assert {k: tf.make_ndarray(x).tolist() for k, x in response.outputs.items()} == {
        "text": [b"HOR"]
    }


def test_no_rows_give_no_rows_of_the_right_type(start):
    _, predictions, _, _ = start()
    request = make_request()
    request.inputs["text"].CopyFrom(tf.make_tensor_proto([], tf.string))
    outputs = predictions.Predict(request, timeout=FINISHED).outputs
    assert tf.make_ndarray(outputs["length"]).shape == (0, 1)
    assert outputs["text"].dtype == tf.string.as_datatype_enum


def test_a_version_or_a_label_selects_the_model(start):
    _, predictions, _, _ = start()
    for choice in ({"version": {"value": 3}}, {"version_label": "latest"}):
        request = make_request()
        request.model_spec.MergeFrom(predict_pb2.PredictRequest(model_spec=choice).model_spec)
        assert predictions.Predict(request, timeout=FINISHED).model_spec.version.value == 3
    for choice in ({"version": {"value": 9}}, {"version_label": "beta"}):
        request = make_request()
        request.model_spec.MergeFrom(predict_pb2.PredictRequest(model_spec=choice).model_spec)
        assert fail(predictions.Predict, request)[0] is STATUS.NOT_FOUND


def test_a_reason_is_short_for_any_request(start):
    _, predictions, _, _ = start()
    code, details = fail(predictions.Predict, make_request(name="x" * 100_000))
    assert code is STATUS.NOT_FOUND and len(details) == 1000


def bad_tensor(**fields):
    request = make_request()
    request.inputs["text"].Clear()
    request.inputs["text"].MergeFrom(tf.make_tensor_proto([b"a"]).__class__(**fields))
    return request


def shape(*sizes, **others):
    return {"dim": [{"size": size} for size in sizes], **others}


@pytest.mark.parametrize(
    "request_, code, message",
    [
        (make_request(name="other"), STATUS.NOT_FOUND, "there is no other"),
        (make_request(name=""), STATUS.INVALID_ARGUMENT, "model_spec.name must be"),
        (make_request(signature="x"), STATUS.NOT_FOUND, "capitals has no signature x"),
        (make_request(outputs=["x"]), STATUS.INVALID_ARGUMENT, "output_filter must .*got x"),
        (make_request(["full"]), STATUS.RESOURCE_EXHAUSTED, "2 requests wait"),
        (make_request(["broken"]), STATUS.INTERNAL, "^internal error, request [0-9a-f]{32}$"),
        (bad_tensor(dtype=7, tensor_shape=shape(-1)), STATUS.INVALID_ARGUMENT, "text is no valid"),
        (
            bad_tensor(dtype=1, tensor_shape=shape(2), tensor_content=b"abc"),
            STATUS.INVALID_ARGUMENT,
            "text is no valid",
        ),
        (bad_tensor(dtype=0, tensor_shape=shape(1)), STATUS.INVALID_ARGUMENT, "text is no valid"),
        (bad_tensor(dtype=20, tensor_shape=shape(1)), STATUS.INVALID_ARGUMENT, "text is no valid"),
        (
            bad_tensor(dtype=7, tensor_shape=shape(unknown_rank=True), string_val=[b"a"]),
            STATUS.INVALID_ARGUMENT,
            "shape must be known",
        ),
        (
            bad_tensor(dtype=7, tensor_shape=shape(10**9, 10**9), string_val=[b"a"]),
            STATUS.INVALID_ARGUMENT,
            "at most 1000000 bytes",
        ),
    ],
)
def test_a_failed_call_has_a_code_and_a_reason(request_, code, message, start, caplog):
    _, predictions, _, _ = start(max_body=1.0)
    found, details = fail(predictions.Predict, request_)
    assert found is code
    assert re.search(message, details), details
    assert ("a secret of the machine" in caplog.text) == (code is STATUS.INTERNAL)


def test_other_methods_are_not_implemented(start):
    _, predictions, models, _ = start()
    calls = {
        predictions.Classify: classification_pb2.ClassificationRequest(),
        predictions.Regress: regression_pb2.RegressionRequest(),
        predictions.MultiInference: inference_pb2.MultiInferenceRequest(),
        models.HandleReloadConfigRequest: model_management_pb2.ReloadConfigRequest(),
    }
    for call, request in calls.items():
        assert fail(call, request)[0] is STATUS.UNIMPLEMENTED


def test_the_metadata_are_the_signatures(start):
    _, predictions, _, _ = start()
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "capitals"
    response = predictions.GetModelMetadata(request, timeout=FINISHED)
    assert response.model_spec.version.value == 3
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    found = signatures.signature_def["limited"]
    assert found.method_name == "tensorflow/serving/predict"
    assert set(signatures.signature_def) == {"limited", "serving_default"}
    assert {k: tf.TensorShape(x.tensor_shape).as_list() for k, x in found.inputs.items()} == {
        "text": [None],
        "max_length": [],
    }
    assert {k: tf.as_dtype(x.dtype) for k, x in found.outputs.items()} == {
        "text": tf.string,
        "length": tf.int32,
    }
    for fields in ([], ["graph"]):
        request.metadata_field[:] = fields
        code, message = fail(predictions.GetModelMetadata, request)
        assert code is STATUS.INVALID_ARGUMENT and "metadata_field must be" in message


def test_the_status_lists_versions_and_errors(start):
    _, _, models, _ = start()
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "capitals"
    found = models.GetModelStatus(request, timeout=FINISHED).model_version_status
    state = get_model_status_pb2.ModelVersionStatus.State
    assert [(x.version, x.state) for x in found] == [(3, state.AVAILABLE), (4, state.END)]
    assert [(x.status.error_code, x.status.error_message) for x in found] == [
        (0, ""),
        (2, "no saved_model.pb"),
    ]
    request.model_spec.version.value = 4
    (found,) = models.GetModelStatus(request, timeout=FINISHED).model_version_status
    assert found.version == 4
    request.model_spec.version.value = 5
    assert fail(models.GetModelStatus, request)[0] is STATUS.NOT_FOUND
    request.model_spec.version_label = "latest"
    (found,) = models.GetModelStatus(request, timeout=FINISHED).model_version_status
    assert found.version == 3
    request.model_spec.name = "other"
    assert fail(models.GetModelStatus, request)[0] is STATUS.NOT_FOUND


def test_the_shorter_of_both_deadlines_counts(start):
    repository, predictions, _, _ = start(deadline=5.0)
    for timeout, expected in ((None, 5), (100, 5), (2, 2)):
        now = time.monotonic()
        predictions.Predict(make_request(), timeout=timeout)
        assert repository.model.deadline - now == pytest.approx(expected, abs=0.5)
    code, _ = fail_in(predictions.Predict, make_request(["wait"]), 0.1)
    assert code is STATUS.DEADLINE_EXCEEDED
    repository, predictions, _, _ = start(deadline=0.1)
    code, message = fail(predictions.Predict, make_request(["wait"]))
    assert code is STATUS.DEADLINE_EXCEEDED and "not answered in time" in message
    assert repository.model.canceled == 1


def test_a_canceled_call_frees_its_work(start):
    repository, predictions, _, _ = start()
    call = predictions.Predict.future(make_request(["wait"]), timeout=FINISHED)
    wait_for(lambda: repository.model.waiting == 1)
    call.cancel()
    wait_for(lambda: repository.model.canceled == 1)


def fail_in(call, request, timeout):
    with pytest.raises(grpc.RpcError) as error:
        call(request, timeout=timeout)
    return error.value.code(), error.value.details()


def test_a_message_above_the_limit_is_refused(start):
    _, predictions, _, _ = start(max_body=0.01)
    code, message = fail(predictions.Predict, make_request(["a" * 20_000]))
    assert code is STATUS.RESOURCE_EXHAUSTED and "10000" in message
    assert predictions.Predict(make_request(), timeout=FINISHED).outputs


def test_all_messages_together_are_bounded(start):
    """Eight of the largest size may wait for their answers."""
    repository, predictions, _, _ = start(max_body=0.1)
    large = make_request(["wait", "x" * 90_000])
    waiting = [predictions.Predict.future(large) for _ in range(8)]
    wait_for(lambda: repository.model.waiting == 8)
    code, message = fail(predictions.Predict, large)
    assert code is STATUS.RESOURCE_EXHAUSTED and "messages of the waiting calls" in message
    assert predictions.Predict(make_request(), timeout=FINISHED).outputs
    repository.model.release.set()
    assert all(call.result(FINISHED).outputs for call in waiting)
    assert predictions.Predict(large, timeout=FINISHED).outputs


def test_a_client_that_does_not_send_its_message_is_given_up(start):
    """Eight of them would stop all calls."""
    _, predictions, _, _ = start(deadline=0.3)
    silent = threading.Event()

    def nothing():
        silent.wait(FINISHED)
        yield b""

    method = predictions.channel.stream_unary("/tensorflow.serving.PredictionService/Predict")
    calls = [method.future(nothing(), timeout=FINISHED) for _ in range(8)]
    for call in calls:
        assert call.exception(FINISHED).code() is STATUS.CANCELLED
    assert predictions.Predict(make_request(), timeout=FINISHED).outputs
    silent.set()


def test_inputs_of_other_names_are_not_read(start):
    """Each of them can stand for an array of the largest size."""
    _, predictions, _, _ = start()
    large = tf.make_tensor_proto(0.0, tf.float32, [7_000_000])  # a few bytes
    request = make_request()
    for i in range(1000):
        request.inputs[f"x{i}"].CopyFrom(large)
    code, message = fail(predictions.Predict, request)
    assert code is STATUS.INVALID_ARGUMENT and message.startswith("inputs must be text; got ")


def test_compressed_messages_are_refused(start):
    """They could be decompressed to a thousand times the largest size."""
    _, predictions, _, _ = start(max_body=0.1)
    options = {"compression": grpc.Compression.Gzip}
    code, _ = fail(predictions.Predict, make_request(["x" * 1_000_000]), **options)
    assert code in (STATUS.UNIMPLEMENTED, STATUS.RESOURCE_EXHAUSTED)
    code, message = fail(predictions.Predict, make_request(["x" * 10_000]), **options)
    assert code is STATUS.UNIMPLEMENTED and "gzip" in message


def test_too_many_calls_are_refused_at_once(start):
    repository, predictions, _, _ = start(max_waiting=1)
    waiting = [predictions.Predict.future(make_request(["wait"])) for _ in range(9)]
    wait_for(lambda: repository.model.waiting == 9)
    began = time.monotonic()
    code, _ = fail(predictions.Predict, make_request())
    assert code is STATUS.RESOURCE_EXHAUSTED and time.monotonic() - began < 2
    repository.model.release.set()
    assert all(call.result(FINISHED).outputs for call in waiting)


def wait_for(condition):
    end = time.monotonic() + FINISHED
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_every_call_needs_the_token(start):
    _, predictions, models, _ = start(token="secret")
    status = get_model_status_pb2.GetModelStatusRequest()
    status.model_spec.name = "capitals"
    for call, request in ((predictions.Predict, make_request()), (models.GetModelStatus, status)):
        for value in ("", "secret", "Bearer wrong"):
            metadata = [("authorization", value)] if value else None
            assert fail(call, request, metadata=metadata)[0] is STATUS.UNAUTHENTICATED
        assert call(request, timeout=FINISHED, metadata=[("authorization", "Bearer secret")])


def test_calls_are_logged_without_their_texts_and_counted(start, caplog):
    metrics = Metrics()
    _, predictions, _, _ = start(metrics=metrics)
    caplog.set_level("INFO")
    metadata = [("x-request-id", "my-id.1")]
    _, call = predictions.Predict.with_call(make_request(), FINISHED, metadata)
    assert dict(call.trailing_metadata())["x-request-id"] == "my-id.1"
    fail(predictions.Predict, make_request(name="other"), metadata=[("x-request-id", "a b")])
    first, second = (record.getMessage() for record in caplog.records)
    assert re.fullmatch(r"gRPC Predict OK \d+\.\d ms my-id\.1", first)
    assert re.fullmatch(r"gRPC Predict NOT_FOUND \d+\.\d ms [0-9a-f]{32}", second)
    shown = metrics.show().decode()
    for model, status in (("capitals", "OK"), ("", "NOT_FOUND")):
        labels = f'method="gRPC",model="{model}",path="Predict"'
        assert f'serving_requests_total{{{labels},status="{status}"}} 1.0' in shown
        assert (f"serving_errors_total{{{labels}}} 1.0" in shown) == (status != "OK")
        assert f"serving_request_seconds_count{{{labels}}} 1.0" in shown


def test_a_port_in_use_is_an_error(tmp_path):
    listener, used = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    with listener, used:
        port = used.getsockname()[1]
        with pytest.raises(OSError, match=f"grpc_port must be free; got grpc_port={port}"):
            serve(listener, {"model": tmp_path}, ServingOptions(), load_nothing, grpc_port=port)


def load_nothing(folder):
    raise ValueError("there is no model")


def test_stopping_ends_calls_in_progress_and_refuses_new_ones(start):
    repository, predictions, _, server = start()
    call = predictions.Predict.future(make_request(["wait"]), timeout=FINISHED)
    wait_for(lambda: repository.model.waiting == 1)
    stopped = server.stop(FINISHED)
    code, _ = fail_in(predictions.Predict, make_request(), 1)
    assert code in (STATUS.UNAVAILABLE, STATUS.CANCELLED)  # before or after it reached the server
    repository.model.release.set()
    assert tf.make_ndarray(call.result(FINISHED).outputs["text"]).tolist() == [b"WAIT"]
    assert stopped.wait(FINISHED)
