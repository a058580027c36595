"""Addresses of functions in loaded libraries."""

from __future__ import annotations

import ctypes
from typing import Any


def address_of(library: Any, name: str) -> int:
    """The address of a function. AttributeError where the library has none of that name."""
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def found_addresses(library: Any, names: tuple[str, ...]) -> dict[str, int]:
    """The addresses of those of the functions that the library has."""
    return {name: address_of(library, name) for name in names if hasattr(library, name)}
