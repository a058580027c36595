"""Values that are not arrays (sequences, optionals, dictionaries) as the arrays in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from .arguments import Array


def arrays_of(name: str, value: Any) -> dict[str, Array]:
    """The arrays in a value by name: `y[0]`, `y[1]` of a sequence, `y['key']` of a dictionary, none
    of an optional without a value; an array is `y` itself."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        parts = [(repr(k), v) for k, v in cast("Mapping[Any, Any]", value).items()]
    elif isinstance(value, list | tuple):
        parts = [(str(i), v) for i, v in enumerate(cast("Sequence[Any]", value))]
    else:
        return {name: np.asarray(value)}
    return by_name((f"{name}[{key}]", part) for key, part in parts)


def by_name(named: Iterable[tuple[str, Any]]) -> dict[str, Array]:
    """The arrays in all of some values."""
    found: dict[str, Array] = {}
    for name, value in named:
        found |= arrays_of(name, value)
    return found
