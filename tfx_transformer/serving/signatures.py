"""Signatures: functions with named inputs and outputs, and checks of the inputs of a request."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_transformer.pipelines.base import to_bytes
from tfx_transformer.serving.errors import InvalidRequest, TooLarge
from tfx_transformer.serving.options import ServingOptions


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a function of a model."""

    inputs: dict[str, tf.TensorSpec]
    outputs: dict[str, tf.TensorSpec]

    @property
    def is_batched(self) -> bool:
        """Whether all inputs have rows, so that requests can share a batch."""
        return all(spec.shape.rank for spec in self.inputs.values())


def concrete_functions(predictor) -> dict[str, Any]:
    """The functions of a pipeline or of a loaded export, by the names of their signatures."""
    signatures = predictor.signatures
    if not callable(signatures):
        return dict(signatures)
    return {name: function.get_concrete_function() for name, function in signatures().items()}


def read_signature(function) -> Signature:
    """Names, types and shapes of a concrete function."""

    def specs(tensors):
        return {key: tf.TensorSpec(x.shape, x.dtype, key) for key, x in tensors.items()}

    return Signature(specs(arguments(function)), specs(function.structured_outputs))


def arguments(function) -> dict[str, tf.TensorSpec]:
    positional, named = function.structured_input_signature
    return {spec.name: spec for spec in positional} | named


def by_name(function) -> Callable:
    """The concrete function as one of named tensors."""
    positional, named = function.structured_input_signature

    def call(tensors):
        values = [tensors[spec.name] for spec in positional]
        return function(*values, **{name: tensors[name] for name in named})

    return call


def check_inputs(
    inputs: dict[str, Any], specs: dict[str, tf.TensorSpec], options: ServingOptions
) -> dict[str, np.ndarray]:
    """The inputs as arrays of the right types, in the order of `specs`."""
    check_names(inputs, specs)
    arrays = {name: to_array(name, inputs[name], spec) for name, spec in specs.items()}
    rows = {name: len(x) for name, x in arrays.items() if x.ndim}
    if len(set(rows.values())) > 1:
        raise InvalidRequest(f"inputs must have the same number of rows; got {rows}")
    count = next(iter(rows.values()), 1)
    if count == 0:
        raise InvalidRequest("inputs must have at least one row; got none")
    if count > options.max_rows:
        raise TooLarge(f"a request must have at most {options.max_rows} rows; got {count}")
    for text in arrays.get("text", ()):
        check_text(text, options.max_characters)
    return arrays


def check_names(inputs: Iterable[Any], specs: Iterable[str]) -> None:
    if set(inputs) != set(specs):
        expected, names = ", ".join(specs), ", ".join(map(str, inputs))[:200] or "none"
        raise InvalidRequest(f"inputs must be {expected}; got {names}")


def to_array(name: str, value: Any, spec: tf.TensorSpec) -> np.ndarray:
    """The value with the type and shape of its specification."""
    dtype = spec.dtype.as_numpy_dtype
    try:
        array = np.asarray(value, object if spec.dtype == tf.string else None)
    except ValueError:  # rows of different lengths
        raise InvalidRequest(f"{name} must have rows of equal length") from None
    if spec.dtype == tf.string:
        array = strings(name, array)
    elif array.size and array.dtype.kind not in ("iuf" if spec.dtype.is_floating else "iu"):
        raise InvalidRequest(f"{name} must have the type {spec.dtype.name}; got {kind_of(array)}")
    elif spec.dtype.is_integer and array.size:
        limits = np.iinfo(dtype)
        if array.min() < limits.min or array.max() > limits.max:
            raise InvalidRequest(f"{name} must lie in the range of {spec.dtype.name}")
    if not spec.shape.is_compatible_with(array.shape):
        shape = ", ".join("?" if size is None else str(size) for size in spec.shape)
        raise InvalidRequest(f"{name} must have the shape ({shape}); got {array.shape}")
    with np.errstate(over="ignore"):
        return array.astype(dtype, copy=False)


def strings(name: str, array: np.ndarray) -> np.ndarray:
    """Strings and bytes as bytes."""
    items = array.ravel()
    for item in items:
        if not isinstance(item, str | bytes):
            raise InvalidRequest(f"{name} must be strings; got {type(item).__name__}")
    result = np.empty(array.size, object)
    result[:] = [to_bytes(item) for item in items]
    return result.reshape(array.shape)


def kind_of(array: np.ndarray) -> str:
    return "strings or mixed values" if array.dtype.kind in "OUS" else array.dtype.name


def check_text(text: bytes, max_characters: int) -> None:
    try:
        length = len(text.decode())
    except UnicodeDecodeError:
        raise InvalidRequest("text must be UTF-8") from None
    if length > max_characters:
        raise TooLarge(f"text must have at most {max_characters} characters; got {length}")
