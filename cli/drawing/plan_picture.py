"""A compiled plan as a picture: a box per step, and edges from the step that writes a buffer to the
steps that read it. Constants are not boxes: a step's details list all its buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...ir.escape import escape_text
from ...plan.plan import ControlStep, HostStep, KernelStep, Plan, PlanPort, Region, Step
from ...plan.text import describe_buffer, describe_extent, describe_step
from .layout import lay_out
from .picture import Box, Picture

# The kind of work of families that do not multiply matrices.
KINDS: Final = {
    "elementwise": "elementwise",
    "reduce": "reduction",
    "softmax": "reduction",
    "norm": "reduction",
    "pool": "reduction",
    "attention": "product",
}


class _Plan:
    """The boxes and edges of a plan while its regions are walked in order."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.boxes: list[Box] = []
        self.edges: list[tuple[int, int, str]] = []
        # The box that wrote a slot.
        self._slots: dict[int, int] = {}

    def draw(self) -> None:
        """Inputs, the steps of all regions, outputs."""
        for port in self.plan.inputs:
            self._slots[port.slot] = self._add("Parameter", port.name, str(port.type), "interface")
        for number, region in enumerate(self.plan.regions):
            self._region(number, region)
        for port in self.plan.outputs:
            self._output(port)

    def _output(self, port: PlanPort) -> None:
        box = self._add("Result", port.name, "", "interface")
        if port.slot in self._slots:
            self.edges.append((self._slots[port.slot], box, escape_text(str(port.type))))

    def _add(
        self,
        title: str,
        name: str,
        type_: str,
        kind: str,
        details: Sequence[tuple[str, str]] = (),
        sources: tuple[str, ...] = (),
    ) -> int:
        rows = tuple((row, escape_text(text)) for row, text in details if text)
        title, name, type_ = (escape_text(text) for text in (title, name, type_))
        self.boxes.append(Box(len(self.boxes), title, name, type_, kind, rows, sources))
        return len(self.boxes) - 1

    def _region(self, number: int, region: Region) -> None:
        roots = [_resolve_alias(region, b) for b in range(len(region.buffers))]
        writers: dict[int, int] = {}
        for b, buffer in enumerate(region.buffers):
            if buffer.kind == "input" and roots[b] == b:
                slot = region.inputs[buffer.index]
                if slot in self._slots:
                    writers[b] = self._slots[slot]
        for n, step in enumerate(region.steps):
            box = self._step(number, region, n, step)
            reads, writes = _accesses(step)
            for b in reads:
                if roots[b] in writers:
                    buffer = region.buffers[b]
                    shape = ", ".join(map(str, buffer.shape))
                    self._connect(writers[roots[b]], box, f"{buffer.dtype}[{shape}]")
            writers.update((roots[b], box) for b in writes)
        for b, buffer in enumerate(region.buffers):
            if buffer.kind == "output" and roots[b] == b and b in writers:
                self._slots[region.outputs[buffer.index]] = writers[b]
        if (end := region.terminal) is not None:
            details = [("region", str(number)), ("in Python", end.reason)]
            box = self._add(end.op.kind, end.name, "in Python", "control", details)
            for slot in end.inputs:
                if slot is not None and slot in self._slots:
                    self._connect(self._slots[slot], box, str(self.plan.slots[slot]))
            self._slots.update((slot, box) for slot in end.outputs)

    def _step(self, number: int, region: Region, n: int, step: Step) -> int:
        title, extent, kind = _headline(region, step)
        details = [("region", str(number)), ("step", f"{n} {describe_step(region, step)}")]
        details += [
            (f"b{b}", describe_buffer(self.plan, region.buffers[b]))
            for b in dict.fromkeys(_buffers_of(step))
        ]
        name = " + ".join(step.sources) or step.name
        return self._add(title, name, extent, kind, details, step.sources or (step.name,))

    def _connect(self, source: int, target: int, type_: str) -> None:
        edge = (source, target, escape_text(type_))
        if edge not in self.edges[-8:]:
            self.edges.append(edge)


def draw_plan(plan: Plan, stage: str) -> Picture:
    """The steps of a plan and the buffers between them."""
    drawn = _Plan(plan)
    drawn.draw()
    ends = [(a, b) for a, b, _ in drawn.edges]
    layout = lay_out([box.size for box in drawn.boxes], ends)
    return Picture(escape_text(stage), drawn.boxes, drawn.edges, [], layout)


def _headline(region: Region, step: Step) -> tuple[str, str, str]:
    """(title, sizes, kind of work) of a step."""
    if isinstance(step, HostStep):
        return step.op.kind, "in Python", "other"
    if isinstance(step, ControlStep):
        return step.kind, "", "control"
    spec = step.spec
    kind = "product" if spec.product_name else KINDS.get(spec.family, "other")
    return spec.family, describe_extent(region, step).strip(), kind


def _buffers_of(step: Step) -> Iterator[int]:
    reads, writes = _accesses(step)
    yield from (*reads, *writes)


def _accesses(step: Step) -> tuple[list[int], list[int]]:
    """(buffers read, buffers written)."""
    if isinstance(step, KernelStep):
        count = step.spec.output_count()
        return list(step.buffers[:-count]), list(step.buffers[-count:])
    if isinstance(step, HostStep):
        return [b for b in step.inputs if b is not None], list(step.outputs)
    reads = [b for b in (step.count, step.condition) if b is not None]
    return reads, [] if step.index is None else [step.index]


def _resolve_alias(region: Region, b: int) -> int:
    """The buffer at the end of a chain of aliases."""
    while (parent := region.buffers[b].alias_of) is not None:
        b = parent
    return b
