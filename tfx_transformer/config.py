"""Saving a layer or a model: its constructor arguments, and nothing else."""

import inspect
from typing import Any

import keras


class Configured:
    """Gives `get_config()` from the constructor's own signature.

    Every argument must be plain data kept on `self` under its own name; what a subclass hands on
    by `**kwargs` counts too. Put this class first: `class MyLayer(Configured, keras.layers.Layer)`.
    The class is registered with Keras under the name of this package, so that a `.keras` file
    loads wherever the class has been imported.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        keras.saving.register_keras_serializable("tfx_transformer")(cls)

    def get_config(self) -> dict[str, Any]:
        names = dict.fromkeys(_argument_names(type(self)))
        return super().get_config() | {name: _plain(getattr(self, name)) for name in names}  # type: ignore[misc]


def _argument_names(cls):
    """The constructor's arguments, then those of the Configured classes above it."""
    for part in cls.__mro__:
        if issubclass(part, Configured) and "__init__" in vars(part):
            for parameter in list(inspect.signature(part.__init__).parameters.values())[1:]:
                if parameter.kind is not parameter.VAR_KEYWORD:
                    yield parameter.name


def _plain(value):
    """Keras replaces lists and dicts kept on a layer by its own tracked kinds; this undoes it."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
