"""Copies of operands in the order in which register tiles read them.

B: panels of nr columns, each K x nr row after row, the last one padded with zeros. Constants are
packed once by NumPy (`pack`); other right operands are packed by generated code, a block at a time.
A: strips of one tile's rows, either rows one after the other or columns one after the other.
Where a unit multiplies cells, what stands for an element is a cell: `kr` neighbours along K.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ....ir.dtype import DType
from ....ir.layouts import PackedConv, PackedGates, panels
from ....ir.plan import Constant
from ....ir.tiles import packed_size
from ...codegen.emit import Function
from ...codegen.values import I1, I64, Value, integer
from ..transforms import transform_filters
from ..units import FLIP
from ..walk import part_of
from .cells import cell_at, cells_of_rows, each_cell, fetch, fetch_along, left_side, right_side
from .micro import Context
from .rounding import round_array

Array = np.ndarray[Any, np.dtype[Any]]

# Panels smaller than this together are packed by the calling thread.
_WORTH_THREADS = 1 << 20


def pack(array: Array, constant: Constant, *, threads: int | None = None) -> Array:
    """The array (of `constant.shape`) in the constant's layout: flat, C-contiguous.

    Without a layout that is the array itself, else the panels of its matrices (ir/layouts.py);
    packed_size() elements per matrix. threads: None for the CPUs this process may use.
    """
    array = np.asarray(array).reshape(constant.shape)
    if constant.layout is None:
        return np.ascontiguousarray(array).reshape(-1)
    nr, kr, sums = constant.layout.nr, constant.layout.kr, constant.layout.sums
    matrices = as_matrices(array, constant)
    k, n = matrices.shape[-2:]
    size, across = packed_size(k, n, nr, kr, sums), -(-n // nr)
    halves = constant.dtype.bits == 4
    dtype = np.dtype(np.uint8) if halves else constant.dtype.numpy
    rows, depth = nr * (-(-k // kr) * kr), kr
    if halves:
        size, rows, depth = size // 2, rows // 2, kr // 2
    memory = np.empty(len(matrices) * size * dtype.itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    flat = memory[start : start + len(matrices) * size * dtype.itemsize].view(dtype)
    blocks = flat.reshape(len(matrices), across, size // max(1, across))
    flip = flips(constant)

    def one(job: tuple[int, int]) -> None:
        b, j = job
        columns = matrices[b, :, j * nr : (j + 1) * nr]
        columns = round_array(columns) if constant.rounds else columns
        columns = columns ^ np.uint8(FLIP) if flip else columns
        out = blocks[b, j, :rows].reshape(-1, nr, depth)
        wide = columns.shape[1]
        if halves:
            out[...] = _in_halves(columns, nr, kr)
            return
        for i in range(kr):
            part = columns[i::kr]
            out[: len(part), :wide, i] = part
            out[len(part) :, :wide, i] = 0
        out[:, wide:] = 0
        if sums:
            stored = columns.view(np.int8) if flip else columns
            total = blocks[b, j, rows:].view(np.int32)
            total[:wide] = stored.sum(axis=0, dtype=np.int64).astype(np.int32)
            total[wide:] = 0

    jobs = [(b, j) for b in range(len(matrices)) for j in range(across)]
    _for_each(jobs, one, flat.nbytes, threads)
    return flat


def _in_halves(columns: Array, nr: int, kr: int) -> Array:
    """Columns of 4-bit integers as cells [K / kr, nr, kr / 2] of bytes, padded with zeros."""
    k, wide = columns.shape
    codes = np.zeros((-(-k // kr) * kr, nr), np.uint8)
    codes[:k, :wide] = columns.view(np.uint8) & 15
    pairs = codes.reshape(-1, kr // 2, 2, nr)
    return (pairs[:, :, 0] | pairs[:, :, 1] << 4).swapaxes(1, 2)


def flips(constant: Constant) -> bool:
    """Whether a constant's bytes are stored less 128 (PackedB)."""
    layout = constant.layout
    return layout is not None and layout.sums and layout.kr == 4 and constant.dtype is DType.u8


def as_matrices(array: Array, constant: Constant) -> Array:
    """The array as [matrices, K, N], in the order that its layout packs."""
    layout = constant.layout
    if isinstance(layout, PackedGates):
        count, k, n = panels(constant.shape, layout)
        return array.reshape(count, n, k).swapaxes(1, 2)
    if not isinstance(layout, PackedConv):
        matrices = array.swapaxes(-1, -2) if constant.transposed else array
        # Counted, since -1 has no answer where a size is 0.
        return matrices.reshape(math.prod(matrices.shape[:-2]), *matrices.shape[-2:])
    count, k, n = panels(constant.shape, layout)
    if layout.winograd:
        return transform_filters(array, layout.winograd)
    filters = array if layout.grouped else array[None]
    taps = np.moveaxis(filters, (1, 2), (-1, -2))  # [G, kernel..., C, O]
    if layout.depthwise:
        taps = np.moveaxis(taps, 0, -2)  # [kernel..., 1, G, O]
    if layout.kr == 1:
        return taps.reshape(count, k, n)
    run = math.prod(taps.shape[-3:-1] if layout.runs else taps.shape[-2:-1])
    runs = taps.reshape(count, -1, run, n)
    found = np.pad(runs, [(0, 0), (0, 0), (0, -run % layout.kr), (0, 0)]).reshape(count, -1, n)
    return found.reshape(count, k, n)


def unpack(packed: Array, constant: Constant) -> Array:
    """The array that `pack` was given, in the constant's type; not of filters."""
    if constant.layout is None:
        return packed.reshape(constant.shape)
    nr, kr = constant.layout.nr, constant.layout.kr
    *batch, k, n = constant.shape
    if constant.transposed:
        k, n = n, k
    blocks = packed.reshape(*batch, -(-n // nr), -1)[..., : nr * (-(-k // kr) * kr)]
    blocks = blocks ^ np.uint8(FLIP) if flips(constant) else blocks
    cells = blocks.reshape(*batch, -(-n // nr), -(-k // kr), nr, kr)
    strips = cells.swapaxes(-2, -1).reshape(*batch, -(-n // nr), -(-k // kr) * kr, nr)[..., :k, :]
    matrices = strips.swapaxes(-3, -2).reshape(*batch, k, -(-n // nr) * nr)[..., :n]
    return np.ascontiguousarray(matrices.swapaxes(-1, -2) if constant.transposed else matrices)


def _for_each(
    jobs: list[tuple[int, int]],
    one: Callable[[tuple[int, int]], None],
    nbytes: int,
    threads: int | None,
) -> None:
    if threads is None:
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if nbytes < _WORTH_THREADS or threads == 1:
        for job in jobs:
            one(job)
        return
    with ThreadPoolExecutor(threads, "irc-pack") as pool:
        list(pool.map(one, jobs))


# -- generated code -----------------------------------------------------------------------------


def pack_a_function(g: Context) -> Function:
    """pack(frame, source, to, rows, k): one strip of A, as cells.

    Rows beyond `rows` (only guarded tiles have them) are zero.
    """
    t, side = g.tiling, left_side(g)
    f = g.module.function(
        g.module.unique("pack_a"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "source"), ("ptr noalias", "to")]
        + [(I64, "rows"), (I64, "k")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, element = f.params, side.element
    row, step = (g.size(f, p["frame"], s) for s in g.spec.a.strides[-2:])
    if t.pack_a == "columns":
        starts = range(0, t.a_row, t.lanes)
        parts = [part_of(f, t.lanes, f.sub(p["rows"], s)) for s in starts]

        def place_rows(cell: Value, ks: Sequence[Value]) -> None:
            for s, part in zip(starts, parts, strict=True):
                places = [f.at(p["source"], f.add(f.mul(k, step), s), element) for k in ks]
                xs = [fetch(f, side, t.lanes, x, integer(1), part) for x in places]
                to = f.at(p["to"], f.add(f.mul(cell, t.a_row), s), side.cell)
                f.store(cells_of_rows(g, f, side, xs), to, g.align)

        each_cell(g, f, p["k"], place_rows, unroll=4)
        return f
    width = t.lanes * t.kr
    with f.range(0, p["rows"], unroll=1) as i:
        source = f.at(p["source"], f.mul(i, row), element)
        to = f.at(p["to"], f.mul(i, t.a_row), side.cell)

        def copy(k: Value, left: Value | None) -> None:
            place = f.at(source, f.mul(k, step), element)
            cells = fetch_along(g, f, side, place, step, left)
            f.store(cells, f.at(to, f.udiv(k, t.kr), side.cell), g.align)

        whole = f.mul(f.udiv(p["k"], width), width)
        with f.range(0, whole, width, unroll=4) as k:
            copy(k, None)
        with f.if_(f.icmp("slt", whole, p["k"])):
            copy(whole, f.sub(p["k"], whole))
    if t.guarded:
        with f.range(p["rows"], t.mr, unroll=1) as i:
            to = f.at(p["to"], f.mul(i, t.a_row), side.cell)
            with f.range(0, f.ceil_div(p["k"], t.kr), t.lanes, unroll=1) as k:
                f.store(f.as_value(0, g.vector), f.at(to, k, side.cell), g.align)
    return f


def pack_b_function(g: Context) -> Function:
    """pack(frame, source, to, cols, k): one panel of B, as cells.

    Columns beyond `cols` are zero, of bytes any number.
    """
    t, side = g.tiling, right_side(g)
    f = g.module.function(
        "pack_b",
        [("ptr noalias", "frame"), ("ptr noalias readonly", "source"), ("ptr noalias", "to")]
        + [(I64, "cols"), (I64, "k")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, element = f.params, side.element
    row, column = (g.size(f, p["frame"], s) for s in g.spec.b.strides[-2:])
    if row.known == 1 and column.known != 1:
        _pack_transposed(g, f, column)
        return f

    def copy(cell: Value, ks: Sequence[Value], full: bool) -> None:
        for c in range(0, t.nr, t.lanes):
            part = None if full else part_of(f, t.lanes, f.sub(p["cols"], c))
            xs: list[Value] = []
            for k in ks:
                place = f.at(p["source"], f.add(f.mul(k, row), f.mul(column, c)), element)
                xs.append(fetch(f, side, t.lanes, place, column, part))
            to = f.at(p["to"], f.add(f.mul(cell, t.nr), c), side.cell)
            f.store(cells_of_rows(g, f, side, xs), to, t.lanes * side.align)

    # Lanes that are gathered one by one need no second form.
    whole = f.icmp("sge", p["cols"], t.nr) if column.known == 1 else integer(0, I1)
    with f.if_(whole) as branch:
        each_cell(g, f, p["k"], lambda cell, ks: copy(cell, ks, True), unroll=4)
        branch.else_()
        each_cell(g, f, p["k"], lambda cell, ks: copy(cell, ks, False), unroll=1)
    return f


def _pack_transposed(g: Context, f: Function, column: Value) -> None:
    """A panel whose columns are contiguous in memory: squares of lanes x lanes cells are turned
    around in registers, what is left of them at the edges cell by cell."""
    t, side, p = g.tiling, right_side(g), f.params
    element, lanes = side.element, t.lanes
    width = lanes * t.kr
    whole = f.mul(f.udiv(p["k"], width), width)
    with f.range(0, t.nr, lanes, unroll=1) as c:
        source = f.at(p["source"], f.mul(column, c), element)
        left = f.sub(p["cols"], c)

        def cells(lo: Value | int, hi: Value, c: Value = c, source: Value = source) -> None:
            with f.range(0, lanes, unroll=1) as i, f.range(lo, hi, t.kr, unroll=1) as k:
                cell = f.udiv(k, t.kr)
                to = f.at(p["to"], f.add(f.add(f.mul(cell, t.nr), c), i), side.cell)
                with f.if_(f.icmp("slt", i, left)) as inside:
                    place = f.at(source, f.add(f.mul(column, i), k), element)
                    f.store(cell_at(g, f, side, place, f.sub(hi, k)), to)
                    inside.else_()
                    f.store(f.as_value(0, side.cell), to)

        with f.if_(f.icmp("sge", left, lanes)) as branch:
            with f.range(0, whole, width, unroll=1) as k:
                cell = f.udiv(k, t.kr)
                rows: list[Value] = []
                for i in range(lanes):
                    place = f.at(source, f.add(f.mul(column, i), k), element)
                    rows.append(fetch_along(g, f, side, place, integer(1), None))
                for i, x in enumerate(transposed(f, rows)):
                    to = f.at(p["to"], f.add(f.mul(f.add(cell, i), t.nr), c), side.cell)
                    f.store(x, to, lanes * side.align)
            cells(whole, p["k"])
            branch.else_()
            cells(integer(0), p["k"])


def transposed(f: Function, rows: list[Value]) -> list[Value]:
    """The columns of a square held in registers (rows a power of two): halves change places, then
    halves of the halves."""
    rows, lanes = list(rows), len(rows)
    distance = lanes // 2
    while distance:
        for i in range(lanes):
            if i & distance:
                continue
            a, b = rows[i], rows[i + distance]
            low = [x + lanes - distance if x & distance else x for x in range(lanes)]
            high = [x + lanes if x & distance else x + distance for x in range(lanes)]
            rows[i], rows[i + distance] = f.shuffle(a, b, low), f.shuffle(a, b, high)
        distance //= 2
    return rows
