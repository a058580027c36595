"""Verify a plan, stored or forged, without its sizes: constants, slots, regions, variables, bodies.

A plan may come from a file, so nothing in it is believed: whatever passes here, in specs.py and in
values.py (which recomputes sizes, once per new shape) cannot make a kernel touch memory that is not
its operands'. Every finding is a VerificationError.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakValueDictionary

from ...ir.dtype import DType
from ...ir.types import TensorType
from ..packing.layouts import PackedB, panels
from ..packing.panel_params import BYTES
from ..plan import INPUT, MAX_DEPTH, OUTPUT, Plan, PlanConstant, Region, Terminal
from .buffers import check_index, is_int, plan_error
from .order import verify_region
from .variables import define_variables, initialised_after

# Plans that passed: one from a file is verified before its constants take memory, and asked for
# again when it is built.
_verified: WeakValueDictionary[int, Plan] = WeakValueDictionary()


def verify_plan(plan: Plan) -> None:
    """VerificationError where the plan contradicts itself. RegionLayoutTables checks sizes."""
    if _verified.get(id(plan)) is plan:
        return
    for constant in plan.constants:
        _verify_constant(constant)
    _verify_body(plan, plan.constants, "", 0)
    _verified[id(plan)] = plan


def _verify_body(plan: Plan, constants: Sequence[PlanConstant], inside: str, depth: int) -> None:
    """A plan, or a plan in it (`inside` names it), on the outermost plan's constants."""
    if depth > MAX_DEPTH:
        raise plan_error("a plan's bodies nest too deep", inside, depth)
    defined: set[int] = set()
    for port in plan.inputs:
        _check_slot(plan, port.slot, f"input {port.name!r}")
        if port.slot in defined:
            raise plan_error("two inputs share a slot", f"input {port.name!r}", port.slot)
        defined.add(port.slot)
    for slot, constant in plan.constant_slots:
        _check_slot(plan, slot, "constant slots")
        check_index(constant, len(constants), "constant slots", "constant")
        made, t = constants[constant], plan.slots[slot]
        if made.layout is not None:
            raise plan_error("a packed constant is a result", "constant slots", constant)
        if not isinstance(t, TensorType) or t.dtype is not made.dtype:
            raise plan_error("a constant and its slot differ in type", "constant slots", str(t))
        defined.add(slot)
    due = initialised_after(plan)
    define_variables(plan, due[-1], defined, defined)
    first = set(defined)  # with what only regions for initial values write
    for number, region in enumerate(plan.regions):
        where = f"{inside}region {number}"
        ready = first if region.initialises else defined
        _require_defined(region.inputs, ready, where)
        verify_region(region, constants, where)
        for slot in region.outputs:
            _check_slot(plan, slot, where)
        _check_region_slots(plan, region, where)
        made = list(region.outputs)
        ready.update(made)
        if region.terminal is not None:
            needed = [s for s in region.terminal.inputs if s is not None]
            _require_defined(needed, ready, f"{where}, {region.terminal.name or 'terminal'}")
            for slot in region.terminal.outputs:
                _check_slot(plan, slot, where)
            made += region.terminal.outputs
            ready.update(region.terminal.outputs)
            _verify_terminal(region.terminal, constants, where, depth)
        # `first` holds all of `defined`.
        first.update(made)
        define_variables(plan, due[number], first, defined)
        first.update(plan.variables[n].slot for n in due[number])
    _require_defined([p.slot for p in plan.outputs], defined, "outputs")
    _require_defined([v.after for v in plan.variables], defined, "variables")


def _verify_terminal(
    end: Terminal, constants: Sequence[PlanConstant], where: str, depth: int
) -> None:
    """Plans of bodies have the interfaces that the operation feeds and reads."""
    graphs = end.op.bodies()
    if not end.bodies:
        return
    if len(end.bodies) != len(graphs):
        raise plan_error("a terminal has not one plan per body", where, len(end.bodies))
    for n, (body, graph) in enumerate(zip(end.bodies, graphs, strict=True)):
        here = f"{where}, {end.name or end.op.kind} body {n}, "
        if body.constants:
            raise plan_error("a body has constants of its own", here, len(body.constants))
        if body.variables:
            raise plan_error("a body has variables", here, len(body.variables))
        got = len(body.inputs), len(body.outputs)
        if got != (len(graph.parameters), len(graph.results)):
            raise plan_error("a body's plan has other ports than the body", here, got)
        _verify_body(body, constants, here, depth + 1)


def _check_region_slots(plan: Plan, region: Region, where: str) -> None:
    """Region inputs are tensors; buffers have the types and ranks of their slots."""
    for slot in region.inputs:
        if not isinstance(plan.slots[slot], TensorType):
            raise plan_error("a region reads what is not a tensor", where, str(plan.slots[slot]))
    for b in region.buffers:
        if b.kind in (INPUT, OUTPUT) and b.alias_of is None:
            slot = (region.inputs if b.kind == INPUT else region.outputs)[b.index]
            t = plan.slots[slot]
            if not isinstance(t, TensorType) or t.dtype is not b.dtype:
                raise plan_error("a buffer and its slot differ in type", where, f"{b.dtype}, {t}")
            if t.rank != len(b.shape):
                raise plan_error(
                    "a buffer and its slot differ in rank", where, f"{len(b.shape)}, {t}"
                )


def _verify_constant(c: PlanConstant) -> None:
    sizes = (*c.shape, *((c.layout.nr, c.layout.kr) if c.layout else ()))
    if any(not is_int(d) or d < 0 for d in sizes):
        raise plan_error("a constant's sizes are not numbers", "constants", sizes)
    half = c.dtype is DType.bf16 or (c.dtype is DType.f16 and isinstance(c.layout, PackedB))
    if c.rounds and (not half or c.layout is None):
        raise plan_error("a constant rounds to a type that none is packed in", "constants", c.dtype)
    if c.layout is not None:
        if c.dtype.bits < 8 and not (isinstance(c.layout, PackedB) and 8 // c.dtype.bits == 2):
            raise plan_error("a constant of less than a byte is packed", "constants", c.dtype)
        if c.dtype.bits < 8 and c.layout.kr % 2:
            raise plan_error("4-bit elements need an even kr", "constants", c.layout.kr)
        panels(c.shape, c.layout, c.transposed)
        if c.layout.column_sums and c.dtype not in BYTES:
            raise plan_error(
                "a packed constant has sums of what is not a byte", "constants", c.dtype
            )


def _check_slot(plan: Plan, slot: int, where: str) -> None:
    check_index(slot, len(plan.slots), where, "slot")


def _require_defined(slots: Sequence[int], defined: set[int], where: str) -> None:
    missing = [s for s in slots if s not in defined]
    if missing:
        raise plan_error("a slot is read before it is written", where, missing[:5])
