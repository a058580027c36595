"""Arrays of a call: inputs made up where the user gives none, and the arrays in its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ..api import PortInfo
from ..ir.dtype import DType
from ..ir.errors import InputError, UsageError
from .arguments import Array


def fill_inputs(
    ports: Sequence[PortInfo], given: dict[str, Array], default: int = 1, seed: int = 0
) -> tuple[dict[str, Array], list[str]]:
    """Arrays for all inputs: those given, and random ones (floats, and both parts of complex
    numbers, from N(0, 1); integers 0 or 1, which are valid indices and masks). A symbolic size
    takes the size that a given input has for it, else `default`. Returns the arrays, and which
    sizes were made up ("N=1"). InputError for an array that no input takes.
    """
    unknown = [name for name in given if name not in {p.name for p in ports}]
    if unknown:
        known = ", ".join(p.name for p in ports) or "no inputs"
        raise InputError("unknown input", got=", ".join(unknown), expected=known)
    rng = np.random.default_rng(seed)
    sizes: dict[str, int] = {}
    for port in ports:
        array = given.get(port.name)
        if array is not None and port.shape is not None:
            sizes.update(
                {d: n for d, n in zip(port.shape, array.shape, strict=False) if isinstance(d, str)}
            )
    made_up: dict[str, int] = {}
    inputs: dict[str, Array] = {}
    for port in ports:
        if port.name in given:
            inputs[port.name] = given[port.name]
            continue
        if port.shape is None:
            raise UsageError(
                "an input of any rank can't be made up", where=port.name, fix=_give(port.name)
            )
        shape = [d if isinstance(d, int) else sizes.get(d, default) for d in port.shape]
        made_up.update({d: default for d in port.shape if isinstance(d, str) and d not in sizes})
        dtype = DType(port.dtype)
        if dtype.is_float:
            inputs[port.name] = rng.standard_normal(shape).astype(dtype.numpy)
        elif dtype.is_complex:
            parts = rng.standard_normal((2, *shape))
            inputs[port.name] = (parts[0] + 1j * parts[1]).astype(dtype.numpy)
        elif dtype.is_int or dtype is DType.boolean:
            inputs[port.name] = rng.integers(0, 2, shape).astype(dtype.numpy)
        else:
            what = f"an input of type {port.dtype} can't be made up"
            raise UsageError(what, where=port.name, fix=_give(port.name))
    return inputs, [f"{name}={size}" for name, size in made_up.items()]


def _give(name: str) -> str:
    return f"give it (--input {name}=FILE.npy)"


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
