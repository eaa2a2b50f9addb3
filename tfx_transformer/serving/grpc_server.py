"""The gRPC protocol of TensorFlow Serving: Predict, GetModelMetadata and GetModelStatus.

    server = create_grpc_server(repository, ServingOptions())
    server.add_insecure_port("127.0.0.1:8500")
    server.start()
    …
    server.stop(grace=30).wait()          # new calls are refused, calls in progress end

A client of TensorFlow Serving, with the stubs of tensorflow-serving-api, works unchanged.
"""

import functools
import hmac
import logging
import math
import re
import time
import uuid
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from tfx_transformer.serving.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    ServingError,
    Unavailable,
)
from tfx_transformer.serving.options import ServingOptions

DEFAULT_SIGNATURE = "serving_default"
METADATA = "signature_def"  # the only field that TensorFlow Serving has
MEGABYTE = 1e6
SANE_ID = re.compile(rb"[\w.:-]{1,128}", re.ASCII)
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
            ("grpc.so_reuseport", 0),  # a port in use is an error
        ],
        maximum_concurrent_rpcs=threads,  # others are refused at once
    )
    arguments = repository, options, token, metrics
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(*arguments), server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(*arguments), server)
    return server


class Unauthenticated(ServingError):
    code = "UNAUTHENTICATED"


class Unimplemented(ServingError):
    code = "UNIMPLEMENTED"


class Service:
    """What calls of both services share; arguments as in `create_grpc_server`."""

    def __init__(self, repository, options: ServingOptions, token: str | None, metrics: Any):
        self.repository, self.options, self.metrics = repository, options, metrics
        self.authorization = None if token is None else f"Bearer {token}".encode()

    def check(self, metadata: dict[str, str]) -> None:
        given = metadata.get("authorization", "").encode()
        if self.authorization and not hmac.compare_digest(given, self.authorization):
            raise Unauthenticated("the bearer token is missing or wrong")


def answer(method):
    """A call with its status code, a line in the log, and metrics.

    The reason of a defect is only logged.
    """

    @functools.wraps(method)
    def call(self, request, context):
        start, code, message = time.perf_counter(), "OK", ""
        metadata = dict(context.invocation_metadata())
        identity = metadata.get("x-request-id", "").encode()
        identity = identity.decode() if SANE_ID.fullmatch(identity) else uuid.uuid4().hex
        context.set_trailing_metadata([("x-request-id", identity)])
        try:
            self.check(metadata)
            return method(self, request, context)
        except ServingError as error:
            code, message = error.code, str(error)
        except Exception:
            log.exception("request %s failed", identity)
            code, message = "INTERNAL", f"internal error, request {identity}"
        finally:
            seconds = time.perf_counter() - start
            log.info("gRPC %s %s %.1f ms %s", method.__name__, code, 1000 * seconds, identity)
            if self.metrics is not None:
                name = request.model_spec.name if hasattr(request, "model_spec") else ""
                name = name if name in self.repository.names() else ""
                self.metrics.count_call(method.__name__, name, code, seconds)
        context.abort(grpc.StatusCode[code], message[:MESSAGE])

    return call


@answer
def unsupported(self, request, context):
    raise Unimplemented("only Predict, GetModelMetadata and GetModelStatus are implemented")


class PredictionService(Service, prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predictions of the models of a repository."""

    Classify = Regress = MultiInference = unsupported

    @answer
    def Predict(self, request, context):
        own = context.time_remaining()  # None if the client gave no deadline
        seconds = self.options.deadline if own is None else min(own, self.options.deadline)
        model = find(self.repository, request.model_spec)
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        if name not in model.signatures:
            raise NotFound(f"{model.name} has no signature {name}")
        specs = model.signatures[name].outputs
        unknown = [key for key in request.output_filter if key not in specs]
        if unknown:
            raise InvalidRequest(f"output_filter must name outputs of {name}; got {unknown[0]}")
        limit = int(self.options.max_body * MEGABYTE)
        inputs = {key: to_array(key, proto, limit) for key, proto in request.inputs.items()}
        future = model.submit(inputs, name, time.monotonic() + seconds)
        if not context.add_callback(future.cancel):  # called when the client leaves, or at the end
            future.cancel()
        try:
            outputs = future.result(seconds)
        except CancelledError:
            raise Unavailable("the call was canceled") from None
        except TimeoutError:
            future.cancel()
            raise DeadlineExceeded("the request was not answered in time") from None

        response = predict_pb2.PredictResponse()
        describe(response.model_spec, model, name)
        for key in request.output_filter or outputs:
            proto = tf.make_tensor_proto(outputs[key], specs[key].dtype, outputs[key].shape)
            response.outputs[key].CopyFrom(proto)
        return response

    @answer
    def GetModelMetadata(self, request, context):
        if list(request.metadata_field) != [METADATA]:
            fields = ", ".join(request.metadata_field) or "none"
            raise InvalidRequest(f"metadata_field must be {METADATA}; got {fields}")
        model = find(self.repository, request.model_spec)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        for name, signature in model.signatures.items():
            definition = signatures.signature_def[name]
            definition.CopyFrom(SignatureDef(method_name="tensorflow/serving/predict"))
            for key, spec in signature.inputs.items():
                definition.inputs[key].CopyFrom(tensor_info(f"{name}_{key}:0", spec))
            for i, (key, spec) in enumerate(signature.outputs.items()):
                definition.outputs[key].CopyFrom(tensor_info(f"StatefulPartitionedCall:{i}", spec))
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        describe(response.model_spec, model)
        response.metadata[METADATA].Pack(signatures)
        return response


class ModelService(Service, model_service_pb2_grpc.ModelServiceServicer):
    """The states of the versions of a model."""

    HandleReloadConfigRequest = unsupported

    @answer
    def GetModelStatus(self, request, context):
        spec = request.model_spec
        statuses = self.repository.statuses(spec.name)
        wanted = None
        if spec.version_label:
            wanted = find(self.repository, spec).version
        elif spec.HasField("version"):
            wanted = spec.version.value
        response = get_model_status_pb2.GetModelStatusResponse()
        for status in statuses:
            if wanted in (None, status.version):
                error = {"error_code": 2, "error_message": status.error} if status.error else {}
                response.model_version_status.add(
                    version=status.version, state=status.state, status=error
                )
        if not response.model_version_status:
            raise NotFound(f"{spec.name} has no version {wanted}")
        return response


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
