"""The state of a product's loops: sizes, operands, the frame, and the worker's scratch memory."""

from __future__ import annotations

from collections.abc import Sequence

from .....plan.specs.base import Size
from ....llvmir.kernel_entry import OpenKernel
from ....llvmir.values import Value, integer
from ...emit.strided_loops import Space, coalesce
from ..context import GemmContext
from ..packing.dequant import walked_type
from .m_partition import RowTiles


class LoopState:
    """What the loops of one kernel share with the code inside them. `cut`: the tiles of rows;
    `tiles_in_place`: how many of the first tiles read A unpacked. The loops over tiles set both."""

    cut: RowTiles
    tiles_in_place: Value

    def __init__(self, g: GemmContext, entry: OpenKernel) -> None:
        self.g, self.entry, self.f = g, entry, entry.function
        spec, f = g.spec, self.f
        self.frame = f.stack(max(8, g.frame_bytes))
        for i, d in enumerate(entry.dims):
            g.set_dim(f, self.frame, i, d)
        self.m, self.n, self.k = (self.size(s) for s in (spec.m, spec.n, spec.k))
        self.steps = f.ceil_div(self.k, g.schedule.kr)
        operands = spec.operands()
        rank = len(spec.batch)
        self.space: Space = coalesce(spec.batch, [o.strides[:rank] for o in operands])
        self.scratch = 0
        self.pointers = [
            f.at(p, self.size(o.offset), walked_type(o))
            for p, o in zip(entry.buffers, operands, strict=True)
        ]

    def size(self, size: Size) -> Value:
        return integer(size) if isinstance(size, int) else self.entry.dims[size.index]

    def product(self, sizes: Sequence[Size]) -> Value:
        total = integer(1)
        for s in sizes:
            total = self.f.mul(total, self.size(s))
        return total

    def reserve(self, elements: int) -> Value:
        """The address of that many accumulator elements of the worker's scratch."""
        at = self.scratch
        self.scratch += -(-elements * self.g.bytes // 64) * 64
        return self.f.offset(self.entry.scratch, at)

    def values(self, k0: Value, depth: Value) -> tuple[Value, Value]:
        """Where `depth` steps from step k0 on begin along K, and how many values they are."""
        f, t = self.f, self.g.schedule
        if t.kr == 1:
            return k0, depth
        first = f.mul(k0, t.kr)
        left = f.sub(self.k, first)
        return first, f.smin(f.mul(depth, t.kr), left) if t.blocked else left
