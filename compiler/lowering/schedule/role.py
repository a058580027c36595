"""The role of a node: native code, a host step, or the end of a region."""

from __future__ import annotations

from collections.abc import Mapping

from ....ir.dims import Dim
from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass

STRUCTURAL = frozenset({"Parameter", "Constant", "Result", "TypedParameter"})


@dataclass(frozen=True)
class Trips:
    """How often a loop runs: at most `most` times, by the number in `count` and the conditions
    `first` (values outside) and `again` (a value of the body) where they are not None."""

    most: Dim
    count: Value | None = None
    first: Value | None = None
    again: Value | None = None

    @property
    def certain(self) -> bool:
        """Whether it runs exactly `most` times."""
        return self.count is None and self.first is None and self.again is None


@dataclass(frozen=True)
class NativeControl:
    """Control flow that the driver runs: the trips of a loop (None for an If), and the roles of
    each body's nodes (None for a branch that always fails)."""

    trips: Trips | None
    bodies: tuple[Mapping[int, Role] | None, ...]


@dataclass(frozen=True)
class Role:
    """A node that is not `native` has a `reason`. A `terminal` ends its region: what comes out has
    a shape or type that only data decides. ports: what is read at run time (None: all inputs)."""

    native: bool
    reason: str = ""
    terminal: bool = False
    ports: tuple[int, ...] | None = None
    control: NativeControl | None = None


def read_values(graph: Graph, node: int, role: Role | None) -> list[Value]:
    """The values that a node reads at run time."""
    inputs = graph.inputs(node)
    ports = range(len(inputs)) if role is None or role.ports is None else role.ports
    return [v for p in ports if p < len(inputs) and (v := inputs[p]) is not None]
