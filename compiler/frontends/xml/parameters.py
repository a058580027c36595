"""Parameters: element type, shape, and the names of sizes that are known at run time only.

IR has no names for such sizes: every `?` and interval gets a symbol of its own, called after the
input and the axis (`x.0`). Files written by irc keep the true names in the layer's rt_info.
"""

from __future__ import annotations

import json
from typing import Any, cast

from ....ir.dims import Dim, Expr, bounds, parse, symbol
from ....ir.errors import Error
from ....ir.ops import Parameter
from . import text as words
from .attributes import EXTRA
from .schema_records import XmlLayer
from .text import Interval
from .weights import element_type

# The pairs of the rt_info entry `irc` of a Parameter: sizes as text, and bounds of their symbols.
SIZES = "sizes"
BOUNDS = "bounds"


class XmlSymbols:
    """The symbolic sizes of one file; names stay unique over all its bodies."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._bounds: dict[str, Interval] = {}

    def fresh(self, base: str, axis: int, interval: Interval) -> Dim:
        """A size of its own for one axis of an input; a plain number where it is fixed."""
        low, high = interval
        if low == high:
            return low
        clean = "".join(c for c in base if c.isprintable() and c != "`")[:200] or "input"
        name, n = f"{clean}.{axis}", 1
        while name in self._taken:
            n += 1
            name = f"{clean}.{axis}_{n}"
        self._taken.add(name)
        return symbol(name, low, high)

    def read_named_dims(
        self, layer: XmlLayer, shape: tuple[Interval, ...]
    ) -> tuple[Dim, ...] | None:
        """The sizes that irc wrote with their names, checked against the declared shape."""
        extra = layer.rt_info.get(EXTRA, {})
        if SIZES not in extra:
            return None
        try:
            limits = _limits(json.loads(extra.get(BOUNDS, "{}")))
            sizes = _texts(json.loads(extra[SIZES]))
            dims = tuple(parse(size, limits) for size in sizes)
        except (ValueError, TypeError, KeyError, RecursionError, Error) as error:
            raise layer.error("the names of the sizes are broken", got=str(error)[:200]) from error
        if len(dims) != len(shape) or not all(map(_is_within, dims, shape)):
            raise layer.error(
                "the names of the sizes contradict the shape",
                got=extra[SIZES][:200],
                expected=layer.data.get("shape"),
            )
        for dim in dims:
            self._record_bounds(layer, dim)
        return dims

    def _record_bounds(self, layer: XmlLayer, dim: Dim) -> None:
        for found in dim.symbols() if isinstance(dim, Expr) else ():
            limits = self._bounds.setdefault(found.name, (found.lo, found.hi))
            if limits != (found.lo, found.hi):
                raise layer.error(
                    f"size {found.name} has two different ranges",
                    got=_range(found.lo, found.hi),
                    expected=f"{_range(*limits)}, as before",
                )
            self._taken.add(found.name)


def _range(low: int, high: int | None) -> str:
    return f"{low}..{'' if high is None else high}"


def _limits(data: Any) -> dict[str, tuple[int, int | None]]:
    if not isinstance(data, dict):
        raise TypeError("bounds are not a mapping")
    out: dict[str, tuple[int, int | None]] = {}
    for name, (low, high) in cast("dict[str, tuple[Any, Any]]", data).items():
        if type(low) is not int or type(high) not in (int, type(None)) or low < 0:
            raise TypeError("bounds are not numbers")
        out[name] = low, high
    return out


def _texts(data: Any) -> list[str]:
    if not isinstance(data, list) or not all(isinstance(s, str) for s in cast("list[Any]", data)):
        raise TypeError("sizes are not a list of strings")
    return cast("list[str]", data)


def _is_within(dim: Dim, interval: Interval) -> bool:
    low, high = interval
    if low == high or isinstance(dim, int):
        return dim == low == high
    least, most = bounds(dim)
    del most  # a size may be narrower than what the file says to others
    return high is None or least is None or least <= high


def read_parameter(layer: XmlLayer, symbols: XmlSymbols) -> Parameter:
    """The Parameter of a layer. Raises ModelFormatError for a missing or bad attribute."""
    for name in ("element_type", "shape"):
        if name not in layer.data:
            raise layer.lacks(f"Parameter has no attribute {name!r}", name)
    dtype = layer.read("element_type", layer.data["element_type"], element_type)
    declared = layer.read("shape", layer.data["shape"], words.partial_shape)
    if declared is None:
        return Parameter(dtype, None)
    names = sorted(layer.outputs[0].names) if layer.outputs else []
    base = names[0] if names else layer.name
    shape = symbols.read_named_dims(layer, declared)
    if shape is None:
        shape = tuple(symbols.fresh(base, axis, dim) for axis, dim in enumerate(declared))
    return Parameter(dtype, shape)
