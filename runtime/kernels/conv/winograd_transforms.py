"""Winograd's transform of the data that one tile reads."""

from __future__ import annotations

from ...llvmir.builder import Function
from ...llvmir.values import ELEMENT, I1, I8, I16, I64, Value, bytes_of, integer, vec
from ..emit.strided_loops import masked_load, vector_and_tail
from ..emit.tail_mask import TailMask
from .addressing import ConvContext
from .winograd_guard import TileGuard
from .winograd_matrices import DATA, both_ways
from .winograd_tiles import WinogradSchedule


def data_function(g: ConvContext, plan: WinogradSchedule, edge: bool) -> Function:
    """data(frame, data, to, y, x): the square at `data`, whose pixel in the image is (y, x),
    transformed for all channels. At an edge what lies outside the image is zero, or the zero point
    of bytes, from which these are differences here. Returns whether the tile has to be computed
    directly (winograd_guard.py), of f32 only."""
    spec = g.spec
    f = g.module.function(
        g.module.unique("data"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "data"), ("ptr noalias", "to")]
        + [(I64, "y"), (I64, "x")],
        I1,
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, side, lanes, one = f.params, plan.side, plan.lanes * plan.kr, DATA[plan.m]
    stored, kind = ELEMENT[spec.data.dtype.value], vec(plan.element, plan.lanes * plan.kr)
    steps = [g.size(f, p["frame"], s) for s in spec.data.strides[3:]]
    sizes = [g.size(f, p["frame"], s) for s in spec.in_sizes[1:]]
    inside = [f.icmp("ult", f.add(p["y"], i), sizes[0]) for i in range(side)]
    zero = _zero(g, f, lanes)

    def load(address: Value, tail: TailMask | None) -> Value:
        value = masked_load(f, vec(stored, lanes), address, tail)
        if plan.kr == 1:
            return value
        value = f.cast(value, I16, signed_=spec.data.dtype.is_signed)
        return value if zero is None else f.sub(value, zero)

    def column(c: Value, j: Value | int, tail: TailMask | None) -> list[Value]:
        found: list[Value] = []
        for i in range(side):
            at = f.add(f.add(f.mul(steps[0], i), f.mul(steps[1], j)), c)
            address = f.at(p["data"], at, stored)
            if not edge:
                found.append(load(address, tail))
                continue
            # What is read in place of what lies outside does not count.
            here = f.and_(inside[i], f.icmp("ult", f.add(p["x"], j), sizes[1]))
            value = load(f.select(here, address, p["to"]), tail)
            found.append(f.select(here, value, f.as_value(0, kind)))
        return found

    def store(c: Value, i: Value | int, row: list[Value]) -> None:
        for j, value in enumerate(row):
            at = f.add(c, f.mul(f.add(f.mul(i, side), j), plan.block * plan.pitch))
            f.store(value, f.at(p["to"], at, plan.element), 4)

    held = f.stack(plan.points * bytes_of(kind))
    guard = TileGuard(g, f, plan) if plan.kr == 1 else None
    for c, tail in vector_and_tail(f, spec.channels, lanes):
        if guard is not None:
            columns = [column(c, j, tail) for j in range(side)]
            square = [[col[i] for col in columns] for i in range(side)]
            guard.include(square)
            for i, row in enumerate(both_ways(f, one, square)):
                store(c, i, row)
            continue
        # Loops compile in a third of the time. For bytes they are as fast, for floats 1 % slower.
        with f.range(0, side, unroll=1) as j:
            for i, value in enumerate(one(f, column(c, j, tail))):
                f.store(value, f.at(held, f.mul(f.add(j, i * side), lanes), kind))
        with f.range(0, side, unroll=1) as i:
            first = f.at(held, f.mul(i, side * lanes), kind)
            row = [f.load(kind, f.at(first, j * lanes, kind)) for j in range(side)]
            store(c, i, one(f, row))
    if guard is None:
        f.ret(0)
        return f
    left = [integer(plan.m), integer(plan.m)]
    if edge:
        pads = [g.size(f, p["frame"], s) for s in spec.window.pads[1:]]
        out = [g.size(f, p["frame"], s) for s in spec.out_sizes[1:]]
        first = [f.add(at, pad) for at, pad in zip((p["y"], p["x"]), pads, strict=True)]
        left = [f.sub(n, at) for n, at in zip(out, first, strict=True)]
    f.ret(guard.is_extreme(*left))
    return f


def _zero(g: ConvContext, f: Function, lanes: int) -> Value | None:
    """The zero point of bytes in every lane of a vector of 16 bits, if there is one."""
    if not g.zeros:
        return None
    zero = f.load(I8, g.zero_base(f, f.params["frame"], left=True))
    return f.splat(f.cast(zero, I16, signed_=g.spec.data.dtype.is_signed), lanes)
