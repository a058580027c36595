"""Constants in the order in which register tiles read them, packed once by NumPy.

Panels of nr columns, each K x nr row after row, the last one padded with zeros
(plan/packing/layouts.py). A constant is copied once: the source may have any
strides, so the filters of a convolution are not first copied into a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from .....ir.dtype import DType
from .....ir.int4 import Int4Bytes
from .....plan.packing.layouts import PackedConv, PackedGates, PackedLayout, panels
from .....plan.plan import PlanConstant
from ....machine.cpus import usable_cores
from ....machine.memory_planner import aligned_bytes
from ...conv.winograd_matrices import transform_filters
from ...emit.dot_units import SIGN_FLIP
from ..bf16_rounding import round_array
from .int4_packing import fill_panels, find_cell_rows, pack_columns

Array = np.ndarray[Any, np.dtype[Any]]

# Matrices, and a range of panels in each of them.
Job: TypeAlias = tuple[slice, int, int]
# Panels smaller than this together are packed by the calling thread, larger ones in pieces of
# about this size.
_MIN_PARALLEL_PACK_BYTES: Final = 4 << 20


def pack(source: Array | Int4Bytes, constant: PlanConstant, *, threads: int | None = None) -> Array:
    """The array (of `constant.shape`) in the constant's layout: flat, C-contiguous.

    Without a layout that is the array itself, else the panels of its matrices
    (plan/packing/layouts.py). threads: None for the CPUs this
    process may use.
    """
    layout = constant.layout
    if layout is None:
        return np.ascontiguousarray(_as_array(source, constant)).reshape(-1)
    count, k, n = panels(constant.shape, layout, constant.transposed)
    packed, bits = PackedLayout.of(layout, k, n), constant.dtype.bits
    # Two elements of 4 bits are one number of the array.
    dtype = np.dtype(np.uint8) if bits == 4 else constant.dtype.numpy
    flat = aligned_bytes(count * packed.nbytes(bits)).view(dtype)
    if not flat.size:
        return flat
    blocks = flat.reshape(count, packed.panels, -1)
    jobs = _jobs(count, packed.panels, flat.nbytes)
    rows = find_cell_rows(source, constant)
    if rows is not None:
        _run_jobs(jobs, partial(fill_panels, blocks, rows, layout.nr), threads)
        return flat
    matrices = as_matrices(_as_array(source, constant), constant)

    def pack_part(job: Job) -> None:
        which, first, last = job
        columns = matrices[which, ..., first * layout.nr : last * layout.nr]
        columns = _round_factors(columns, constant.dtype) if constant.rounds else columns
        columns = columns ^ np.uint8(SIGN_FLIP) if flips(constant) else columns
        full = columns.shape[-1] // layout.nr
        for begin, end in ((0, full), (full, last - first)):
            if begin < end:
                chunk = columns[..., begin * layout.nr : end * layout.nr]
                wide = chunk.shape[-1] // (end - begin)
                chunk = chunk.reshape(*chunk.shape[:-1], end - begin, wide)
                to = blocks[which, first + begin : first + end]
                _fill(to, np.moveaxis(chunk, -2, 1), constant)

    _run_jobs(jobs, pack_part, threads)
    return flat


def _as_array(source: Array | Int4Bytes, constant: PlanConstant) -> Array:
    array = source.unpack() if isinstance(source, Int4Bytes) else np.asarray(source)
    return array.reshape(constant.shape)


def _run_jobs(jobs: list[Job], run: Callable[[Job], None], threads: int | None) -> None:
    # To count usable cores, files are read.
    workers = 1 if len(jobs) < 2 else usable_cores() if threads is None else threads
    if workers < 2:
        for job in jobs:
            run(job)
    else:
        with ThreadPoolExecutor(workers, "irc-pack") as pool:
            list(pool.map(run, jobs))


def _round_factors(array: Array, dtype: DType) -> Array:
    """An f32 array as bf16 or f16, rounded as the kernels round."""
    if dtype is DType.bf16:
        return round_array(array)
    with np.errstate(over="ignore"):
        return array.astype(np.float16)


def _jobs(count: int, across: int, nbytes: int) -> list[Job]:
    """All panels of all matrices, in pieces of about the same size."""
    pieces = max(1, nbytes // _MIN_PARALLEL_PACK_BYTES)
    if count >= pieces:
        step = -(-count // pieces)
        return [(slice(b, b + step), 0, across) for b in range(0, count, step)]
    step = -(-across * count // pieces)
    cuts = [(j, min(j + step, across)) for j in range(0, across, step)]
    return [(slice(b, b + 1), *cut) for b in range(count) for cut in cuts]


def _fill(to: Array, columns: Array, constant: PlanConstant) -> None:
    """Panels [matrices, panels, size] of columns [matrices, panels, K (one or more axes), nr at
    most]."""
    layout = constant.layout
    assert layout is not None
    nr, kr = layout.nr, layout.kr
    count, across, *depth, wide = columns.shape
    k = math.prod(depth)
    if constant.dtype.bits == 4:
        for b, j in np.ndindex(count, across):
            to[b, j] = pack_columns(columns[b, j], nr, kr).reshape(-1)
        return
    packed = PackedLayout.of(layout, k, nr)
    cells = packed.cells
    panel = to[..., : packed.sums_at]
    if kr == 1:
        out = panel.reshape(count, across, *depth, nr)
        out[..., :wide] = columns
        out[..., wide:] = 0
    else:
        out = panel.reshape(count, across, cells, nr, kr)
        full = k // kr
        if full and columns.strides[2] == columns.itemsize:
            # Whole cells are in the source in the layout that they shall have here: they are copied
            # as one number.
            cell = np.dtype(f"u{kr * columns.itemsize}")
            inner = columns[:, :, : full * kr].swapaxes(2, 3).view(cell)
            out.view(cell)[:, :, :full, :wide, 0] = inner.swapaxes(2, 3)
        else:
            inner = columns[:, :, : full * kr].reshape(count, across, full, kr, wide)
            out[:, :, :full, :wide] = inner.swapaxes(-1, -2)
        if rest := k % kr:
            out[:, :, full, :wide, :rest] = columns[:, :, full * kr :].swapaxes(-1, -2)
            out[:, :, full, :wide, rest:] = 0
        out[..., wide:, :] = 0
    if layout.column_sums:
        stored = columns.view(np.int8) if flips(constant) else columns
        total = to[..., packed.sums_at :].view(np.int32)
        # Sums are taken modulo 2^32 whatever they are added in.
        total[..., :wide] = stored.sum(axis=tuple(range(2, stored.ndim - 1)), dtype=np.int32)
        total[..., wide:] = 0


def flips(constant: PlanConstant) -> bool:
    """Whether a constant's bytes are stored less 128 (PackedB)."""
    layout = constant.layout
    return (
        layout is not None and layout.column_sums and layout.kr >= 4 and constant.dtype is DType.u8
    )


def as_matrices(array: Array, constant: PlanConstant) -> Array:
    """The array as [matrices, K, N], in the order that its layout packs; where a view will do, K
    may be several axes."""
    layout = constant.layout
    if isinstance(layout, PackedGates):
        count, k, n = panels(constant.shape, layout)
        gates = array.reshape(count, layout.gates, k, k)
        if n > layout.gates * k:
            gates = np.pad(gates, [(0, 0), (0, 0), (0, n // layout.gates - k), (0, 0)])
        wide = layout.nr // layout.gates
        cut = gates.reshape(count, layout.gates, n // layout.nr, wide, k)
        return cut.swapaxes(1, 2).reshape(count, n, k).swapaxes(1, 2)
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
        return taps.reshape(count, k, n) if layout.depthwise else taps
    run = math.prod(taps.shape[-3:-1] if layout.runs else taps.shape[-2:-1])
    if layout.tails:
        return _with_tails(taps, layout.kr).reshape(count, k, n)
    rows = np.moveaxis(taps, -1, 1).reshape(
        count, n, math.prod(taps.shape[1:-1]) // max(1, run), run
    )
    if run % layout.kr:
        rows = np.pad(rows, [(0, 0), (0, 0), (0, 0), (0, -run % layout.kr)])
    return rows.reshape(count, n, k).swapaxes(1, 2)


def _with_tails(taps: Array, kr: int) -> Array:
    """[G, planes..., rows, columns, C, O] as [G, planes, K, O]: whole cells of all rows, then the
    last value of each, padded with zeros."""
    high, wide, channels, n = taps.shape[-4:]
    rows = taps.reshape(len(taps), -1, high, wide * channels, n)
    full = rows[..., :-1, :].reshape(*rows.shape[:2], -1, n)
    ends = np.pad(rows[..., -1, :], [(0, 0), (0, 0), (0, -high % kr), (0, 0)])
    return np.concatenate([full, ends], axis=2)


def unpack(packed: Array, constant: PlanConstant) -> Array:
    """The array that `pack` was given, in the constant's type; not of filters."""
    if constant.layout is None:
        return packed.reshape(constant.shape)
    *batch, k, n = constant.shape
    if constant.transposed:
        k, n = n, k
    of = PackedLayout.of(constant.layout, k, n)
    blocks = packed.reshape(*batch, of.panels, -1)[..., : of.sums_at]
    blocks = blocks ^ np.uint8(SIGN_FLIP) if flips(constant) else blocks
    cells = blocks.reshape(*batch, of.panels, of.cells, of.nr, of.kr)
    strips = cells.swapaxes(-2, -1).reshape(*batch, of.panels, of.depth, of.nr)[..., :k, :]
    matrices = strips.swapaxes(-3, -2).reshape(*batch, k, of.panels * of.nr)[..., :n]
    return np.ascontiguousarray(matrices.swapaxes(-1, -2) if constant.transposed else matrices)
