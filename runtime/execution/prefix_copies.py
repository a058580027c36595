"""Skip the copy of a region's input to the begin of its output where both are one piece of memory.

A variable that grows is a region's input; its next value, an output, begins with a copy of it
(plan/verify/appended_outputs.py). A request puts both at one address: then nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from ...ir.lazy_dataclass import dataclass
from ...plan.plan import INPUT, OUTPUT
from ...plan.verify.values import RegionLayoutTables
from ..machine.memory_planner import address_of

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class PrefixCopy:
    """A step that copies region input `input` to the begin of region output `output`. size: where
    in the steps' run-time sizes the number of elements is."""

    input: int
    output: int
    size: int

    def skip_in_place(self, dims: npt.NDArray[Any], source: Array, target: Array) -> None:
        """Set the number of elements to copy: none where both arrays begin at one address."""
        dims[self.size] = 0 if address_of(source) == address_of(target) else source.size


def find_prefix_copies(
    tables: RegionLayoutTables, port_buffers: Mapping[str, Sequence[int]]
) -> list[PrefixCopy]:
    """The copies of inputs to the begin of outputs that no other step writes to. port_buffers: the
    buffers of the region's inputs and outputs."""
    rows = {number: row for row, number in enumerate(tables.kernels)}
    return [
        PrefixCopy(
            list(port_buffers[INPUT]).index(found.input),
            list(port_buffers[OUTPUT]).index(found.output),
            int(tables.step_dims_start[rows[found.copy]]) + found.size.index,
        )
        for found in tables.appended_outputs
    ]
