"""A plan as text: for goldens, diffs and people. One line per buffer and step, in order.

Sizes are expressions of the region's symbols. Examples: tests/compiler/lowering/goldens/.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dims import Dim
from .packing.layouts import Layout, PackedB
from .plan import Buffer, ControlStep, HostStep, KernelStep, Plan, Region, Step
from .specs.base import RuntimeDim, Size


def print_plan(plan: Plan) -> str:
    """The plan's text; equal plans have equal texts, on every machine of one Target."""
    lines = [f'plan "{plan.name}" {plan.precision}']
    lines += [f"input {p.name} {p.type} -> slot {p.slot}" for p in plan.inputs]
    lines += [f"output {p.name} {p.type} <- slot {p.slot}" for p in plan.outputs]
    for v in plan.variables:
        first = "zeros" if v.initial is None else f"slot {v.initial}"
        type_ = plan.slots[v.slot]
        lines.append(f"variable {v.name} {type_}: slot {v.slot} -> {v.after}, at first {first}")
    for number, region in enumerate(plan.regions):
        lines += _region(plan, number, region)
    return "\n".join(lines) + "\n"


def _region(plan: Plan, number: int, region: Region) -> list[str]:
    sources = ", ".join(f"{s.symbol} = input {s.input} axis {s.axis}" for s in region.symbols)
    slots = f"slots {_format_slots(region.inputs)} -> {_format_slots(region.outputs)}"
    lines = [f"region {number}: {slots}{'; ' if sources else ''}{sources}"]
    if region.initialises:
        lines.append(
            f"  only for the initial values of variables {_format_slots(region.initialises)}"
        )
    for c in region.checks:
        at = "" if c.step is None else f" at {c.step}"
        others = f"{region.dims[c.right]}{' or 1' if c.or_one else ''}"
        lines.append(f"  needs {region.dims[c.left]} = {others}{at}: {c.where}")
    lines += [f"  b{i} {describe_buffer(plan, b)}" for i, b in enumerate(region.buffers)]
    lines += [f"  {i} {describe_step(region, s)}" for i, s in enumerate(region.steps)]
    if region.terminal is not None:
        end = region.terminal
        reads, writes = _format_slots(end.inputs), _format_slots(end.outputs)
        lines.append(f"  then {end.op.kind} slots {reads} -> {writes}: {end.reason}")
        for n, body in enumerate(end.bodies):
            lines.append(f"    body {n}")
            lines += [f"      {line}" for line in _body(plan, body)]
    return lines


def _body(plan: Plan, body: Plan) -> list[str]:
    """A body, whose buffers name constants of the plan around it."""
    lines = [f"input {p.type} -> slot {p.slot}" for p in body.inputs]
    lines += [f"output {p.type} <- slot {p.slot}" for p in body.outputs]
    for number, region in enumerate(body.regions):
        lines += _region(plan, number, region)
    return lines


def _format_slots(items: Sequence[int | None]) -> str:
    return ", ".join("_" if i is None else str(i) for i in items) or "none"


def describe_buffer(plan: Plan, buffer: Buffer) -> str:
    """Kind, type, shape, and the layout, alias or lifetime of a buffer."""
    shape = ", ".join(map(str, buffer.shape))
    text = f"{buffer.kind}{'' if buffer.index < 0 else f' {buffer.index}'} {buffer.dtype}[{shape}]"
    if buffer.kind == "constant":
        layout = plan.constants[buffer.index].layout
        return text + (f" {_layout(layout)}" if layout is not None else "")
    if buffer.loop is not None:
        text += f" moving by {buffer.stride} with step {buffer.loop}"
    if buffer.alias_of is not None:
        text += f" inside b{buffer.alias_of} at {buffer.alias_offset}"
    return text + (f" steps {buffer.first}..{buffer.last}" if buffer.kind == "arena" else "")


def _layout(layout: Layout) -> str:
    """Cells are named where they are not single values, sums of columns where there are any."""
    if isinstance(layout, PackedB):
        cells = f", kr={layout.kr}" if layout.kr > 1 else ""
        return f"PackedB(nr={layout.nr}{cells}{', sums' if layout.column_sums else ''})"
    return str(layout)


def describe_step(region: Region, step: Step) -> str:
    """What a step computes, the buffers that it reads and writes, and the nodes it is made of."""
    if isinstance(step, HostStep):
        reads = ", ".join("_" if b is None else f"b{b}" for b in step.inputs)
        writes = ", ".join(f"b{b}" for b in step.outputs)
        return f"in Python: {step.op.kind} ({reads}) -> {writes}: {step.reason}"
    if isinstance(step, ControlStep):
        return _format_control(region, step)
    count = step.spec.output_count()
    reads = ", ".join(f"b{b}" for b in step.buffers[:-count])
    writes = ", ".join(f"b{b}" for b in step.buffers[-count:])
    extent = describe_extent(region, step)
    named = " + ".join(step.sources) or step.name
    return f"{step.spec.family}{extent} ({reads}) -> {writes}: {named}"


def _format_control(region: Region, step: ControlStep) -> str:
    parts = [f"{step.kind} {step.target}"]
    if step.trips is not None:
        parts.append(f"at most {region.dims[step.trips]} times")
    named = (("count", step.count), ("while", step.condition), ("index", step.index))
    parts += [f"{name} b{b}" for name, b in named if b is not None]
    return ", ".join(parts) + (f": {step.name}" if step.name else "")


def describe_extent(region: Region, step: KernelStep) -> str:
    """The sizes and options of a kernel step, sizes as expressions of the region's symbols."""

    def size(value: Size) -> str:
        dim: Dim = region.dims[step.dims[value.index]] if isinstance(value, RuntimeDim) else value
        return str(dim)

    return step.spec.describe(size)
