"""JSON ↔ arrays, by the rules of TensorFlow Serving's REST API.

A request is in rows, {"instances": [row, …]} → {"predictions": [row, …]}, or in columns,
{"inputs": {name: values}} → {"outputs": {name: values}}. Where there is only one input or output,
its name is left out. Bytes are {"b64": "…"}; of outputs only those whose name ends with "_bytes".
"""

import base64
import binascii
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from tfx_transformer.serving.errors import InvalidRequest
from tfx_transformer.serving.signatures import check_names

LEAVES: dict[str, set[type]] = {
    "b": {bool},
    "i": {int},
    "u": {int},
    "f": {int, float},
    "O": {str, dict},
}
MAX_DEPTH = 32  # NumPy has a limit, too
BLOCK = 10_000  # floats that are converted at the same time


def read_inputs(request: dict[str, Any], specs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a request's "instances" or "inputs", for TensorSpecs by name."""
    if ("instances" in request) == ("inputs" in request):
        raise InvalidRequest("the request must have either 'instances' or 'inputs'")
    columns = request.get("inputs")
    if "instances" in request:
        columns = read_rows(request["instances"], specs)
    elif not isinstance(columns, dict) or is_base64(columns):
        columns = {only_name(specs): columns}
    check_names(columns, specs)
    return {name: to_array(columns[name], spec, name) for name, spec in specs.items()}


def read_rows(rows: Any, specs: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Rows, each of them a value or named values, as columns."""
    if not isinstance(rows, list) or not rows:
        raise InvalidRequest("'instances' must be a list with at least one element")
    if not isinstance(rows[0], dict) or is_base64(rows[0]):
        return {only_name(specs): rows}
    for row in rows:
        if not isinstance(row, dict):
            raise InvalidRequest("'instances' must be a list of objects, or a list of values")
        check_names(row, specs)
    return {name: [row[name] for row in rows] for name in specs}


def only_name(specs: Mapping[str, Any]) -> str:
    if len(specs) > 1:
        raise InvalidRequest(f"the inputs must be named; the signature has {', '.join(specs)}")
    return next(iter(specs))


def is_base64(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def to_array(value: Any, spec: Any, name: str) -> np.ndarray:
    """Nested lists as an array with the dtype of the TensorSpec."""
    dtype = np.dtype(spec.dtype.as_numpy_dtype)
    values, shape = flatten(value, name)
    if not set(map(type, values)) <= LEAVES[dtype.kind]:
        raise InvalidRequest(f"{name} must have values of type {spec.dtype.name}")
    if dtype.kind == "O":
        array = np.empty(len(values), dtype)
        array[:] = [to_bytes(item, name) for item in values]
    elif dtype.kind == "f":
        array = to_floats(values, dtype, name)
    else:
        try:
            array = np.array(values, dtype)
        except OverflowError:
            raise InvalidRequest(f"{name} must fit into {spec.dtype.name}") from None
    return array.reshape(shape)


def flatten(value: Any, name: str) -> tuple[list[Any], list[int]]:
    """Nested lists as one list, and their shape; lists at one depth have one length."""
    level, shape = [value], []
    while level and isinstance(level[0], list):
        sizes = {len(item) if isinstance(item, list) else -1 for item in level}
        if len(sizes) > 1:
            raise InvalidRequest(f"{name} must have lists of the same length at each depth")
        shape.append(sizes.pop())
        if len(shape) > MAX_DEPTH:
            raise InvalidRequest(f"{name} must have at most {MAX_DEPTH} lists in each other")
        level = list(chain.from_iterable(level))
    return level, shape


def to_floats(values: list[Any], dtype: np.dtype, name: str) -> np.ndarray:
    """Floats; large numbers that would lose digits or become infinite are errors."""
    largest = 2 ** (np.finfo(dtype).nmant + 1)
    is_exact = not any(type(item) is int and abs(item) >= largest for item in values)
    wide = np.array(values if is_exact else [], np.float64)
    if not is_exact or np.any(np.abs(wide[np.isfinite(wide)]) > np.finfo(dtype).max):
        raise InvalidRequest(f"{name} must fit into {dtype.name}")
    return wide.astype(dtype)


def to_bytes(value: str | dict[str, str], name: str) -> bytes:
    try:
        if isinstance(value, str):
            return value.encode()
        if is_base64(value):
            return decode_base64(value["b64"])
    except (UnicodeEncodeError, binascii.Error):
        pass
    raise InvalidRequest(f'{name} must have strings in UTF-8 or {{"b64": "…"}} with valid base64')


def decode_base64(text: str) -> bytes:
    """Strict, except that the padding may be missing."""
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), validate=True)


def show_outputs(outputs: Mapping[str, np.ndarray], as_rows: bool) -> dict[str, Any]:
    """The answer to a request in rows or in columns."""
    columns = {name: to_json(array, name) for name, array in outputs.items()}
    single = next(iter(columns.values())) if len(columns) == 1 else None
    if not as_rows:
        return {"outputs": columns if single is None else single}
    if single is not None:
        return {"predictions": single}
    rows = zip(*columns.values(), strict=True)
    return {"predictions": [dict(zip(columns, row, strict=True)) for row in rows]}


def to_json(array: np.ndarray, name: str = "") -> Any:
    """Nested lists. Floats have the fewest digits that identify them in their own precision."""
    array = np.asarray(array)
    if array.dtype.kind == "O":
        show = show_bytes if name.endswith("_bytes") else show_text
        shown = np.empty(array.shape, object)
        shown.ravel()[:] = [show(item) for item in array.ravel()]
        return shown.tolist()
    if array.dtype.kind == "f" and array.itemsize < 8:
        flat, wide = array.ravel(), np.empty(array.size, np.float64)
        for start in range(0, array.size, BLOCK):  # as text each takes 128 bytes
            part = slice(start, start + BLOCK)
            wide[part] = flat[part].astype("U32")
        array = wide.reshape(array.shape)
    return array.tolist()


def show_bytes(value: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(value).decode()}


def show_text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
