"""How workers share a product: a grid over matrices, tiles of rows, and panels. Never over K."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
    whole = [(integer(0), count) for count in counts]
    # One matrix, tile or panel is not shared: no candidates, no variables, no loop around it.
    bounds = [None if c.known == 1 else (f.var(I64, 0), f.var(I64, c)) for c in counts]
    with f.if_(f.icmp("sgt", entry.workers, 1)):
        best = f.var(I64, (1 << 62))
        grid = [None if b is None else f.var(I64, 1) for b in bounds]
        with _try_each(f, batch, entry.workers) as x:
            left = f.udiv(entry.workers, x)
            with _try_each(f, tiles, left) as y:
                z = integer(1)
                if panels.known != 1:
                    z = f.smax(f.smin(f.udiv(left, y), panels), 1)
                b, t, p = (f.ceil_div(c, d) for c, d in zip(counts, (x, y, z), strict=True))
                work = f.add(f.mul(f.mul(t, p), 2 * rows), f.mul(t, rows))
                cost = f.mul(b, f.add(work, f.mul(p, panel_work)))
                with f.if_(f.icmp("slt", cost, best.get())):
                    best.set(cost)
                    for g, v in zip(grid, (x, y, z), strict=True):
                        if g is not None:
                            g.set(v)
        x, y, z = (integer(1) if g is None else g.get() for g in grid)
        with f.if_(f.icmp("sge", entry.worker, f.mul(f.mul(x, y), z))):
            f.ret(0)
        rest = f.udiv(entry.worker, z)
        ranks = (f.udiv(rest, y), f.urem(rest, y), f.urem(entry.worker, z))
        for count, rank, of, each in zip(counts, ranks, (x, y, z), bounds, strict=True):
            if each is not None:
                for bound, value in zip(each, share(f, count, rank, of), strict=True):
                    bound.set(value)
    found = [
        every if each is None else (each[0].get(), each[1].get())
        for every, each in zip(whole, bounds, strict=True)
    ]
    return Ranges(*found)


@contextmanager
def _try_each(f: Function, count: Value, workers: Value) -> Iterator[Value]:
    """Each number of parts that so many workers may cut `count` into."""
    if count.known == 1:
        yield integer(1)
        return
    with f.range(1, f.add(f.smin(workers, f.smax(count, 1)), 1), outer=True) as parts:
        yield parts
