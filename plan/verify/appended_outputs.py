"""Outputs of a region that begin with a copy of an input, behind which one step writes the rest.

So a variable that grows is written: a Concat of its value and new rows along the first axis. The
coverage of written elements and the runtime, which does without the copy where both are one piece
of memory, need to know it; it is shown once, from the plan's size expressions.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from ...ir.dims import Dim, bounds, eq, product
from ...ir.lazy_dataclass import dataclass
from ..plan import INPUT, OUTPUT, ControlStep, HostStep, KernelStep, Region, Step
from ..specs.base import RuntimeDim, Size
from ..specs.elementwise import ElementwiseSpec


@dataclass(frozen=True)
class AppendedOutput:
    """Step `copy` copies the whole buffer `input` to the begin of buffer `output`; its run-time
    size `size` is the number of elements. Step `rest`, at operand `operand`, alone writes behind
    that. `is_read_later`: no step reads the output before both are done."""

    input: int
    output: int
    copy: int
    size: RuntimeDim
    rest: int
    operand: int
    is_read_later: bool


def find_appended_outputs(region: Region, root: Sequence[int]) -> list[AppendedOutput]:
    """The appended outputs of a region without control flow. root: per buffer, the buffer at the
    end of its chain of aliases."""
    if any(isinstance(step, ControlStep) for step in region.steps):
        return []
    ports = {
        kind: {b for b, x in enumerate(region.buffers) if x.kind == kind and x.alias_of is None}
        for kind in (INPUT, OUTPUT)
    }
    writers: dict[int, list[tuple[int, int]]] = {b: [] for b in ports[OUTPUT]}
    readers: dict[int, list[int]] = {b: [] for b in ports[OUTPUT]}
    for number, step in enumerate(region.steps):
        buffers = _touched_buffers(step)
        first = len(buffers) - _count_written(step)
        for operand, b in enumerate(buffers):
            if root[b] in writers and operand >= first:
                writers[root[b]].append((number, operand))
            elif root[b] in readers:
                readers[root[b]].append(number)
    found: list[AppendedOutput] = []
    for output, listed in writers.items():
        if len(listed) != 2:
            continue
        for (copy, _), (rest, operand) in (listed, listed[::-1]):
            size = _copied_size(region, region.steps[copy], output, ports[INPUT])
            if size is None:
                continue
            source = _touched_buffers(region.steps[copy])[0]
            prefix = product(region.buffers[source].shape)
            if _writes_behind(region, region.steps[rest], operand, output, prefix):
                later = all(n > max(copy, rest) for n in readers[output])
                made = AppendedOutput(source, output, copy, size, rest, operand, later)
                found.append(made)
                break
    return found


def _touched_buffers(step: Step) -> tuple[int, ...]:
    """What a step reads, and then what it writes."""
    if isinstance(step, HostStep):
        return tuple(b for b in (*step.inputs, *step.outputs) if b is not None)
    return step.buffers


def _count_written(step: Step) -> int:
    if isinstance(step, HostStep):
        return len(step.outputs)
    return step.spec.output_count() if isinstance(step, KernelStep) else 0


def _copied_size(
    region: Region, step: Step, output: int, inputs: Container[int]
) -> RuntimeDim | None:
    """The number of elements of a step that copies a whole input to the begin of a buffer; None for
    any other step."""
    if not isinstance(step, KernelStep) or not isinstance(step.spec, ElementwiseSpec):
        return None
    spec = step.spec
    if len(step.buffers) != 2 or step.buffers[0] not in inputs or step.buffers[1] != output:
        return None
    if [i.op for i in spec.program.instrs] != ["input"] or len(spec.axes) != 1:
        return None
    walks = [(o.strides, o.offset, o.dtype) for o in (*spec.inputs, *spec.outs)]
    if walks[0] != walks[1] or walks[0][:2] != ((1,), 0):
        return None
    size, source = spec.axes[0], region.buffers[step.buffers[0]]
    is_whole = eq(_read_dim(region, step, size), product(source.shape)) is True
    return size if isinstance(size, RuntimeDim) and is_whole else None


def _read_dim(region: Region, step: KernelStep, size: Size) -> Dim:
    return region.dims[step.dims[size.index]] if isinstance(size, RuntimeDim) else size


def _writes_behind(region: Region, step: Step, at: int, output: int, prefix: Dim) -> bool:
    """Whether a step writes by an operand only behind the first `prefix` elements."""
    if not isinstance(step, KernelStep) or step.buffers[at] != output:
        return False
    operand = step.spec.operands()[at]
    lows = [bounds(_read_dim(region, step, stride))[0] for stride in operand.strides]
    is_forward = all(low is not None and low >= 0 for low in lows)
    return is_forward and eq(_read_dim(region, step, operand.offset), prefix) is True
