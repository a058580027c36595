"""What goes into a call and comes out of it: inputs by name or in order, outputs by both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from numpy import ndarray

from ..ir.errors import InputError
from ..ir.types import OptionalType
from ..plan.plan import PlanPort

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Outputs(tuple["NDArray[Any]", ...]):
    """The results of a call: by position, by name, or unpacked. Each array is the caller's own.

    An output of ONNX's sequence or optional type is a list of arrays or None at run time.
    """

    __slots__ = ()
    _names: Mapping[str, int] = {}

    @overload
    def __getitem__(self, key: str | SupportsIndex) -> NDArray[Any]: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[NDArray[Any], ...]: ...

    def __getitem__(
        self, key: str | SupportsIndex | slice
    ) -> NDArray[Any] | tuple[NDArray[Any], ...]:
        if isinstance(key, str):
            at = self._names.get(key)
            if at is None:
                raise InputError(
                    "unknown output", got=key, expected=", ".join(self._names) or "no names"
                )
            return super().__getitem__(at)
        return super().__getitem__(key)

    def keys(self) -> Iterator[str]:
        """The names."""
        return iter(self._names)

    def __reduce__(self) -> tuple[Callable[..., Outputs], tuple[object, ...]]:
        return _rebuild, (list(self), dict(self._names))


def outputs_type(names: Mapping[str, int]) -> Callable[[Sequence[Any]], Outputs]:
    """Outputs of one model. A class of its own: an object made per call then holds the arrays and
    nothing else, which saves half a microsecond."""
    return type("Outputs", (Outputs,), {"_names": names, "__slots__": ()})


def _rebuild(arrays: list[Any], names: dict[str, int]) -> Outputs:
    return outputs_type(names)(arrays)


class PortTable:
    """Finds the inputs (or outputs) of a plan by position and by all their names."""

    def __init__(self, ports: Sequence[PlanPort], kind: str) -> None:
        self._ports, self._kind = ports, kind
        self.names = {n: i for i, p in enumerate(ports) for n in (p.name, *p.names)}
        self._first = [p.name for p in ports]
        # What the quick way below takes: one name each, so that a dict of that size has them all.
        self._count = len(ports) if len(set(self._first)) == len(ports) else -1
        self._only = ports[0].name if len(ports) == 1 else None

    def inputs(self, given: Any, named: Mapping[str, Any]) -> list[Any]:
        """One value, a list in order, or a mapping by name; or `named`: the values in order.
        InputError for a missing or unknown name, or a wrong number."""
        if given is None:
            given, named = named, {}
        if not named and type(given) is dict and len(given) == self._count:
            try:
                only = self._only
                return [given[n] for n in self._first] if only is None else [given[only]]
            except KeyError:
                pass  # by other names, or unknown ones: below
        if not named and type(given) is ndarray and self._count == 1:
            return [given]
        if isinstance(given, Mapping):
            named = {**given, **named} if named else given
        else:
            listed = list(given) if isinstance(given, list | tuple) else [given]
            if named or len(listed) != len(self._ports):
                raise InputError(
                    f"the number of {self._kind}s is wrong",
                    got=len(listed) + len(named),
                    expected=f"{len(self._ports)}: {', '.join(self._first)}",
                )
            return listed
        values = self._by_name(named)
        for value, port in zip(values, self._ports, strict=True):
            # None is a value of an optional input: that it holds none.
            if value is None and not isinstance(port.type, OptionalType):
                raise InputError(
                    f"input {port.name!r} is missing",
                    got=", ".join(n for n in named if named[n] is not None) or "no inputs",
                    expected=str(port.type),
                    fix=f"pass an array by that name (irc run --input {port.name}=FILE.npy)",
                )
        return values

    def order_inputs(self, arrays: Any) -> list[Any]:
        """One array, a list in order or a mapping by name, with None for what is not given."""
        if isinstance(arrays, Mapping):
            return self._by_name(arrays)
        return list(arrays) if isinstance(arrays, list | tuple) else [arrays]

    def _by_name(self, named: Mapping[str, Any]) -> list[Any]:
        values: list[Any] = [None] * len(self._ports)
        for name, value in named.items():
            at = self.names.get(name)
            if at is None:
                listed = ", ".join(self._first) or f"no {self._kind}s"
                raise InputError(f"unknown {self._kind}", got=name, expected=listed)
            if values[at] is not None:
                what = f"{self._kind} {self._first[at]!r} is given twice"
                raise InputError(what, got=name, expected="one of its names")
            values[at] = value
        return values
