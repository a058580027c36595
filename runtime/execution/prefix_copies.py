"""Skip the copy of a region's input to the begin of its output where both are one piece of memory.

A variable that grows is a region's input; its next value, an output, begins with a copy of it
(plan/verify/appended_outputs.py). A request puts both at one address: then nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ...plan.plan import INPUT, OUTPUT
from ...plan.verify.size_table import Ints, to_ints
from ...plan.verify.values import RegionLayoutTables


class PrefixCopies:
    """The copies of a region's inputs to the begin of outputs that no other step writes to.

    appended: by output, the input that is copied; sizes: where in the steps' run-time sizes the
    numbers of elements are. port_buffers: the buffers of the region's inputs and outputs.
    """

    def __init__(
        self, tables: RegionLayoutTables, port_buffers: Mapping[str, Sequence[int]]
    ) -> None:
        rows = {number: row for row, number in enumerate(tables.kernels)}
        inputs, outputs = (list(port_buffers[kind]) for kind in (INPUT, OUTPUT))
        found = tables.appended_outputs
        copies = [rows[f.copy] for f in found]
        self.appended = {outputs.index(f.output): inputs.index(f.input) for f in found}
        self.sizes = to_ints(
            [
                int(tables.step_dims_start[row]) + f.size.index
                for row, f in zip(copies, found, strict=True)
            ]
        )
        self._buffers = to_ints([f.input for f in found])
        # The operands of each copy.
        self._read = to_ints([int(tables.operand_start[row]) for row in copies])
        self._written = self._read + 1

    def __len__(self) -> int:
        return len(self.sizes)

    def skip_in_place(self, dims: Ints, addresses: Ints, inner: Ints, elements: Ints) -> None:
        """Set the numbers of elements to copy: none where both arrays begin at one address.

        addresses, inner: per operand, its own, and bytes from its root's; elements: per buffer.
        """
        in_place = self.find_in_place(addresses, inner)
        dims[self.sizes] = np.where(in_place, 0, elements[self._buffers])

    def find_in_place(self, addresses: Ints, inner: Ints) -> npt.NDArray[np.bool_]:
        """Per copy, whether both arrays begin at one address."""
        begins = addresses - inner
        return begins[self._read] == begins[self._written]
