"""Checks of arguments; each error names the argument, the rule and the value."""

import importlib.util
from typing import Any


def missing_package(purpose: str, package: str, extra: str) -> ImportError:
    """The error for an optional package that is not installed."""
    install = f'pip install {package}, or in a checkout: pip install ".[{extra}]"'
    return ImportError(f"{purpose} needs the package {package}: {install}")


def is_installed(package: str) -> bool:
    """Whether a package can be imported; any folder of its name, without code, is not enough."""
    try:
        spec = importlib.util.find_spec(package)
    except ValueError:  # a module that was made by hand
        return True
    return spec is not None and spec.origin is not None


def import_extra(module: str, purpose: str, extra: str) -> Any:
    """Imports a module of an optional package; without it, the error says how to install it."""
    package = module.partition(".")[0]
    if not is_installed(package):
        raise missing_package(purpose, package, extra)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing_package(purpose, package, extra) from error


def check_positive(**sizes) -> None:
    """`check_positive(dim=dim, num_heads=num_heads)`: every size is a whole number above zero."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number above zero; got {name}={value!r}")


def check_above_zero(**numbers) -> None:
    """`check_above_zero(epsilon=epsilon)`: every number, whole or not, is above zero."""
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ValueError(f"{name} must be above zero; got {name}={value!r}")


def check_divides(**sizes) -> None:
    """`check_divides(num_heads=num_heads, dim=dim)`: the first size divides the second."""
    check_positive(**sizes)
    (small, divisor), (large, value) = sizes.items()
    if value % divisor:
        raise ValueError(f"{small} must divide {large}; got {small}={divisor}, {large}={value}")


def check_rate(**rates) -> None:
    """`check_rate(dropout=dropout)`: every rate lies in 0 ≤ rate < 1."""
    for name, value in rates.items():
        if not isinstance(value, int | float) or not 0 <= value < 1:
            raise ValueError(f"{name} must lie in 0 <= {name} < 1; got {name}={value!r}")


def check_fraction(**fractions) -> None:
    """`check_fraction(crop_ratio=crop_ratio)`: every fraction lies in 0 < fraction ≤ 1."""
    for name, value in fractions.items():
        if not isinstance(value, int | float) or not 0 < value <= 1:
            raise ValueError(f"{name} must lie in 0 < {name} <= 1; got {name}={value!r}")


def check_choice(*known, **choices) -> None:
    """`check_choice("add", "concat", combine=combine)`: every choice is a known one."""
    for name, value in choices.items():
        if value not in known:
            raise ValueError(f"unknown {name} {value!r}; known: {', '.join(map(str, known))}")


def check_whole(**counts) -> None:
    """`check_whole(min_length=min_length)`: every count is a whole number, zero or more."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{name} must be a whole number, zero or more; got {name}={value!r}")
