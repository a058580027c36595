"""Regions of feature maps pooled from bilinear samples, vectors along the channels.

A task is one bin of one region: its samples are walked for a few vectors of channels at a time, so
that sums stay in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.specs.base import Size
from ....plan.specs.roi_align import ROIAlignSpec
from ....plan.target import Target
from ...llvmir.builder import Module, StackVariable
from ...llvmir.kernel_entry import READ, WRITE, OpenKernel, open_kernel
from ...llvmir.values import F32, I64, Value, vec
from ..emit.casts import memory_type
from ..emit.contract import Kernel
from ..emit.scalar_program import round_to
from ..emit.strided_loops import Lane, RuntimeSizes, address_of, base_pointer, emit_vectors
from ..emit.tail_mask import TailMask
from .region_bins import CHANNEL_VECTORS, emit_bins, require_image

_LOWEST = -float("inf")


def generate(spec: ROIAlignSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of pooled regions."""
    module = Module(target)
    entry = open_kernel(module, symbol, [READ, READ, READ, WRITE], spec.runtime_dims)
    _Regions(spec, entry).run()
    entry.function.ret(0)
    return Kernel(symbol, module.text())


@dataclass(frozen=True)
class _Side:
    """A bin along one axis: where it begins, how long it is, how many samples it has, and the
    size of the image there."""

    start: Value
    length: Value
    count: Value
    size: Value


class _Regions:
    def __init__(self, spec: ROIAlignSpec, entry: OpenKernel) -> None:
        self.spec, self.entry, f = spec, entry, entry.function
        self.f, self.sizes = f, RuntimeSizes(f, entry.dims)
        self.pointers = [
            base_pointer(f, self.sizes, p, o)
            for p, o in zip(entry.buffers, spec.operands(), strict=True)
        ]
        self.lanes = f.target.lanes(32)
        self.data, self.out = (
            Lane(f, self.sizes, DType.f32, o.strides[3], self.lanes) for o in (spec.data, spec.out)
        )

    def run(self) -> None:
        f, spec = self.f, self.spec
        height, width = spec.out_height, spec.out_width
        for region, i, j in emit_bins(self.sizes, self.entry, spec.regions, height, width):
            image = self.image(region)
            corners = [self.corner(region, k) for k in range(4)]
            y = self.side(corners[1], corners[3], i, height, spec.height)
            x = self.side(corners[0], corners[2], j, width, spec.width)
            base = self.address(self.pointers[0], spec.data.strides, image)
            to = self.address(self.pointers[3], spec.out.strides, region, i, j)
            self.out.begin(to, reads=False)
            channels = self.sizes.value(spec.channels)
            for c, tails in emit_vectors(f, channels, self.lanes, CHANNEL_VECTORS):
                self.bin(base, y, x, c, tails)

    def address(self, pointer: Value, strides: Sequence[Size], *positions: Value) -> Value:
        return address_of(self.sizes, pointer, strides, *positions, element=F32)

    def image(self, region: Value) -> Value:
        """The region's image, which there is."""
        f, spec = self.f, self.spec
        type_, strides = memory_type(spec.image_indices.dtype), spec.image_indices.strides
        address = address_of(self.sizes, self.pointers[2], strides, region, element=type_)
        found = f.cast(f.load(type_, address), I64, signed_=spec.image_indices.dtype.is_signed)
        require_image(self.sizes, self.entry, region, found, spec.images)
        return found

    def corner(self, region: Value, k: int) -> Value:
        f, spec = self.f, self.spec
        at = self.address(self.pointers[1], spec.rois.strides, region, f.as_value(k, I64))
        moved = (
            f.fadd(f.load(F32, at), spec.offset_before) if spec.offset_before else f.load(F32, at)
        )
        scaled = f.fmul(moved, spec.scale)
        return f.fsub(scaled, spec.offset_after) if spec.offset_after else scaled

    def side(self, first: Value, last: Value, n: Value, bins: int, size: Size) -> _Side:
        f, spec = self.f, self.spec
        extent = f.fsub(last, first)
        extent = f.max_or(extent, spec.min_side) if spec.min_side else extent
        length = f.fdiv(extent, float(bins))
        start = f.fadd(first, f.fmul(f.cast(n, F32), length))
        if spec.sampling_ratio:
            count = f.as_value(spec.sampling_ratio, I64)
        else:
            count = f.smax(self.float_to_i64(round_to(f, length, "ceil")), 1)
        return _Side(start, length, count, self.sizes.value(size))

    def float_to_i64(self, x: Value) -> Value:
        """A float as an integer, whatever it is."""
        return self.f.call("llvm.fptosi.sat.i64.f32", I64, x)

    # -- one bin ------------------------------------------------------------------------------

    def bin(
        self, base: Value, y: _Side, x: _Side, c: Value, tails: Sequence[TailMask | None]
    ) -> None:
        """Vectors of channels from c on."""
        f, most = self.f, self.spec.takes_max
        kind = vec(F32, self.lanes)
        accumulators = [f.var(kind, f.as_value(_LOWEST if most else 0.0, kind)) for _ in tails]
        with f.range(0, y.count, unroll=1) as a:
            down = self.sample(y, a)
            with f.range(0, x.count, unroll=1) as b:
                across = self.sample(x, b)
                with f.if_(f.and_(down.inside, across.inside)) as branch:
                    self.take(base, down, across, c, tails, accumulators)
                    branch.else_()
                    if most:
                        for h in accumulators:
                            h.set(f.maximum(h.get(), f.as_value(0.0, kind)))
        total = f.cast(f.mul(y.count, x.count), F32)
        for u, (h, tail) in enumerate(zip(accumulators, tails, strict=True)):
            found = h.get() if most else f.fdiv(h.get(), f.splat(total, self.lanes))
            self.out.store(found, f.add(c, u * self.lanes), tail)

    def sample(self, side: _Side, k: Value) -> _Sample:
        """Sample k of a bin along one axis."""
        f = self.f
        fraction = f.fdiv(f.fadd(f.cast(k, F32), 0.5), f.cast(side.count, F32))
        at = f.fadd(side.start, f.fmul(fraction, side.length))
        last = f.sub(side.size, 1)
        inside = f.and_(f.fcmp("oge", at, -1.0), f.fcmp("ole", at, f.cast(side.size, F32)))
        inside = f.and_(inside, f.icmp("sgt", side.size, 0))
        clamped = f.max_or(at, 0.0)
        low = f.smax(f.smin(self.float_to_i64(round_to(f, clamped, "floor")), last), 0)
        high = f.smin(f.add(low, 1), last)
        # At the last element there is not another to go to.
        weight = f.fsub(clamped, f.cast(low, F32))
        weight = f.select(f.icmp("sge", low, last), 0.0, weight)
        return _Sample(inside, (low, high), (f.fsub(1.0, weight), weight))

    def take(
        self,
        base: Value,
        down: _Sample,
        across: _Sample,
        c: Value,
        tails: Sequence[TailMask | None],
        accumulators: Sequence[StackVariable],
    ) -> None:
        """Add a sample's four weighted corners, or take the largest of them."""
        f, strides = self.f, self.spec.data.strides
        for row, weight in zip(down.positions, down.weights, strict=True):
            for column, other in zip(across.positions, across.weights, strict=True):
                by = f.splat(f.fmul(weight, other), self.lanes)
                self.data.begin(self.address(base, strides[1:], row, column))
                for u, (h, tail) in enumerate(zip(accumulators, tails, strict=True)):
                    value = self.data.load(f.add(c, u * self.lanes), tail)
                    if self.spec.takes_max:
                        h.set(f.maximum(h.get(), f.fmul(value, by)))
                    else:
                        h.set(f.fma(value, by, h.get()))


@dataclass(frozen=True)
class _Sample:
    """Whether a sample counts, the elements around it and their weights."""

    inside: Value
    positions: tuple[Value, Value]
    weights: tuple[Value, Value]
