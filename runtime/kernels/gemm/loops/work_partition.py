"""How workers share a product: a grid over matrices, tiles of rows, and panels. Never over K."""

from __future__ import annotations

from dataclasses import dataclass

from ....llvmir.builder import Function
from ....llvmir.kernel_entry import OpenKernel, share
from ....llvmir.values import I64, Value, integer

# [lo, hi)
Bounds = tuple[Value, Value]


@dataclass(frozen=True)
class Ranges:
    """One worker's share: matrices, tiles of rows, panels, each [lo, hi)."""

    batch: Bounds
    tiles: Bounds
    panels: Bounds


def split_work(
    f: Function, counts: tuple[Value, Value, Value], entry: OpenKernel, rows: int, panel_work: int
) -> Ranges:
    """This worker's share of (matrices, tiles, panels): the grid of workers with the least cost.

    Cost of a share, in multiply-adds per step of K: its tiles, its strips of A once, and its
    panels of B once, read from far away. Workers that the grid leaves over return.
    """
    batch, tiles, panels = counts
    zero = integer(0)
    full = [(zero, batch), (zero, tiles), (zero, panels)]
    bounds = [(f.var(I64, lo), f.var(I64, hi)) for lo, hi in full]
    with f.if_(f.icmp("sgt", entry.workers, 1)):
        best, grid = f.var(I64, (1 << 62)), [f.var(I64, 1) for _ in counts]
        with f.range(1, f.add(f.smin(entry.workers, f.smax(batch, 1)), 1), outer=True) as x:
            left = f.udiv(entry.workers, x)
            with f.range(1, f.add(f.smin(left, f.smax(tiles, 1)), 1), outer=True) as y:
                z = f.smax(f.smin(f.udiv(left, y), panels), 1)
                b, t, p = (f.ceil_div(c, d) for c, d in zip(counts, (x, y, z), strict=True))
                work = f.add(f.mul(f.mul(t, p), 2 * rows), f.mul(t, rows))
                cost = f.mul(b, f.add(work, f.mul(p, panel_work)))
                with f.if_(f.icmp("slt", cost, best.get())):
                    best.set(cost)
                    for g, v in zip(grid, (x, y, z), strict=True):
                        g.set(v)
        x, y, z = (g.get() for g in grid)
        with f.if_(f.icmp("sge", entry.worker, f.mul(f.mul(x, y), z))):
            f.ret(0)
        rest = f.udiv(entry.worker, z)
        ranks = (f.udiv(rest, y), f.urem(rest, y), f.urem(entry.worker, z))
        for count, rank, of, (lo, hi) in zip(counts, ranks, (x, y, z), bounds, strict=True):
            first, last = share(f, count, rank, of)
            lo.set(first)
            hi.set(last)
    found = [(lo.get(), hi.get()) for lo, hi in bounds]
    return Ranges(*found)
