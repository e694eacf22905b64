"""Checks of arguments. A wrong one is an ArgumentError with its name, its value and what is expected.

Numbers of NumPy are numbers; True and False are none.
"""

from __future__ import annotations

import numbers
import operator
import os
from typing import Any

from ._errors import ArgumentError


def whole(name: str, value: Any, least: int, most: int) -> int:
    """A whole number within limits."""
    try:
        if is_flag(value):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{name} {value!r}: expected a whole number from {least} to {most}") from None
    if not least <= number <= most:
        raise ArgumentError(f"{name} {number}: expected {least} to {most}")
    return number


def real(name: str, value: Any, expected: str) -> float:
    """A number."""
    if is_flag(value) or not isinstance(value, numbers.Real):
        raise ArgumentError(f"{name} {value!r}: expected {expected}")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not is_flag(value):
        raise ArgumentError(f"{name} {value!r}: expected True or False")
    return bool(value)


def is_flag(value: Any) -> bool:
    """Whether it is True or False."""
    return type(value).__name__ in ("bool", "bool_")


def plain(value: Any) -> Any:
    """Python's own value for one of NumPy's, also in an array without axes; all else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def text(name: str, value: Any, expected: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name} {value!r}: expected {expected}")
    return value


def path(name: str, value: Any) -> str:
    """A path, or a URL."""
    given = os.fspath(value) if isinstance(value, os.PathLike) else value
    return text(name, given, "a path, as str or pathlib.Path")


def place(name: str, value: Any) -> str:
    """A path or URL of something. An empty one would mean the working directory."""
    given = path(name, value)
    if not given:
        raise ArgumentError(f"{name} '': expected a path; '.' is the working directory")
    return given


def several(name: str, value: Any, expected: str) -> tuple[Any, ...]:
    """A sequence that is not a string."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise ArgumentError(f"{name} {value!r}: expected {expected}")
    return tuple(value)
