"""Signatures: the functions of a pipeline or of a loaded export, with their inputs and outputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf


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
