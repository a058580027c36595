"""Functions that kernels of all models call: one module, compiled once and not with each kernel.

A kernel calls them by name, and the loader of kernels links them (runtime/jit/shared_functions.py).
A kernel calls them once for each worker: their code is for the plain instruction set, and a call
goes through a stub. This module imports no generator: a warm start needs its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ...plan.target import Target
from ..llvmir.builder import Function, Module
from ..llvmir.kernel_entry import share
from ..llvmir.values import I32, I64, PTR, Value, integer

SPLIT_WORK: Final = "irc_split_work"
SHARED_FUNCTIONS: Final = (SPLIT_WORK,)


def shared_functions_text(target: Target) -> str:
    """The module of all of them."""
    module = Module(target)
    write_split_work(module)
    return module.text()


def write_split_work(module: Module) -> Function:
    """split_work(bounds, worker, workers, matrices, tiles, panels, rows, panel_work, strip_work):
    writes the worker's [lo, hi) of each of the three, in the grid of workers with the least cost,
    and returns 1; or 0 for a worker that the grid leaves over.

    Cost of a share, in multiply-adds per step of K: its tiles of so many rows, its strips of A
    once, and its panels of B once, read from far away. Where workers divide the panels, A is read
    from far away, too, but for what the worker itself has written: its share of the panels.
    """
    names = ("worker", "workers", "matrices", "tiles", "panels", "rows", "panel_work", "strip_work")
    f = module.function(SPLIT_WORK, [(PTR, "bounds"), *((I64, n) for n in names)], I32)
    p, workers = f.params, f.params["workers"]
    counts = (p["matrices"], p["tiles"], p["panels"])
    slots = [f.offset(p["bounds"], 16 * i) for i in range(len(counts))]
    with f.if_(f.icmp("sle", workers, 1)):
        for count, at in zip(counts, slots, strict=True):
            f.store(integer(0), at)
            f.store(count, f.offset(at, 8))
        f.ret(1)
    grid = [f.var(I64, 1) for _ in counts]
    best = f.var(I64, (1 << 62))
    with _try_each(f, p["matrices"], workers) as x:
        left = f.udiv(workers, x)
        with _try_each(f, p["tiles"], left) as y:
            z = f.smax(f.smin(f.udiv(left, y), p["panels"]), 1)
            b, t, n = (f.ceil_div(c, d) for c, d in zip(counts, (x, y, z), strict=True))
            work = f.mul(p["rows"], f.add(f.mul(f.mul(t, n), 2), t))
            far = f.udiv(f.mul(f.mul(t, p["strip_work"]), f.sub(z, 1)), z)
            cost = f.mul(b, f.add(f.add(work, far), f.mul(n, p["panel_work"])))
            with f.if_(f.icmp("slt", cost, best.get())):
                best.set(cost)
                for g, v in zip(grid, (x, y, z), strict=True):
                    g.set(v)
    x, y, z = (g.get() for g in grid)
    with f.if_(f.icmp("sge", p["worker"], f.mul(f.mul(x, y), z))):
        f.ret(0)
    rest = f.udiv(p["worker"], z)
    ranks = (f.udiv(rest, y), f.urem(rest, y), f.urem(p["worker"], z))
    for count, rank, of, at in zip(counts, ranks, (x, y, z), slots, strict=True):
        low, high = share(f, count, rank, of)
        f.store(low, at)
        f.store(high, f.offset(at, 8))
    f.ret(1)
    return f


@contextmanager
def _try_each(f: Function, count: Value, workers: Value) -> Iterator[Value]:
    """Each number of parts that so many workers may cut `count` into."""
    with f.range(1, f.add(f.smin(workers, f.smax(count, 1)), 1), outer=True) as parts:
        yield parts
