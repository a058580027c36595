"""GridSample: elements of an image at computed coordinates, or blends of the four around each.

A task is one point. Its coordinates, weights and addresses are scalars, and vectors run along the
channels. Operations are those of the rule that decomposes GridSample, in its order, so the bits are
the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.specs.base import Operand, Size
from ....plan.specs.resample import GridSampleSpec
from ....plan.target import Target
from ...llvmir.builder import Module
from ...llvmir.kernel_entry import READ, WRITE, OpenKernel, open_kernel, share
from ...llvmir.values import F32, F64, I64, Value, bits_of, integer, number, vec
from ..emit.casts import memory_type
from ..emit.contract import Kernel
from ..emit.scalar_program import round_to
from ..emit.strided_loops import RuntimeSizes, address_of, emit_vectors
from ..emit.tail_mask import TailMask
from .region_bins import CHANNEL_VECTORS, base_pointers, channel_lanes


def generate(spec: GridSampleSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of samples of images."""
    module = Module(target)
    entry = open_kernel(module, symbol, [READ, READ, WRITE], spec.runtime_dims)
    _GridSample(spec, entry).run()
    entry.function.ret(0)
    return Kernel(symbol, module.text())


def _computing(operand: Operand) -> str:
    return F64 if operand.dtype is DType.f64 else F32


@dataclass(frozen=True)
class _Neighbor:
    """A row or column of elements that a sample reads: its number, limited to the image, whether it
    is inside the image (None: always), and its weight (None: 1)."""

    index: Value
    inside: Value | None
    weight: Value | None


@dataclass(frozen=True)
class _Corner:
    """An element that a sample reads: its channel 0, and for vectors of channels whether it is
    outside the image (None: never) and its weight (None: 1)."""

    address: Value
    outside: Value | None
    weight: Value | None


class _GridSample:
    def __init__(self, spec: GridSampleSpec, entry: OpenKernel) -> None:
        self.spec, self.entry, self.f = spec, entry, entry.function
        self.sizes = RuntimeSizes(self.f, entry.dims)
        self.element, self.grid_element = (memory_type(o.dtype) for o in (spec.data, spec.grid))
        self.computing, self.coordinate = (_computing(o) for o in (spec.data, spec.grid))
        self.lanes = self.f.target.lanes(bits_of(self.computing))
        self.data_at, self.grid_at, self.out_at = base_pointers(self.sizes, entry, spec.operands())
        self.data, self.out = channel_lanes(self.sizes, (spec.data, spec.out), self.lanes)

    def run(self) -> None:
        f, spec, size = self.f, self.spec, self.sizes.value
        rows, columns = size(spec.out_height), size(spec.out_width)
        points = f.mul(f.mul(size(spec.images), rows), columns)
        lo, hi = share(f, points, self.entry.worker, self.entry.workers)
        pixels = f.mul(size(spec.height), size(spec.width))
        with f.range(lo, hi, unroll=1) as point:
            row, j = f.udiv(point, columns), f.urem(point, columns)
            n, i = f.udiv(row, rows), f.urem(row, rows)
            out = address_of(
                self.sizes, self.out_at, spec.out.strides, n, i, j, element=self.element
            )
            self.out.begin(out, reads=False)
            with f.if_(f.icmp("sgt", pixels, 0)) as branch:
                self.sample(n, i, j)
                branch.else_()
                self.clear()

    def clear(self) -> None:
        """Store the sample of an image without elements."""
        f, zeros = self.f, number(0.0, vec(self.element, self.lanes))
        for c, tails in emit_vectors(f, self.sizes.value(self.spec.channels), self.lanes, 1):
            self.out.store(zeros, c, tails[0])

    def sample(self, n: Value, i: Value, j: Value) -> None:
        """Store all channels of a point."""
        f, spec = self.f, self.spec
        x, y = (
            self.find_coordinate((n, i, j), k, size)
            for k, size in enumerate((spec.width, spec.height))
        )
        rows, columns = self.find_neighbors(y, spec.height), self.find_neighbors(x, spec.width)
        base = address_of(self.sizes, self.data_at, spec.data.strides, n, element=self.element)
        corners = [self.find_corner(base, row, column) for row in rows for column in columns]
        channels = self.sizes.value(spec.channels)
        known = channels.known // self.lanes if channels.known is not None else CHANNEL_VECTORS
        vectors = max(1, min(CHANNEL_VECTORS, known))
        for c, tails in emit_vectors(f, channels, self.lanes, vectors):
            for u, tail in enumerate(tails):
                at = f.add(c, u * self.lanes)
                self.out.store(f.cast(self.blend(corners, at, tail), self.element), at, tail)

    def find_coordinate(self, point: Sequence[Value], k: int, size: Size) -> Value:
        """Where on an axis of the image a point is: coordinate k of the grid, in elements."""
        f, strides = self.f, self.spec.grid.strides
        at = address_of(
            self.sizes, self.grid_at, strides, *point, integer(k), element=self.grid_element
        )
        x = f.fadd(f.cast(f.load(self.grid_element, at), self.coordinate), 1.0)
        count = f.cast(self.sizes.value(size), self.coordinate)
        if self.spec.align_corners:
            return f.fmul(x, f.fmul(f.fsub(count, 1.0), 0.5))
        return f.fmul(f.fsub(f.fmul(x, count), 1.0), 0.5)

    def find_neighbors(self, x: Value, size: Size) -> list[_Neighbor]:
        """The rows or columns that a sample at coordinate x reads."""
        f, spec = self.f, self.spec
        last = f.fsub(f.cast(self.sizes.value(size), self.coordinate), 1.0)
        if not spec.blends:
            return [self.make_neighbor(round_to(f, x, "rint"), None, last, size)]
        # NaN remains, as the weights of the sample.
        x = f.max_or(0.0, f.min_or(last, x)) if spec.clamps else x
        before = round_to(f, x, "floor")
        far = f.fsub(x, before)
        return [
            self.make_neighbor(before, f.fsub(1.0, far), last, size),
            self.make_neighbor(f.fadd(before, 1.0), far, last, size),
        ]

    def make_neighbor(self, x: Value, weight: Value | None, last: Value, size: Size) -> _Neighbor:
        """The neighbor at an integer coordinate, which may be outside the image, or NaN."""
        f, count = self.f, self.sizes.value(size)
        if self.spec.clamps:
            index = self.to_index(f.min_or(f.max_or(x, 0.0), last))
            # Sizes beyond 2**24 may have been rounded up.
            is_exact = count.known is not None and count.known <= 1 << 24
            return _Neighbor(index if is_exact else f.smin(index, f.sub(count, 1)), None, weight)
        index = self.to_index(f.min_or(f.max_or(x, -1.0), f.fadd(last, 1.0)))
        inside = f.icmp("ult", index, count)
        return _Neighbor(f.select(inside, index, 0), inside, weight)

    def to_index(self, x: Value) -> Value:
        """An integer that is limited, and no NaN, as i64."""
        return self.f.op(I64, f"fptosi {x} to {I64}")

    def find_corner(self, base: Value, row: _Neighbor, column: _Neighbor) -> _Corner:
        f, strides = self.f, self.spec.data.strides
        at = address_of(
            self.sizes, base, strides[1:], row.index, column.index, element=self.element
        )
        outside = weight = None
        if row.inside is not None and column.inside is not None:
            outside = f.splat(f.not_(f.and_(row.inside, column.inside)), self.lanes)
        if row.weight is not None and column.weight is not None:
            weight = f.cast(f.fmul(row.weight, column.weight), self.computing)
            weight = f.splat(weight, self.lanes)
        return _Corner(at, outside, weight)

    def blend(self, corners: Sequence[_Corner], c: Value, tail: TailMask | None) -> Value:
        """A vector of channels from c on."""
        f, total = self.f, None
        for corner in corners:
            self.data.begin(corner.address)
            term = f.cast(self.data.load(c, tail), self.computing)
            if corner.outside is not None:
                term = f.select(corner.outside, 0.0, term)
            if corner.weight is not None:
                term = f.fmul(term, corner.weight)
            total = term if total is None else f.fadd(total, term)
        assert total is not None
        return total
