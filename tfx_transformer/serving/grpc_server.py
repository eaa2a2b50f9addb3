"""The gRPC protocol of TensorFlow Serving: Predict, GetModelMetadata and GetModelStatus.

    server = create_grpc_server(repository, ServingOptions())
    server.add_insecure_port("127.0.0.1:8500")
    server.start()
    …
    server.stop(grace=30).wait()          # new calls are refused, calls in progress end

A client of TensorFlow Serving, with the stubs of tensorflow-serving-api, works unchanged.
"""

import contextlib
import functools
import logging
import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo
from tensorflow_serving.apis.get_model_metadata_pb2 import (
    GetModelMetadataRequest,
    GetModelMetadataResponse,
    SignatureDefMap,
)
from tensorflow_serving.apis.get_model_status_pb2 import (
    GetModelStatusRequest,
    GetModelStatusResponse,
)
from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse

from tfx_transformer.serving.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    Overloaded,
    ServingError,
    Unavailable,
)
from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.requests import BODIES, has_token, request_id
from tfx_transformer.serving.signatures import check_names

REQUESTS: dict[str, dict[str, Any]] = {  # of the methods of each service
    "PredictionService": {"Predict": PredictRequest, "GetModelMetadata": GetModelMetadataRequest},
    "ModelService": {"GetModelStatus": GetModelStatusRequest},
}
DEFAULT_SIGNATURE = "serving_default"
METADATA = "signature_def"  # the only field that TensorFlow Serving has
MEGABYTE = 1e6
MESSAGE = 1000  # characters of an error, which may have names from the request
OTHER_CALLS = 8  # threads for calls that are no predictions, also when those fill all others

log = logging.getLogger(__name__)


def create_grpc_server(
    repository, options: ServingOptions, token: str | None = None, metrics: Any = None
):
    """A `grpc.Server` without a port, which is not started.

    Args:
        repository: of the models.
        options: limits and the longest time of a call.
        token: that calls must have as metadata `authorization: Bearer TOKEN`; None accepts all.
        metrics: counts the calls, with `count_call`.
    """
    threads = options.max_waiting + OTHER_CALLS
    server = grpc.server(
        ThreadPoolExecutor(threads, "grpc"),
        options=[
            ("grpc.max_receive_message_length", int(options.max_body * MEGABYTE)),
            ("grpc.max_send_message_length", -1),
            # the limit of a message would not hold for what it is decompressed to
            ("grpc.compression_enabled_algorithms_bitset", 1),
            ("grpc.so_reuseport", 0),  # a port in use is an error
        ],
        maximum_concurrent_rpcs=threads,  # others are refused at once
    )
    calls = Calls(repository, options, token, metrics)
    for service, requests in REQUESTS.items():
        handlers = {name: calls.handler(name, kind) for name, kind in requests.items()}
        name = f"tensorflow.serving.{service}"
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
    return server


class Unauthenticated(ServingError):
    code = "UNAUTHENTICATED"


class Calls:
    """The methods of both services; arguments as in `create_grpc_server`.

    Few messages are received at the same time, and all messages together are bounded, until their
    calls are answered. Therefore the handlers are those of streams: they ask for a message, which
    looks the same to a client.
    """

    def __init__(self, repository, options: ServingOptions, token: str | None, metrics: Any):
        self.repository, self.options = repository, options
        self.token, self.metrics = token, metrics
        self.max_message = int(options.max_body * MEGABYTE)
        self.receivers, self.lock, self.bytes = threading.Semaphore(BODIES), threading.Lock(), 0

    def handler(self, name: str, kind: type) -> grpc.RpcMethodHandler:
        return grpc.stream_unary_rpc_method_handler(
            functools.partial(self.answer, name, kind),
            response_serializer=lambda response: response.SerializeToString(),
        )

    def answer(self, name: str, kind: type, messages: Iterator[bytes], context):
        """A call with its status code, a line in the log, and metrics.

        The reason of a defect is only logged.
        """
        start, code, message, model = time.perf_counter(), "OK", "", ""
        metadata = dict(context.invocation_metadata())
        identity = request_id(str(metadata.get("x-request-id", "")).encode())
        context.set_trailing_metadata([("x-request-id", identity)])
        own = context.time_remaining()  # None if the client gave no deadline
        seconds = self.options.deadline if own is None else min(own, self.options.deadline)
        deadline = time.monotonic() + seconds
        try:
            if not has_token(str(metadata.get("authorization", "")).encode(), self.token):
                raise Unauthenticated("the bearer token is missing or wrong")
            with self.receive(messages, context, deadline) as data:
                request = parse(kind, data)
                if request.model_spec.name in self.repository.names():
                    model = request.model_spec.name
                return getattr(self, name)(request, context, deadline)
        except ServingError as error:
            code, message = error.code, str(error)
        except Exception:
            log.exception("request %s failed", identity)
            code, message = "INTERNAL", f"internal error, request {identity}"
        finally:
            took = time.perf_counter() - start
            log.info("gRPC %s %s %.1f ms %s", name, code, 1000 * took, identity)
            if self.metrics is not None:
                self.metrics.count_call(name, model, code, took)
        context.abort(grpc.StatusCode[code], message[:MESSAGE])

    @contextlib.contextmanager
    def receive(self, messages: Iterator[bytes], context, deadline: float) -> Iterator[bytes]:
        """The only message of a call, which is counted while it is used."""
        if not self.receivers.acquire(timeout=max(deadline - time.monotonic(), 0)):
            raise Overloaded("too many messages are being received; try later")
        timer = threading.Timer(deadline - time.monotonic(), context.cancel)
        timer.start()
        try:
            data = next(messages, None)
        except grpc.RpcError:
            raise Unavailable("the call was canceled") from None
        finally:
            timer.cancel()
            self.receivers.release()
        if data is None:
            raise InvalidRequest("the call must have a message")
        with self.lock:
            if self.bytes + len(data) > BODIES * self.max_message:
                raise Overloaded("the messages of the waiting calls are too large; try later")
            self.bytes += len(data)
        try:
            yield data
        finally:
            with self.lock:
                self.bytes -= len(data)

    def Predict(self, request, context, deadline: float):
        model = find(self.repository, request.model_spec)
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        if name not in model.signatures:
            raise NotFound(f"{model.name} has no signature {name}")
        specs = model.signatures[name].outputs
        unknown = [key for key in request.output_filter if key not in specs]
        if unknown:
            raise InvalidRequest(f"output_filter must name outputs of {name}; got {unknown[0]}")
        check_names(request.inputs, model.signatures[name].inputs)
        arrays = {k: to_array(k, x, self.max_message) for k, x in request.inputs.items()}
        future = model.submit(arrays, name, deadline)
        if not context.add_callback(future.cancel):  # called when the client leaves, or at the end
            future.cancel()
        try:
            outputs = future.result(max(deadline - time.monotonic(), 0))
        except CancelledError:
            raise Unavailable("the call was canceled") from None
        except TimeoutError:
            future.cancel()
            raise DeadlineExceeded("the request was not answered in time") from None

        response = PredictResponse()
        describe(response.model_spec, model, name)
        for key in request.output_filter or outputs:
            proto = tf.make_tensor_proto(outputs[key], specs[key].dtype, outputs[key].shape)
            response.outputs[key].CopyFrom(proto)
        return response

    def GetModelMetadata(self, request, context, deadline: float):
        if list(request.metadata_field) != [METADATA]:
            fields = ", ".join(request.metadata_field) or "none"
            raise InvalidRequest(f"metadata_field must be {METADATA}; got {fields}")
        model = find(self.repository, request.model_spec)
        signatures = SignatureDefMap()
        for name, signature in model.signatures.items():
            definition = signatures.signature_def[name]
            definition.CopyFrom(SignatureDef(method_name="tensorflow/serving/predict"))
            for key, spec in signature.inputs.items():
                definition.inputs[key].CopyFrom(tensor_info(f"{name}_{key}:0", spec))
            for i, (key, spec) in enumerate(signature.outputs.items()):
                definition.outputs[key].CopyFrom(tensor_info(f"StatefulPartitionedCall:{i}", spec))
        response = GetModelMetadataResponse()
        describe(response.model_spec, model)
        response.metadata[METADATA].Pack(signatures)
        return response

    def GetModelStatus(self, request, context, deadline: float):
        spec = request.model_spec
        statuses = self.repository.statuses(spec.name)
        wanted = None
        if spec.version_label:
            wanted = find(self.repository, spec).version
        elif spec.HasField("version"):
            wanted = spec.version.value
        response = GetModelStatusResponse()
        for status in statuses:
            if wanted in (None, status.version):
                error = {"error_code": 2, "error_message": status.error} if status.error else {}
                response.model_version_status.add(
                    version=status.version, state=status.state, status=error
                )
        if not response.model_version_status:
            raise NotFound(f"{spec.name} has no version {wanted}")
        return response


def parse(kind: type, data: bytes) -> Any:
    request = kind()
    try:
        request.ParseFromString(data)
    except DecodeError:
        raise InvalidRequest(f"the message must be a {kind.__name__}") from None
    return request


def find(repository, spec):
    """The model of a ModelSpec."""
    if not spec.name:
        raise InvalidRequest("model_spec.name must be the name of a model; got none")
    version = spec.version.value if spec.HasField("version") else None
    return repository.get(spec.name, version, spec.version_label or None)


def describe(spec, model, signature: str = "") -> None:
    """Writes which model gave a response."""
    spec.name, spec.signature_name = model.name, signature
    spec.version.value = model.version


def tensor_info(name: str, spec: tf.TensorSpec) -> Any:
    return TensorInfo(
        name=name, dtype=spec.dtype.as_datatype_enum, tensor_shape=spec.shape.as_proto()
    )


def to_array(name: str, proto, limit: int) -> np.ndarray:
    """The array of a TensorProto, of at most `limit` bytes: few values can stand for many."""
    sizes = [dim.size for dim in proto.tensor_shape.dim]
    try:
        dtype = tf.dtypes.as_dtype(proto.dtype)
        if proto.tensor_shape.unknown_rank or min(sizes, default=0) < 0:
            raise ValueError(f"shape must be known; got {sizes}")
        if math.prod(sizes) * (dtype.size or 8) > limit:  # strings are pointers
            raise ValueError(f"it must have at most {limit} bytes; got the shape {sizes}")
        return tf.make_ndarray(proto)
    except (TypeError, ValueError, KeyError) as error:
        raise InvalidRequest(f"the input {name} is no valid tensor: {error}") from error
