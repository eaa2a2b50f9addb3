import keras
import pytest

from tfx_transformer.config import Configured


class Parent(Configured, keras.layers.Layer):
    def __init__(self, size, shape=(1, 2), **kwargs):
        super().__init__(**kwargs)
        self.size, self.shape = size, shape


class Child(Parent):
    def __init__(self, size, spec=None, **kwargs):
        super().__init__(size, **kwargs)
        self.spec = spec


class Forgetful(Configured, keras.layers.Layer):
    def __init__(self, size, **kwargs):
        super().__init__(**kwargs)


def test_the_config_holds_the_arguments_of_the_class_and_of_those_above_it():
    config = Child(3, spec={"kind": "a", "sizes": [1, 2]}, shape=(4, 5), name="me").get_config()
    assert config["size"] == 3 and config["shape"] == [4, 5] and config["name"] == "me"
    assert config["spec"] == {"kind": "a", "sizes": [1, 2]}
    assert type(config["spec"]) is dict and type(config["spec"]["sizes"]) is list


def test_an_argument_that_was_not_kept_is_named():
    with pytest.raises(AttributeError, match="size"):
        Forgetful(3).get_config()


def test_the_class_is_registered_under_the_package():
    assert keras.saving.get_registered_name(Child) == "tfx_transformer>Child"
