"""Which calls take so little time that they run on the event loop, without a change of threads.

Only a model whose time depends on the shapes of its inputs alone has such calls: one region of
kernels, without control flow and host steps. A request cannot make such a call longer than calls of
the same shapes that worker threads measured.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from ..plan.plan import Plan
from .batch_equality import Array

MAX_SHORT_SECONDS = 200e-6  # about what the change to another thread and back takes
NEEDED_CALLS = 8  # short ones in a row, before the first on the event loop
MAX_SHAPES = 256

Shapes = tuple[tuple[int, ...], ...]


def has_fixed_time(plan: Plan) -> bool:
    """Whether the time of a call depends on the shapes of its inputs alone."""
    return (
        len(plan.regions) == 1
        and not plan.variables
        and not plan.control_steps()
        and not plan.host_steps()
    )


class ShortCalls:
    """Counts the short calls in a row, for each combination of input shapes."""

    def __init__(self) -> None:
        self._in_a_row: OrderedDict[Shapes, int] = OrderedDict()

    def are_short(self, inputs: Sequence[Array]) -> bool:
        """Whether a call with inputs of these shapes may run on the event loop."""
        return self._in_a_row.get(_shapes_of(inputs), 0) >= NEEDED_CALLS

    def record(self, inputs: Sequence[Array], cpu_seconds: float) -> None:
        """Note a call. cpu_seconds: the CPU time of its thread. On a busy machine the elapsed time
        holds waits for the interpreter's lock and for other processes, so that no calls would be
        short."""
        shapes = _shapes_of(inputs)
        short = cpu_seconds <= MAX_SHORT_SECONDS
        self._in_a_row[shapes] = self._in_a_row.get(shapes, 0) + 1 if short else 0
        if len(self._in_a_row) > MAX_SHAPES:
            self._in_a_row.popitem(last=False)


def _shapes_of(inputs: Sequence[Array]) -> Shapes:
    return tuple(array.shape for array in inputs)
