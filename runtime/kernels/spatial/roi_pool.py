"""ROIPooling: the largest element of a bin of a region, or one bilinear sample of it.

A task is one bin of one region. Vectors run along the channels, so that maxima stay in registers.
Every operation is rounded as `ROIPooling.evaluate` rounds it, so the bits are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.specs.base import Size
from ....plan.specs.roi_pool import ROIPoolSpec
from ....plan.target import Target
from ...llvmir.builder import Module
from ...llvmir.kernel_entry import READ, WRITE, OpenKernel, open_kernel
from ...llvmir.values import F32, F64, I64, Value, bits_of, vec
from ..emit.casts import memory_type
from ..emit.contract import Kernel
from ..emit.scalar_program import round_to
from ..emit.strided_loops import RuntimeSizes, address_of, emit_vectors
from ..emit.tail_mask import TailMask
from .region_bins import (
    CHANNEL_VECTORS,
    base_pointers,
    channel_lanes,
    emit_bins,
    require_image,
)

# Corners beyond this are limited to it, so that sums of a few fit into 64 bits.
_MAX_CORNER = 1 << 61


def generate(spec: ROIPoolSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of pooled regions."""
    module = Module(target)
    entry = open_kernel(module, symbol, [READ, READ, WRITE], spec.runtime_dims)
    _ROIPool(spec, entry).run()
    entry.function.ret(0)
    return Kernel(symbol, module.text())


@dataclass(frozen=True)
class _SamplePoint:
    """A sample along one axis: whether it is inside the image, the elements before and behind it,
    and how far it is from the one before."""

    inside: Value
    before: Value
    behind: Value
    distance: Value


class _ROIPool:
    def __init__(self, spec: ROIPoolSpec, entry: OpenKernel) -> None:
        self.spec, self.entry, self.f = spec, entry, entry.function
        self.sizes = RuntimeSizes(self.f, entry.dims)
        self.element = memory_type(spec.data.dtype)
        self.computing = F64 if spec.data.dtype is DType.f64 else F32
        self.lanes = self.f.target.lanes(bits_of(self.computing))
        self.data_at, self.rois_at, self.out_at = base_pointers(self.sizes, entry, spec.operands())
        self.data, self.out = channel_lanes(self.sizes, (spec.data, spec.out), self.lanes)

    def run(self) -> None:
        f, spec, sizes = self.f, self.spec, self.sizes
        bins = (spec.out_height, spec.out_width)
        channels = sizes.value(spec.channels)
        for region, i, j in emit_bins(sizes, self.entry, spec.regions, *bins):
            number, *corners = (self.column(region, k) for k in range(5))
            image = f.select(f.fcmp("uno", number, number), -1, f.cast(number, I64))
            require_image(sizes, self.entry, region, image, spec.images)
            base = self.address(self.data_at, spec.data.strides, image)
            self.out.begin(self.address(self.out_at, spec.out.strides, region, i, j), reads=False)
            x, y = (corners[0], corners[2]), (corners[1], corners[3])
            if spec.samples:
                down = self.sample(*y, i, bins[0], spec.height)
                across = self.sample(*x, j, bins[1], spec.width)
                for c, tails in emit_vectors(f, channels, self.lanes, CHANNEL_VECTORS):
                    self.blend(base, down, across, c, tails)
            else:
                rows = self.span(*y, i, bins[0], spec.height)
                columns = self.span(*x, j, bins[1], spec.width)
                for c, tails in emit_vectors(f, channels, self.lanes, CHANNEL_VECTORS):
                    self.take_max(base, rows, columns, c, tails)

    def address(self, pointer: Value, strides: Sequence[Size], *positions: Value) -> Value:
        return address_of(self.sizes, pointer, strides, *positions, element=self.element)

    def column(self, region: Value, k: int) -> Value:
        """A number of a region, in the computing type."""
        at = self.address(self.rois_at, self.spec.rois.strides, region, self.f.as_value(k, I64))
        return self.f.cast(self.f.load(self.element, at), self.computing)

    # -- the largest element --------------------------------------------------------------------

    def span(
        self, first: Value, last: Value, n: Value, bins: int, size: Size
    ) -> tuple[Value, Value]:
        """Begin and end of bin n along one axis, inside the image."""
        f, edge = self.f, self.sizes.value(size)
        low, high = self.pixel(first), self.pixel(last)
        count = f.smax(f.add(f.sub(high, low), 1), 1)
        width = f.fdiv(f.cast(count, F32), float(bins))
        begin = round_to(f, f.fmul(f.cast(n, F32), width), "floor")
        end = round_to(f, f.fmul(f.cast(f.add(n, 1), F32), width), "ceil")
        begin, end = (f.smin(f.smax(f.add(f.cast(v, I64), low), 0), edge) for v in (begin, end))
        return begin, end

    def pixel(self, corner: Value) -> Value:
        """A corner in pixels, halves rounded away from zero."""
        f = self.f
        x = f.fmul(corner, self.spec.scale)
        up, down = round_to(f, f.fadd(x, 0.5), "floor"), round_to(f, f.fsub(x, 0.5), "ceil")
        rounded = f.cast(f.select(f.fcmp("olt", x, 0.0), down, up), I64)
        return f.smax(f.smin(rounded, _MAX_CORNER), -_MAX_CORNER)

    def take_max(
        self,
        base: Value,
        rows: tuple[Value, Value],
        columns: tuple[Value, Value],
        c: Value,
        tails: Sequence[TailMask | None],
    ) -> None:
        """Store the largest elements of vectors of channels from c on, or 0 for an empty bin."""
        f, strides = self.f, self.spec.data.strides
        kind = vec(self.computing, self.lanes)
        found = [f.var(kind, -float("inf")) for _ in tails]
        with f.range(*rows, unroll=1) as y, f.range(*columns, unroll=1) as x:
            self.data.begin(self.address(base, strides[1:], y, x))
            for u, (most, tail) in enumerate(zip(found, tails, strict=True)):
                most.set(f.maximum(most.get(), self.load(f.add(c, u * self.lanes), tail)))
        filled = f.and_(f.icmp("slt", *rows), f.icmp("slt", *columns))
        for u, (most, tail) in enumerate(zip(found, tails, strict=True)):
            self.store(f.select(filled, most.get(), 0.0), f.add(c, u * self.lanes), tail)

    # -- bilinear samples -----------------------------------------------------------------------

    def sample(self, low: Value, high: Value, n: Value, bins: int, size: Size) -> _SamplePoint:
        """Sample n along one axis."""
        f, bottom = self.f, self.f.sub(self.sizes.value(size), 1)
        last = f.cast(bottom, self.computing)
        if bins == 1:
            at = f.fdiv(f.fmul(f.fadd(low, high), last), 2.0)
        else:
            step = f.fdiv(f.fmul(f.fsub(high, low), last), float(bins - 1))
            at = f.fadd(f.fmul(f.cast(n, self.computing), step), f.fmul(low, last))
            # Rounding must not move the last sample out of the region.
            at = f.select(f.icmp("eq", n, bins - 1), f.fmul(high, last), at)
        inside = f.and_(f.fcmp("oge", at, 0.0), f.fcmp("ole", at, last))
        floor = round_to(f, at, "floor")
        behind = f.smin(f.cast(round_to(f, at, "ceil"), I64), bottom)
        return _SamplePoint(inside, f.cast(floor, I64), behind, f.fsub(at, floor))

    def blend(
        self,
        base: Value,
        down: _SamplePoint,
        across: _SamplePoint,
        c: Value,
        tails: Sequence[TailMask | None],
    ) -> None:
        """Store the samples of vectors of channels from c on, or 0 outside the image."""
        f, kind = self.f, vec(self.computing, self.lanes)
        found = [f.var(kind, 0.0) for _ in tails]
        with f.if_(f.and_(down.inside, across.inside)):
            above, below = (
                self.blend_row(base, row, across, c, tails) for row in (down.before, down.behind)
            )
            for result, a, b in zip(found, above, below, strict=True):
                result.set(f.fadd(a, f.fmul(f.fsub(b, a), down.distance)))
        for u, (result, tail) in enumerate(zip(found, tails, strict=True)):
            self.store(result.get(), f.add(c, u * self.lanes), tail)

    def blend_row(
        self,
        base: Value,
        row: Value,
        across: _SamplePoint,
        c: Value,
        tails: Sequence[TailMask | None],
    ) -> list[Value]:
        """What a row has at the sample's column."""
        f, strides = self.f, self.spec.data.strides
        ends: list[list[Value]] = []
        for column in (across.before, across.behind):
            self.data.begin(self.address(base, strides[1:], row, column))
            ends.append([self.load(f.add(c, u * self.lanes), tail) for u, tail in enumerate(tails)])
        return [
            f.fadd(left, f.fmul(f.fsub(right, left), across.distance))
            for left, right in zip(*ends, strict=True)
        ]

    # -- vectors --------------------------------------------------------------------------------

    def load(self, c: Value, tail: TailMask | None) -> Value:
        return self.f.cast(self.data.load(c, tail), self.computing)

    def store(self, value: Value, c: Value, tail: TailMask | None) -> None:
        self.out.store(self.f.cast(value, self.element), c, tail)
