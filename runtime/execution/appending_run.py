"""Run a region that appends to variables once more, for the next sizes.

With each token a language model appends a row to every variable and all sizes change. What a run
has appended to is still where it was, so the next one keeps its tables and their addresses: sizes,
and the addresses of other inputs and outputs, are all that it writes into them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from weakref import ref

import numpy as np
import numpy.typing as npt

from ...plan.plan import INPUT, OUTPUT
from ...plan.verify.size_table import to_ints
from .array_interop import is_plain
from .output_buffers import MemoryExtents
from .region_instance import RegionInstance
from .region_program import ShapeInstance

Array: TypeAlias = npt.NDArray[Any]


class AppendingRun:
    """The last run of a region, which may be continued by one for longer variables.

    memory: per output that the run appended to an input, in place, the bytes that both begin in;
    results: all outputs of that run. The variables' owner alone keeps both: where they are gone,
    no run continues this one. Only runs that `can_append_again` have such an object.
    """

    def __init__(
        self, instance: RegionInstance, memory: Mapping[int, Array], results: Sequence[Any]
    ) -> None:
        code = instance.code
        self.instance = instance
        # Per variable: the region's input and output.
        self._ports = [(n, output) for output, n in code.prefix_copies.appended.items()]
        rooms = [memory[output] for _, output in self._ports]
        self._rooms, self._extents = [ref(room) for room in rooms], MemoryExtents(rooms)
        self._capacity = to_ints([len(room) for room in rooms])
        self._values = [ref(results[output]) for _, output in self._ports]
        self._taken: Sequence[Any] = ()  # the memory, from `prepare` to the end of the run
        # The buffers of these outputs, and the other inputs and outputs that steps read and write.
        inputs, outputs = code.port_buffers[INPUT], code.port_buffers[OUTPUT]
        self._buffers = [outputs[output] for _, output in self._ports]
        variables, grown = ({ports[at] for ports in self._ports} for at in (0, 1))
        self._inputs = [(n, b) for n, b in enumerate(inputs) if b >= 0 and n not in variables]
        self._outputs = [(n, b) for n, b in enumerate(outputs) if n not in grown]

    def is_continued_by(self, arrays: Sequence[Array]) -> bool:
        """Are the variables among these inputs what this run has written?"""
        pairs = zip(self._ports, self._values, strict=True)
        return all(arrays[n] is value() for (n, _), value in pairs)

    def prepare(self, layout: ShapeInstance, arrays: Sequence[Array]) -> bool:
        """Take the sizes of a layout and these inputs. False where the region is to be bound anew:
        variables outgrow their memory, buffers move, or an input cannot be read as it is."""
        instance = self.instance
        if layout.inputs != [a.shape for a in arrays]:
            return False
        if (layout.sizes.nbytes[self._buffers] > self._capacity).any():
            return False
        self._taken = [room() for room in self._rooms]
        if any(room is None for room in self._taken) or not instance.resize(layout):
            return False
        for n, b in self._inputs:
            array, copy = arrays[n], instance.small_inputs[n]
            if copy is not None:
                copy[...] = array
            elif is_plain(array) and self._extents.is_apart(array):
                instance.point(b, array)
            else:
                return False
        instance.dims[instance.code.prefix_copies.sizes] = 0
        return True

    def run(self) -> list[Any]:
        """The outputs for what `prepare` took. ExecutionError."""
        instance = self.instance
        layout, only = instance.layout, instance.only
        assert only is not None
        written: list[Any] = [None] * len(layout.outputs)
        for n, b in self._outputs:
            if instance.small_outputs[n] is None:
                written[n] = made = np.empty(layout.outputs[n], instance.code.dtypes[b])
                instance.point(b, made)
        only.run()
        for n, _ in self._outputs:
            small = instance.small_outputs[n]
            if small is not None:
                written[n] = small.copy()
        dtypes, shapes = instance.code.dtypes, layout.outputs
        for (_, n), b, room in zip(self._ports, self._buffers, self._taken, strict=True):
            written[n] = np.ndarray(shapes[n], dtypes[b], room)
        self._taken = ()
        self._values = [ref(written[n]) for _, n in self._ports]
        return written


def can_append_again(
    instance: RegionInstance, rooms: Sequence[Array | None], memory: Mapping[int, Array]
) -> bool:
    """Has the last run of an instance appended to variables, all where they are, and written
    nothing else into given arrays? rooms: the arrays that were given; memory: per output that a
    variable takes, what its array is a part of."""
    copies = instance.code.prefix_copies
    given = {n for n, room in enumerate(rooms) if room is not None}
    if instance.only is None or not given or given != copies.appended.keys():
        return False
    return given <= memory.keys() and instance.appends_in_place()
