import keras
import pytest

from tfx_transformer.config import Serializable


class Parent(Serializable, keras.layers.Layer):
    def __init__(self, size, shape=(1, 2), **kwargs):
        super().__init__(**kwargs)
        self.area = self.shape[0] * self.shape[1]  # arguments are attributes by now


class Child(Parent):
    def __init__(self, size, spec=None, depth=None, **kwargs):
        super().__init__(size, **kwargs)
        self.depth = size if depth is None else depth


class Renaming(Parent):
    def __init__(self, width, weights=None, **kwargs):
        super().__init__(2 * width, shape=(3, 4), **kwargs)


class Owner(Serializable, keras.layers.Layer):
    def __init__(self, size, spec, rate=0.5, **kwargs):
        super().__init__(**kwargs)
        self.part = self.make(Child, depth=7, name="part")


def test_the_config_holds_the_arguments_of_the_class_and_of_its_parents():
    config = Child(3, spec={"kind": "a", "sizes": [1, 2]}, shape=(4, 5), name="me").get_config()
    assert config["size"] == 3 and config["shape"] == [4, 5] and config["name"] == "me"
    assert config["spec"] == {"kind": "a", "sizes": [1, 2]}
    assert type(config["spec"]) is dict and type(config["spec"]["sizes"]) is list
    assert Child.from_config(config).get_config() == config


def test_every_argument_is_an_attribute_under_its_own_name():
    layer = Child(3, {"kind": "a"})
    assert (layer.size, layer.shape, layer.area) == (3, (1, 2), 2)
    assert layer.spec == {"kind": "a"}


def test_the_constructor_may_replace_an_argument():
    assert Child(3).depth == 3 and Child(3).get_config()["depth"] == 3
    assert Child(3, depth=1).depth == 1


def test_a_parent_keeps_what_a_subclass_passes_to_it():
    layer = Renaming(5)
    assert (layer.width, layer.size, layer.shape, layer.area) == (5, 10, (3, 4), 12)
    assert layer.weights == []  # a property of Keras stays


def test_a_part_gets_the_dtype_and_the_arguments_that_both_have():
    part = Owner(3, {"kind": "a"}, dtype="bfloat16").part
    assert (part.size, part.spec, part.depth, part.shape) == (3, {"kind": "a"}, 7, (1, 2))
    assert part.name == "part" and part.compute_dtype == "bfloat16"


def test_a_missing_argument_is_named():
    with pytest.raises(TypeError, match="size"):
        Child()


def test_the_class_is_registered_under_the_package():
    assert keras.saving.get_registered_name(Child) == "tfx_transformer>Child"
