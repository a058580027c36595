"""How workers share a product: a grid over matrices, tiles of rows, and panels. Never over K."""

from __future__ import annotations

from .....ir.lazy_dataclass import dataclass
from ....llvmir.builder import Function
from ....llvmir.kernel_entry import OpenKernel
from ....llvmir.values import I32, I64, Value, integer
from ...shared_functions import SPLIT_WORK

# [lo, hi)
Bounds = tuple[Value, Value]


@dataclass(frozen=True)
class Ranges:
    """One worker's share: matrices, tiles of rows, panels, each [lo, hi)."""

    batch: Bounds
    tiles: Bounds
    panels: Bounds


def split_work(
    f: Function, counts: tuple[Value, Value, Value], entry: OpenKernel, *work: int
) -> Ranges:
    """This worker's share of (matrices, tiles, panels), by the function that all products share:
    a worker without a share returns. One matrix, tile or panel has no loop around it. work: the
    schedule's rows_of_work, panel_work and strip_work."""
    bounds = f.stack(8 * 6)
    given = (bounds, entry.worker, entry.workers, *counts, *map(integer, work))
    has_share = f.call(SPLIT_WORK, I32, *given)
    with f.if_(f.icmp("eq", has_share, 0)):
        f.ret(0)
    found = [
        (integer(0), integer(1))
        if count.known == 1
        else (f.load(I64, f.offset(bounds, 16 * i)), f.load(I64, f.offset(bounds, 16 * i + 8)))
        for i, count in enumerate(counts)
    ]
    return Ranges(*found)
