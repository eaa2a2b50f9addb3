import importlib
import sys

import pytest

from tfx_transformer.checks import (
    check_above_zero,
    check_choice,
    check_divides,
    check_fraction,
    check_positive,
    check_rate,
    check_whole,
    import_extra,
    is_installed,
)


@pytest.mark.parametrize("value", [0, -1, 1.5, "3", None, True])
def test_a_size_is_a_whole_number_above_zero(value):
    check_positive(size=1)
    with pytest.raises(
        ValueError, match=f"size must be a whole number above zero; got size={value!r}"
    ):
        check_positive(size=value)


def test_the_first_size_divides_the_second():
    check_divides(small=3, large=12)
    with pytest.raises(ValueError, match="small must divide large; got small=5, large=12"):
        check_divides(small=5, large=12)


@pytest.mark.parametrize("value", [-0.1, 1, 1.0, "0.1", None])
def test_a_rate_lies_between_zero_and_one(value):
    check_rate(rate=0)
    check_rate(rate=0.99)
    with pytest.raises(ValueError, match=f"rate must lie in 0 <= rate < 1; got rate={value!r}"):
        check_rate(rate=value)


def test_a_choice_lists_the_known():
    check_choice("add", "concat", combine="add")
    with pytest.raises(ValueError, match="unknown combine 'mix'; known: add, concat"):
        check_choice("add", "concat", combine="mix")


@pytest.mark.parametrize("value", [0, -1e-6, float("nan"), "1", None, True])
def test_a_number_is_above_zero(value):
    check_above_zero(number=1e-6)
    with pytest.raises(ValueError, match=f"number must be above zero; got number={value!r}"):
        check_above_zero(number=value)


@pytest.mark.parametrize("value", [-1, 1.5, "1", None, True])
def test_a_count_is_a_whole_number(value):
    check_whole(count=0)
    match = f"count must be a whole number, zero or more; got count={value!r}"
    with pytest.raises(ValueError, match=match):
        check_whole(count=value)


@pytest.mark.parametrize("value", [0, 1.1, "0.5", None])
def test_a_fraction_is_above_zero_and_at_most_one(value):
    check_fraction(ratio=1)
    with pytest.raises(ValueError, match=f"ratio must lie in 0 < ratio <= 1; got ratio={value!r}"):
        check_fraction(ratio=value)


def test_an_optional_package_is_imported_or_named_with_the_command_to_install_it():
    assert import_extra("os.path", "a file", "convert").sep == "/"
    match = 'the format x needs the package no_such: pip install no_such, or .*".\\[convert\\]"'
    with pytest.raises(ImportError, match=match):
        import_extra("no_such.part", "the format x", "convert")


def test_a_folder_with_the_name_of_a_package_is_not_that_package(tmp_path, monkeypatch):
    (tmp_path / "no_such").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.import_module("no_such") and not is_installed("no_such")
    with pytest.raises(ImportError, match="the format x needs the package no_such"):
        import_extra("no_such", "the format x", "convert")
    del sys.modules["no_such"]
    (tmp_path / "no_such/__init__.py").touch()
    importlib.invalidate_caches()
    assert is_installed("no_such")
