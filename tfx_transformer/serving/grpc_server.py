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
import time
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
OTHER_CALLS = 8  # threads for calls that are no predictions, also when those fill all others

logger = logging.getLogger(__name__)


def create_grpc_server(repository, options: ServingOptions, token: str | None = None):
    """A `grpc.Server` without a port, which is not started.

    Args:
        repository: of the models.
        options: limits and the longest time of a call.
        token: that calls must have as metadata `authorization: Bearer TOKEN`; None accepts all.
    """
    threads = options.max_waiting + OTHER_CALLS
    server = grpc.server(
        ThreadPoolExecutor(threads, "grpc"),
        interceptors=[CheckToken(token)] if token else [],
        options=[
            ("grpc.max_receive_message_length", int(options.max_body * MEGABYTE)),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),  # a port in use is an error
        ],
        maximum_concurrent_rpcs=threads,  # others are refused at once
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(repository, options), server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(repository), server)
    return server


class CheckToken(grpc.ServerInterceptor):
    """Refuses calls without the token."""

    def __init__(self, token: str):
        self.expected = f"Bearer {token}".encode()

    def intercept_service(self, continuation, handler_call_details):
        given = dict(handler_call_details.invocation_metadata).get("authorization", "")
        if hmac.compare_digest(given.encode(), self.expected):
            return continuation(handler_call_details)
        return grpc.unary_unary_rpc_method_handler(refuse)


def refuse(request, context) -> None:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "authorization must be Bearer and the token")


def answer(method):
    """Gives a failed call the status code of its error; the reason of a defect is only logged."""

    @functools.wraps(method)
    def call(self, request, context):
        try:
            return method(self, request, context)
        except ServingError as error:
            code, message = grpc.StatusCode[error.code], str(error)
        except Exception:
            logger.exception("a call of %s failed", method.__name__)
            code, message = grpc.StatusCode.INTERNAL, "internal error"
        context.abort(code, message)

    return call


def unsupported(self, request, context) -> None:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "use Predict")


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predictions of the models of a repository."""

    Classify = Regress = MultiInference = unsupported

    def __init__(self, repository, options: ServingOptions):
        self.repository, self.options = repository, options

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


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """The states of the versions of a model."""

    HandleReloadConfigRequest = unsupported

    def __init__(self, repository):
        self.repository = repository

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
