"""What changes its order on the way in and out: queries and masks into lanes, results out of them.

A panel holds a row per element (or key) and a lane per query, memory the other way round: squares
are turned around in registers. Queries that a panel lacks repeat its last one; they are not stored.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from ....ir.dtype import DType
from ....plan.specs.attention import AttentionSpec
from ...llvmir.builder import Function
from ...llvmir.values import ELEMENT, F32, I64, PTR, Value, integer, vec
from ..emit.casts import bfloat_of_flushed
from ..emit.dot_units import right_shift, xor_0x80
from ..emit.gather_lanes import gather
from ..emit.strided_loops import masked_load, masked_store, vector_and_tail
from ..emit.tail_mask import TailMask, tail_mask
from ..emit.transpose_registers import transpose_registers
from ..gemm.packing.pack_cells import Side, cells_along
from .products import Products


def pack_queries(p: Products, spec: AttentionSpec) -> Function:
    """pack_queries(frame, source, to, rows): `rows` queries as a panel of cells."""
    f = _function(p, "pack_queries", [(PTR, "source"), ("ptr noalias", "to"), (I64, "rows")])
    g, lanes, q = p.scores, p.lanes, spec.query
    stride, element = g.size(f, f.params["frame"], q.strides[-2]), ELEMENT[q.dtype.value]
    width = lanes * p.kr
    shift = query_shift(p)

    def square(addresses: list[Value], k: Value, left: int, c: Value) -> None:
        rows: list[Value] = []
        for address in addresses:
            xs: list[Value] = []
            for u in range(0, width, lanes):
                tail = None if left - u >= lanes else tail_mask(f, lanes, integer(max(0, left - u)))
                if left <= u:
                    xs.append(f.as_value(0, vec(element, lanes)))
                else:
                    at = f.at(address, f.add(k, u), element)
                    xs.append(masked_load(f, vec(element, lanes), at, tail))
            # Right factors of bytes are signed.
            xs = [xor_0x80(f, x, shift) for x in xs]
            rows.append(cells_along(g, f, Side(q.dtype, g.acc, 0), xs))
        cell = f.udiv(k, p.kr)
        for i, x in enumerate(transpose_registers(f, rows)):
            at = f.add(f.mul(f.add(cell, i), p.nr), c)
            f.store(x, f.at(f.params["to"], at, g.acc), g.align)

    full = spec.head_size // width * width
    with _vectors_of_rows(p, f) as c, f.if_(f.icmp("slt", c, f.params["rows"])):
        addresses = _row_places(p, f, c, stride, element)
        with f.range(0, full, width, outer=True) as k:
            square(addresses, k, width, c)
        if full < spec.head_size:
            square(addresses, integer(full), spec.head_size - full, c)
    return f


def query_shift(p: Products) -> int:
    """What is added to queries of bytes, and to their zero point."""
    return right_shift(p.scores.unit, p.spec.query.dtype) if p.spec.quantization else 0


def turn_mask(p: Products, spec: AttentionSpec) -> Function:
    """turn_mask(frame, source, to, rows, count): the mask of a panel's queries and `count` keys,
    a row per key, as f32 (booleans: 1 or 0)."""
    assert spec.mask is not None
    names = [(PTR, "source"), ("ptr noalias", "to"), (I64, "rows"), (I64, "count")]
    f = _function(p, "turn_mask", names)
    g, lanes, element = p.scores, p.lanes, ELEMENT[spec.mask.dtype.value]
    across, along = (g.size(f, f.params["frame"], s) for s in spec.mask.strides[-2:])
    kind, count, to = vec(element, lanes), f.params["count"], f.params["to"]

    def single(x: Value) -> Value:
        return f.cast(x, F32, signed_=False)

    def square(addresses: list[Value], key: Value, tail: TailMask | None, c: Value) -> None:
        rows = [single(masked_load(f, kind, f.at(x, key, element), tail)) for x in addresses]
        for i, x in enumerate(transpose_registers(f, rows)):
            at = f.add(f.mul(f.add(key, i), p.nr), c)
            f.store(x, f.at(to, at, g.acc), g.align)

    with _vectors_of_rows(p, f) as c, f.if_(f.icmp("slt", c, f.params["rows"])):
        if along.known == 1 and across.known != 1:
            addresses = _row_places(p, f, c, across, element)
            # Loads by masks cost nothing on AVX-512: all squares are one there.
            masks = f.target.isa == "avx512"
            full = integer(0) if masks else f.mul(f.udiv(count, lanes), lanes)
            with f.range(0, full, lanes, outer=True) as key:
                square(addresses, key, None, c)
            with f.range(full, count, lanes, outer=True) as key:
                square(addresses, key, tail_mask(f, lanes, f.sub(count, key)), c)
        else:
            here = tail_mask(f, lanes, f.sub(f.params["rows"], c))
            first = f.at(f.params["source"], f.mul(c, across), element)
            with f.range(0, count, outer=True) as key:
                address = f.at(first, f.mul(key, along), element)
                x = single(gather(f, element, lanes, address, across, here))
                f.store(x, f.at(to, f.add(f.mul(key, p.nr), c), g.acc), g.align)
    return f


def store_results(p: Products, spec: AttentionSpec) -> Function:
    """store_results(frame, sums, totals, to, rows, none): sums of a panel divided by its totals.

    `none`: there are no keys at all.
    """
    names = [(PTR, "sums"), (PTR, "totals"), ("ptr noalias", "to"), (I64, "rows"), ("i1", "none")]
    f = _function(p, "store_results", names)
    g, lanes, out = p.scores, p.lanes, spec.out
    element = ELEMENT[out.dtype.value]
    stride = g.size(f, f.params["frame"], out.strides[-2])
    rows, kind = f.params["rows"], vec(F32, lanes)
    buffer = f.stack(lanes * lanes * 4)

    with _vectors_of_rows(p, f) as c, f.if_(f.icmp("slt", c, rows)):
        total = f.load(kind, f.at(f.params["totals"], c, F32), g.align)
        factor = f.fdiv(1.0, total)
        empty = f.fcmp("oeq", total, 0.0)
        if not spec.zero_masked_rows:
            empty = f.op(empty.type, f"and {empty}, {f.splat(f.params['none'], lanes).text}")
        factor = f.select(empty, 0.0, factor)
        here = f.smin(f.sub(rows, c), lanes)
        first = f.at(f.params["to"], f.mul(c, stride), element)

        def square(d: Value, tail: TailMask | None, c: Value = c, factor: Value = factor) -> None:
            found: list[Value] = []
            for i in range(lanes):
                at = f.at(f.params["sums"], f.add(f.mul(f.add(d, i), p.nr), c), F32)
                found.append(f.fmul(f.load(kind, at, g.align), factor))
            turned = transpose_registers(f, found)

            def store(x: Value, row: Value | int) -> None:
                address = f.at(first, f.add(f.mul(row, stride), d), element)
                masked_store(f, stored_result(f, spec, x), address, tail)

            with f.if_(f.icmp("eq", here, lanes)) as branch:
                for i, x in enumerate(turned):
                    store(x, i)
                branch.else_()
                for i, x in enumerate(turned):
                    f.store(x, f.at(buffer, i * lanes, F32))
                with f.range(0, here, outer=True) as i:
                    store(f.load(kind, f.at(buffer, f.mul(i, lanes), F32)), i)

        for d, tail in vector_and_tail(f, spec.value_size, lanes):
            square(d, tail)
    return f


def stored_result(f: Function, spec: AttentionSpec, x: Value) -> Value:
    """Results of f32 as they are stored; those of rounded factors as bf16 without denormals."""
    if spec.compute_dtype is spec.out.dtype is DType.bf16:
        return bfloat_of_flushed(f, x)
    return f.cast(x, ELEMENT[spec.out.dtype.value])


def _function(p: Products, name: str, params: list[tuple[str, str]]) -> Function:
    return p.module.function(
        name,
        [("ptr noalias", "frame"), *params],
        attributes="nounwind noinline",
        linkage="internal",
    )


def _vectors_of_rows(p: Products, f: Function) -> AbstractContextManager[Value]:
    return f.range(0, p.nr, p.lanes, outer=True)


def _row_places(p: Products, f: Function, c: Value, stride: Value, element: str) -> list[Value]:
    """Where the rows of the lanes from c on lie; lanes beyond the last row repeat it."""
    last = f.sub(f.params["rows"], 1)
    found: list[Value] = []
    for i in range(p.lanes):
        row = f.smin(f.add(c, i), last)
        found.append(f.at(f.params["source"], f.mul(row, stride), element))
    return found
