"""What a caller may hand in: each input checked against the plan's ports, by name.

Symbols are bound by the first input that shows them as a plain size, then every expression is
compared. Any strides, alignment and byte order are accepted, another element type is not: a
silent conversion would hide a mistake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...ir.dims import Dim, compile_dims, evaluate, plain_symbol
from ...ir.dtype import DType
from ...ir.errors import Error, InputError
from ...ir.types import MapType, OptionalType, TensorType, Type
from ...plan.plan import PlanPort


class InputCheck:
    """The checks of one plan's inputs."""

    def __init__(self, ports: Sequence[PlanPort]) -> None:
        self.ports = tuple(ports)
        dims: list[Dim] = []
        self._axes: list[tuple[int, int]] = []  # what `dims` are, by input and axis
        self._symbols: list[tuple[str, int, int]] = []
        self._tensors: list[tuple[int, str, TensorType]] = []
        self._others: list[tuple[int, str, Type]] = []
        bound: set[str] = set()
        for n, port in enumerate(ports):
            if not isinstance(port.type, TensorType):
                self._others.append((n, port.name, port.type))
                continue
            self._tensors.append((n, port.name, port.type))
            for axis, d in enumerate(port.type.shape or ()):
                dims.append(d)
                self._axes.append((n, axis))
                if (s := plain_symbol(d)) is not None and s.name not in bound:
                    bound.add(s.name)
                    self._symbols.append((s.name, n, axis))
        self._sizes = compile_dims(dims)

    def __call__(self, values: Sequence[Any]) -> None:
        """InputError names the input, what it got and what it expects."""
        if len(values) != len(self.ports):
            raise InputError(
                "the model takes another number of inputs",
                got=len(values),
                expected=f"{len(self.ports)}: {', '.join(p.name for p in self.ports)}",
            )
        for n, name, wanted in self._tensors:
            check_tensor(name, wanted, values[n])
        for n, name, type_ in self._others:
            check_value(name, type_, values[n])
        env = {name: int(values[n].shape[axis]) for name, n, axis in self._symbols}
        try:
            sizes = self._sizes(env)
        except Error:  # bounds, or a symbol that no input shows: find out where
            sizes = None
        if sizes is None or sizes != [values[n].shape[axis] for n, axis in self._axes]:
            self._explain(values, env)

    def _explain(self, values: Sequence[Any], env: dict[str, int]) -> None:
        """InputError for the first axis that does not fit."""
        seen = {s: f"axis {a} of input {self.ports[n].name!r}" for s, n, a in self._symbols}
        for n, _, wanted in self._tensors:
            _check_shape(self.ports[n], wanted.shape or (), values[n].shape, env, seen)


def check_value(name: str, wanted: Type, value: Any) -> None:
    """Is it a list or a dict of such values, or such a value or None? InputError. Sizes inside them
    are not compared: they may differ from element to element."""
    if isinstance(wanted, TensorType):
        check_tensor(name, wanted, value)
    elif isinstance(wanted, OptionalType):
        if value is not None:
            check_value(name, wanted.element, value)
    elif isinstance(wanted, MapType):
        if not isinstance(value, Mapping):
            raise InputError(
                f"input {name!r} is not a map",
                got=type(value).__name__,
                expected=f"a dict: {wanted}",
            )
        for key, element in cast("Mapping[Any, Any]", value).items():
            _check_key(name, wanted, key)
            check_value(
                f"{name}[{key!r}]", wanted.element, _convert_python_number(wanted.element, element)
            )
    elif isinstance(value, list | tuple):
        for i, element in enumerate(cast("Sequence[Any]", value)):
            check_value(f"{name}[{i}]", wanted.element, element)
    else:
        raise InputError(
            f"input {name!r} is not a sequence",
            got=type(value).__name__,
            expected=f"a list: {wanted}",
        )


def _check_key(name: str, wanted: MapType, key: Any) -> None:
    if wanted.key is DType.string:
        good = isinstance(key, str)
    else:
        is_integer = isinstance(key, int | np.integer) and not isinstance(key, bool)
        good = is_integer and _is_in_range(int(key), wanted.key)
    if not good:
        raise InputError(
            f"input {name!r} has a key of another type",
            got=f"{key!r:.80} ({type(key).__name__})",
            expected=f"{wanted.key}, as in {wanted}",
        )


def _convert_python_number(wanted: Type, value: Any) -> Any:
    """Python's numbers and text, which have no element type of their own, as an array of the type
    that a map of `wanted` holds for them; anything else as it is."""
    if isinstance(value, np.generic):
        return np.asarray(value)
    if not isinstance(wanted, TensorType):
        return value
    if isinstance(value, str):
        return np.array(value, object)
    number = type(value) in (int, float) and wanted.dtype.is_float
    if number or (type(value) is int and wanted.dtype.is_int and _is_in_range(value, wanted.dtype)):
        return np.zeros((), wanted.dtype.numpy)
    return value


def _is_in_range(value: int, dtype: DType) -> bool:
    bits = dtype.bits - dtype.is_signed
    return (-1 << bits if dtype.is_signed else 0) <= value < 1 << bits


def check_tensor(name: str, wanted: TensorType, value: Any) -> None:
    """Is it an array of the wanted element type and rank? InputError."""
    if value is None:
        raise InputError(f"input {name!r} is missing", expected=str(wanted))
    if not isinstance(value, np.ndarray):
        raise InputError(
            f"input {name!r} is not an array",
            got=type(value).__name__,
            expected=str(wanted),
            fix=f"pass numpy.asarray(value, {_name(wanted.dtype)!r})",
        )
    if wanted.dtype is not DType.dynamic and not same_dtype(value.dtype, wanted.dtype):
        raise InputError(
            f"input {name!r} has another element type",
            got=f"{value.dtype.newbyteorder('=')}",
            expected=f"{_name(wanted.dtype)}",
            fix=f"convert it with .astype({_name(wanted.dtype)!r})",
        )
    if wanted.shape is not None and value.ndim != len(wanted.shape):
        raise InputError(
            f"input {name!r} has another number of dimensions",
            got=f"{value.ndim}: {list(value.shape)}",
            expected=f"{len(wanted.shape)}: {wanted}",
        )


def same_dtype(dtype: np.dtype[Any], wanted: DType) -> bool:
    """The same elements, in whatever byte order."""
    if wanted is DType.string:
        return dtype.kind in "OUST"
    return dtype == wanted.numpy or dtype.newbyteorder("=") == wanted.numpy


def _name(dtype: DType) -> str:
    if dtype in (DType.string, DType.dynamic):
        return "str" if dtype is DType.string else "float32"
    return dtype.numpy.name


def _check_shape(
    port: PlanPort,
    wanted: Sequence[Dim],
    got: Sequence[int],
    env: dict[str, int],
    seen: dict[str, str],
) -> None:
    for axis, d in enumerate(wanted):
        where = f"axis {axis} of input {port.name!r}"
        try:
            size = evaluate(d, env)
        except Error as e:  # bounds, or a symbol that no input shows
            raise InputError(
                f"input {port.name!r} has a size that the model does not allow",
                where=where,
                got=f"{list(got)}: {e.what}{'' if e.got is None else f' ({e.got})'}",
                expected=f"{port.type}" + (f", {e.expected}" if e.expected is not None else ""),
            ) from e
        if size != got[axis]:
            first = plain_symbol(d)
            why = f", as {d} is {size} ({seen[first.name]})" if first and first.name in seen else ""
            raise InputError(
                f"input {port.name!r} has another shape",
                where=where,
                got=f"{list(got)}",
                expected=f"{port.type}{why}",
            )


def fixed_dtype(type_: Type) -> np.dtype[Any] | None:
    """The NumPy dtype an input must have, if that is all there is to say about its elements."""
    if not isinstance(type_, TensorType) or type_.dtype in (DType.dynamic, DType.string):
        return None
    return type_.dtype.numpy
