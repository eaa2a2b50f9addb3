"""Constructor arguments of layers and models: stored, saved and passed on by their names."""

import functools
import inspect
from typing import Any

import keras


class Serializable:
    """Mixin that stores constructor arguments, derives `get_config()` and registers the class.

    As soon as Keras's constructor has run, every argument is an attribute under its own name,
    with its default if not given; the rest of `__init__` may replace it, and the config has the
    new value. Arguments must be plain data; those of parent classes, passed on by `**kwargs`, are
    included. Put this class first: `class MyLayer(Serializable, keras.layers.Layer)`. It is
    registered with Keras under the package name "tfx_transformer", so that `.keras` files load
    after it was imported.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        keras.saving.register_keras_serializable("tfx_transformer")(cls)
        if "__init__" in vars(cls):
            cls.__init__ = _keep_arguments(cls.__init__)

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        for name, value in vars(self).pop("_arguments", {}).items():
            if not hasattr(type(self), name):  # such as Keras's property `weights`
                setattr(self, name, value)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()  # type: ignore[misc]
        return config | {name: _plain(getattr(self, name)) for name in argument_names(type(self))}

    def make(self, kind, /, **options):
        """Create a layer with the dtype of this one and the arguments that both classes have.

        `make(TransformerBlock, name="block_0")` passes on `dim`, `norm`, …; `options` come first.
        """
        names = set(argument_names(type(self))) & set(argument_names(kind)) - options.keys()
        shared = {name: _plain(getattr(self, name)) for name in names}
        return kind(dtype=self.dtype_policy, **shared, **options)


def _keep_arguments(init):
    """A constructor that keeps its arguments for `Serializable`; those of a subclass come first."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def constructor(self, *args, **kwargs):
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        arguments = {name: bound.arguments[name] for name in _names(init)}
        vars(self)["_arguments"] = arguments | vars(self).get("_arguments", {})
        init(self, *args, **kwargs)

    constructor.__signature__ = signature  # Keras reads it
    return constructor


def argument_names(cls) -> list[str]:
    """The constructor's arguments, then those of its Serializable parents."""
    parts = [x for x in cls.__mro__ if issubclass(x, Serializable) and "__init__" in vars(x)]
    return list(dict.fromkeys(name for part in parts for name in _names(part.__init__)))


def _names(init):
    parameters = list(inspect.signature(init).parameters.values())[1:]
    return [parameter.name for parameter in parameters if parameter.kind != parameter.VAR_KEYWORD]


def _plain(value):
    """A copy with plain dicts and lists instead of Keras's tracked ones."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
