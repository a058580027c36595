"""Plan.verify, the part that needs no sizes: numbers in range, kinds, types, order and lifetimes.

A plan may come from a file, so nothing in it is believed: whatever passes here and in
`region_sizes` (the part that recomputes sizes, once per new shape) cannot make a kernel touch
memory that is not its operands'. Every finding is a VerificationError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ...ir.dtype import DType
from ...ir.errors import VerificationError
from ...ir.types import TensorType
from ..packing.layouts import PackedConv, panels
from ..packing.panel_params import BYTES
from ..plan import (
    ARENA,
    CONSTANT,
    INPUT,
    MAX_DEPTH,
    OUTPUT,
    Buffer,
    Constant,
    ControlStep,
    HostStep,
    KernelStep,
    Plan,
    Region,
    Terminal,
)
from ..specs.base import Operand, Size, Spec
from ..specs.convolution import ConvSpec
from ..specs.elementwise import ElementwiseSpec
from ..specs.gather_scatter import GatherSpec
from ..specs.gemm import GemmSpec, PackedB
from ..specs.recurrent import RecurrentSpec
from ..specs.rows import NormSpec, ReduceSpec, SoftmaxSpec
from ..specs.squeeze_excite import SqueezeExciteSpec
from .buffers import (
    broken,
    buffer_roots,
    check_index,
    is_empty,
    is_int,
    verify_buffer,
)
from .control_flow import verify_control, verify_flow
from .spec_ranges import check_ranges
from .variables import define_variables, initialised_after

MAX_STEPS: Final = 1_000_000

Walk = tuple[Size, ...]


def _reduce(s: ReduceSpec) -> list[Walk]:
    return [*[(*s.kept, *s.reduced)] * len(s.inputs), s.kept]


def _gather(s: GatherSpec) -> list[Walk]:
    return [(s.outer, s.axis, s.inner), (s.count,), (s.outer, s.count, s.inner)]


def _pointwise(s: ElementwiseSpec | SoftmaxSpec | NormSpec) -> list[Walk]:
    return [s.axes] * len(s.operands())


# The iteration space of each operand, in the order of Spec.operands(). A family that is not here
# may say so itself, by a method `walks()`; one that does neither is refused.
_WALKS: Final[dict[type[Spec], Callable[[Any], list[Walk]]]] = {
    ElementwiseSpec: _pointwise,
    ReduceSpec: _reduce,
    SoftmaxSpec: _pointwise,
    NormSpec: _pointwise,
    GatherSpec: _gather,
}


def walks(spec: Spec) -> list[Walk]:
    """The sizes each operand's strides go with, operand by operand."""
    found = _WALKS.get(type(spec))
    own: Callable[[], list[Walk]] | None = getattr(spec, "walks", None)
    if found is None and own is None:
        raise VerificationError("no rule says what this kernel touches", got=type(spec).__name__)
    listed = list(own()) if found is None and own is not None else found(spec) if found else []
    operands = spec.operands()
    if len(listed) != len(operands):
        raise VerificationError(
            "a kernel's operands and iteration spaces differ in number", got=type(spec).__name__
        )
    for walk, operand in zip(listed, operands, strict=True):
        if len(walk) != len(operand.strides):
            raise VerificationError(
                "an operand has not one stride per axis",
                where=type(spec).__name__,
                got=len(operand.strides),
                expected=len(walk),
            )
    return listed


def verify_plan(plan: Plan) -> None:
    """VerificationError where the plan contradicts itself. RegionLayoutTables checks sizes."""
    for constant in plan.constants:
        _verify_constant(constant)
    _verify_body(plan, plan.constants, "", 0)


def _verify_body(plan: Plan, constants: Sequence[Constant], inside: str, depth: int) -> None:
    """A plan, or a plan in it (`inside` names it), on the outermost plan's constants."""
    if depth > MAX_DEPTH:
        raise broken("a plan's bodies lie too deep", inside, depth)
    defined: set[int] = set()
    for port in plan.inputs:
        _slot(plan, port.slot, f"input {port.name!r}")
        if port.slot in defined:
            raise broken("two inputs share a slot", f"input {port.name!r}", port.slot)
        defined.add(port.slot)
    for slot, constant in plan.constant_slots:
        _slot(plan, slot, "constant slots")
        check_index(constant, len(constants), "constant slots", "constant")
        made, t = constants[constant], plan.slots[slot]
        if made.layout is not None:
            raise broken("a packed constant is a result", "constant slots", constant)
        if not isinstance(t, TensorType) or t.dtype is not made.dtype:
            raise broken("a constant and its slot differ in type", "constant slots", str(t))
        defined.add(slot)
    due = initialised_after(plan)
    define_variables(plan, due[-1], defined, defined)
    first = set(defined)  # with what only regions for initial values write
    for number, region in enumerate(plan.regions):
        where = f"{inside}region {number}"
        ready = first if region.initialises else defined
        _need(region.inputs, ready, where)
        verify_region(region, constants, where)
        for slot in region.outputs:
            _slot(plan, slot, where)
        _agree(plan, region, where)
        made = list(region.outputs)
        ready.update(made)
        if region.terminal is not None:
            needed = [s for s in region.terminal.inputs if s is not None]
            _need(needed, ready, f"{where}, {region.terminal.name or 'terminal'}")
            for slot in region.terminal.outputs:
                _slot(plan, slot, where)
            made += region.terminal.outputs
            ready.update(region.terminal.outputs)
            _verify_terminal(region.terminal, constants, where, depth)
        # `first` holds all of `defined`.
        first.update(made)
        define_variables(plan, due[number], first, defined)
        first.update(plan.variables[n].slot for n in due[number])
    _need([p.slot for p in plan.outputs], defined, "outputs")
    _need([v.after for v in plan.variables], defined, "variables")


def _verify_terminal(end: Terminal, constants: Sequence[Constant], where: str, depth: int) -> None:
    """Plans of bodies have the interfaces that the operation feeds and reads."""
    graphs = end.op.bodies()
    if not end.bodies:
        return
    if len(end.bodies) != len(graphs):
        raise broken("a terminal has not one plan per body", where, len(end.bodies))
    for n, (body, graph) in enumerate(zip(end.bodies, graphs, strict=True)):
        here = f"{where}, {end.name or end.op.kind} body {n}, "
        if body.constants:
            raise broken("a body has constants of its own", here, len(body.constants))
        if body.variables:
            raise broken("a body has variables", here, len(body.variables))
        got = len(body.inputs), len(body.outputs)
        if got != (len(graph.parameters), len(graph.results)):
            raise broken("a body's plan has other ports than the body", here, got)
        _verify_body(body, constants, here, depth + 1)


def _agree(plan: Plan, region: Region, where: str) -> None:
    """Region inputs are tensors; buffers have the types and ranks of the slots they stand for."""
    for slot in region.inputs:
        if not isinstance(plan.slots[slot], TensorType):
            raise broken("a region reads what is not a tensor", where, str(plan.slots[slot]))
    for b in region.buffers:
        if b.kind in (INPUT, OUTPUT) and b.inside is None:
            slot = (region.inputs if b.kind == INPUT else region.outputs)[b.index]
            t = plan.slots[slot]
            if not isinstance(t, TensorType) or t.dtype is not b.dtype:
                raise broken("a buffer and its slot differ in type", where, f"{b.dtype}, {t}")
            if t.rank != len(b.shape):
                raise broken("a buffer and its slot differ in rank", where, f"{len(b.shape)}, {t}")


def _verify_constant(c: Constant) -> None:
    sizes = (*c.shape, *((c.layout.nr, c.layout.kr) if c.layout else ()))
    if any(not is_int(d) or d < 0 for d in sizes):
        raise broken("a constant's sizes are not numbers", "constants", sizes)
    if c.rounds and (c.dtype is not DType.bf16 or c.layout is None):
        raise broken("a constant rounds to a type that none is packed in", "constants", c.dtype)
    if c.layout is not None:
        if c.dtype.bits < 8 and not (isinstance(c.layout, PackedB) and 8 // c.dtype.bits == 2):
            raise broken("a constant of less than a byte is packed", "constants", c.dtype)
        if c.dtype.bits < 8 and c.layout.kr % 2:
            raise broken("4-bit elements need an even kr", "constants", c.layout.kr)
        panels(c.shape, c.layout, c.transposed)
        if c.layout.sums and c.dtype not in BYTES:
            raise broken("a packed constant has sums of what is not a byte", "constants", c.dtype)


def verify_region(region: Region, constants: Sequence[Constant], where: str = "region") -> None:
    """One region's buffers, steps, order and lifetimes."""
    if len(region.steps) > MAX_STEPS:
        raise broken("a region has too many steps", where, len(region.steps))
    for b, buffer in enumerate(region.buffers):
        verify_buffer(region, constants, b, buffer, where)
    roots = buffer_roots(region, where)
    ports = _verify_ports(region, where)
    verify_flow(region, where)
    written: set[int] = set()
    for n, step in enumerate(region.steps):
        here = f"{where}, step {n} ({step.name or 'unnamed'})"
        if isinstance(step, KernelStep):
            reads, writes = _verify_kernel(region, constants, step, here)
        elif isinstance(step, ControlStep):
            reads, writes = verify_control(region, step, here)
        else:
            reads, writes = _verify_host(region, constants, step, here)
        _verify_accesses(region, roots, written, n, (reads, writes), here)
    for (kind, n), b in ports.items():
        if kind == OUTPUT and b not in written and not is_empty(region.buffers[b]):
            raise broken(f"output {n} is never written", where, b)


def _verify_ports(region: Region, where: str) -> dict[tuple[str, int], int]:
    """The buffer of each input and output, by (kind, index). Every output, symbol and compared size
    refers to one that exists."""
    ports: dict[tuple[str, int], int] = {}
    for b, buffer in enumerate(region.buffers):
        if buffer.kind in (INPUT, OUTPUT) and buffer.inside is None:
            if ports.setdefault((buffer.kind, buffer.index), b) != b:
                raise broken(f"two buffers are {buffer.kind} {buffer.index}", where, b)
    for n in range(len(region.outputs)):
        if (OUTPUT, n) not in ports:
            raise broken(f"output {n} has no buffer", where, "no buffer")
    for source in region.symbols:
        check_index(source.input, len(region.inputs), where, "region input of a symbol")
        b = ports.get((INPUT, source.input))
        if b is None:
            raise broken("a symbol is read off an input without a buffer", where, source.symbol)
        check_index(source.axis, len(region.buffers[b].shape), where, "axis of a symbol")
    for check in region.checks:
        for d in (check.left, check.right):
            check_index(d, len(region.dims), where, "size to compare")
    return ports


def _verify_accesses(
    region: Region,
    roots: list[int],
    written: set[int],
    step: int,
    accesses: tuple[list[int], list[int]],
    where: str,
) -> None:
    """The buffers that a step reads hold values, those that it writes may be written, and all are
    alive. Adds the roots of the written ones to `written`."""
    reads, writes = accesses
    for b in reads:
        made = region.buffers[b].kind in (ARENA, OUTPUT)
        if made and roots[b] not in written and not is_empty(region.buffers[roots[b]]):
            raise broken(f"buffer {b} is read before anything is written", where, b)
    for b in writes:
        if region.buffers[b].kind not in (ARENA, OUTPUT):
            raise broken(f"{region.buffers[b].kind} buffer {b} is written", where, b)
        written.add(roots[b])
    for b in (*reads, *writes):
        buffer = region.buffers[b]
        if buffer.kind == ARENA and not buffer.first <= step <= buffer.last:
            got = f"alive for {buffer.first}..{buffer.last}"
            raise broken(f"buffer {b} is used outside its lifetime", where, got)


def _verify_kernel(
    region: Region, constants: Sequence[Constant], step: KernelStep, where: str
) -> tuple[list[int], list[int]]:
    """(buffers read, buffers written)."""
    spec = step.spec
    check_ranges(spec, where)
    operands = spec.operands()
    walks(spec)
    if len(step.buffers) != len(operands):
        raise broken("a step has not one buffer per operand", where, len(step.buffers))
    for d in step.dims:
        check_index(d, len(region.dims), where, "size")
    if spec.runtime_dims > len(step.dims):
        raise broken("a kernel reads a size the step does not give", where, spec.runtime_dims)
    for n, (b, operand) in enumerate(zip(step.buffers, operands, strict=True)):
        check_index(b, len(region.buffers), where, "buffer")
        buffer = region.buffers[b]
        if buffer.dtype is not operand.dtype:
            got = f"operand {n} is {operand.dtype}, buffer {b} {buffer.dtype}"
            raise broken("operand and buffer differ in element type", where, got)
        _verify_layout(constants, spec, n, buffer, where)
    count = spec.output_count()
    if not 0 < count <= len(operands):
        raise broken("a kernel writes nothing", where, count)
    return list(step.buffers[:-count]), list(step.buffers[-count:])


def _verify_layout(
    constants: Sequence[Constant], spec: Spec, n: int, buffer: Buffer, where: str
) -> None:
    """A packed constant has the layout and the sizes that operand `n` of the kernel reads."""
    layout = constants[buffer.index].layout if buffer.kind == CONSTANT else None
    wanted, product = None, ()
    if isinstance(spec, GemmSpec | SqueezeExciteSpec):
        wanted, *product = spec.packed_operands().get(n, (None,))
    elif isinstance(spec, ConvSpec | RecurrentSpec) and n == 1:
        wanted = spec.packed
    # Filters of one place are panels of a plain matrix.
    point = False
    if isinstance(wanted, PackedB) and not wanted.sums:
        point = layout == PackedConv(wanted.nr, kr=wanted.kr)
    if layout != wanted and not point:
        raise broken("a constant's layout is not what its reader wants", where, layout)
    if layout is not None:
        made = constants[buffer.index]
        found = panels(made.shape, layout, made.transposed)
        if point and made.shape[1:2] == tuple(product[:1]):
            # Filters are padded to whole cells of channels.
            found = (found[0], made.shape[1], found[2])
        if isinstance(spec, GemmSpec | SqueezeExciteSpec) and tuple(product) != found[1:]:
            raise broken("a packed constant has other sizes", where, product)
        if isinstance(spec, SqueezeExciteSpec) and found[0] != 1:
            raise broken("a product has several matrices", where, found[0])
        if isinstance(spec, ConvSpec | RecurrentSpec) and spec.matrices != found:
            raise broken("a packed constant has other sizes", where, spec.matrices)


def _verify_host(
    region: Region, constants: Sequence[Constant], step: HostStep, where: str
) -> tuple[list[int], list[int]]:
    reads = [b for b in step.inputs if b is not None]
    for b in (*reads, *step.outputs):
        check_index(b, len(region.buffers), where, "buffer")
        buffer = region.buffers[b]
        if buffer.kind == CONSTANT and constants[buffer.index].layout is not None:
            raise broken("an operation in Python reads a packed constant", where, b)
    return reads, list(step.outputs)


def may_alias_output(spec: Spec, reader: int) -> bool:
    """May the kernel write an element that operand `reader` names at the same place?

    Then it reads that element before it writes it, and no other worker reads it.
    """
    if isinstance(spec, GemmSpec):
        return 0 <= reader - 2 - len(spec.zeros) < len(spec.extras)
    if isinstance(spec, SqueezeExciteSpec):
        return spec.may_alias_output(reader)
    return isinstance(spec, ElementwiseSpec | SoftmaxSpec | NormSpec)


def has_same_access(a: Operand, b: Operand) -> bool:
    return (a.dtype.bits, a.strides, a.offset) == (b.dtype.bits, b.strides, b.offset)


def _slot(plan: Plan, slot: int, where: str) -> None:
    check_index(slot, len(plan.slots), where, "slot")


def _need(slots: Sequence[int], defined: set[int], where: str) -> None:
    missing = [s for s in slots if s not in defined]
    if missing:
        raise broken("a slot is read before it is written", where, missing[:5])
