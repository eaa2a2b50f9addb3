"""The REST API of TensorFlow Serving: its clients work unchanged.

GET  /v1/models/NAME[/versions/V|/labels/L]
GET  /v1/models/NAME[/versions/V|/labels/L]/metadata
POST /v1/models/NAME[/versions/V|/labels/L]:predict
"""

import json
import re
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from tensorflow.core.framework import types_pb2

from tfx_transformer.serving.errors import InvalidRequest, NotFound
from tfx_transformer.serving.requests import (
    ActiveRequests,
    deadline_of,
    offload,
    parse_json,
    read_body,
)
from tfx_transformer.serving.tensors import read_inputs, show_outputs

MODEL = r"/v1/models/([^/:]+)(?:/versions/(\d{1,18})|/labels/([^/:]+))?"
STATUS = re.compile(MODEL + "(/metadata)?", re.IGNORECASE)
PREDICT = re.compile(MODEL + ":predict", re.IGNORECASE)
DEFAULT = "serving_default"


def create_router(repository: Any, active: ActiveRequests) -> APIRouter:
    """Routes for all models of a `Repository`."""
    router = APIRouter()

    @router.get("/v1/{path:path}", include_in_schema=False)
    async def status(request: Request) -> Response:
        name, version, label, metadata = match(STATUS, request)
        if metadata:
            model = repository.get(name, version, label)
            return json_response(show_metadata(model))
        statuses = repository.statuses(name)
        if label is not None:
            version = repository.get(name, label=label).version
        if version is not None:
            statuses = [status for status in statuses if status.version == version]
        if not statuses:
            wanted = name if version is None else f"{name} with version {version}"
            raise NotFound(f"Could not find any versions of model {wanted}")
        return json_response({"model_version_status": [show_status(x) for x in statuses]})

    @router.post("/v1/{path:path}", include_in_schema=False)
    async def predict(request: Request) -> Response:
        name, version, label = match(PREDICT, request)
        with active.request() as take:
            model = repository.get(name, version, label)
            request.state.model = model.name
            deadline = deadline_of(request, active.options)
            body = await read_body(request, active.max_body, take, deadline)
            inputs, signature, as_rows = await offload(read, model, body, size=len(body))
            future = model.submit(inputs, signature, deadline)
            outputs = await active.wait(future, deadline, request.receive)
            size = count_values(outputs)
            content = await offload(show_outputs, outputs, as_rows, size=size)
            return json_response(content)

    return router


def match(pattern: re.Pattern, request: Request) -> tuple[Any, ...]:
    """Name, version, label and what else the pattern finds in the path."""
    path = request.scope["path"]
    found = pattern.fullmatch(path)
    if found is None:
        raise InvalidRequest(f"Malformed request: {request.method} {path[:200]}")
    name, version, *others = found.groups()
    return name, None if version is None else int(version), *others


def read(model: Any, body: bytes) -> tuple[dict[str, np.ndarray], str, bool]:
    """The inputs, the signature, and whether the request is in rows."""
    request = parse_json(body, allow_nan=True)
    name = request.get("signature_name", DEFAULT) or DEFAULT
    if not isinstance(name, str) or name not in model.signatures:
        raise InvalidRequest(
            f'Serving signature name: "{str(name)[:100]}" not found in signature def'
        )
    return read_inputs(request, model.signatures[name].inputs), name, "instances" in request


def count_values(outputs: dict[str, np.ndarray]) -> int:
    return sum(array.size for array in outputs.values())


def encode(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def json_response(content: Any, status: int = 200) -> Response:
    return Response(encode(content), status, media_type="application/json")


def show_status(status: Any) -> dict[str, Any]:
    """A version as in the JSON of GetModelStatusResponse."""
    error = {"error_code": "UNKNOWN" if status.error else "OK", "error_message": status.error or ""}
    return {"version": str(status.version), "state": status.state, "status": error}


def show_metadata(model: Any) -> dict[str, Any]:
    """The signatures as in the JSON of GetModelMetadataResponse."""
    signatures = {
        name: {
            "inputs": {key: show_spec(spec, f"{name}_{key}") for key, spec in x.inputs.items()},
            "outputs": {key: show_spec(spec, f"{name}_{key}") for key, spec in x.outputs.items()},
            "method_name": "tensorflow/serving/predict",
            "defaults": {},
        }
        for name, x in model.signatures.items()
    }
    return {
        "model_spec": {"name": model.name, "signature_name": "", "version": str(model.version)},
        "metadata": {"signature_def": {"signature_def": signatures}},
    }


def show_spec(spec: Any, name: str) -> dict[str, Any]:
    """A TensorSpec as in the JSON of TensorInfo."""
    is_unknown = spec.shape.rank is None
    sizes = [] if is_unknown else [-1 if size is None else size for size in spec.shape]
    dimensions = [{"size": str(size), "name": ""} for size in sizes]
    return {
        "dtype": types_pb2.DataType.Name(spec.dtype.as_datatype_enum),
        "tensor_shape": {"dim": dimensions, "unknown_rank": is_unknown},
        "name": f"{name}:0",
    }
