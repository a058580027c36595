"""What kernels of pooled regions share: bins as tasks, vectors along the channels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....plan.specs.base import GATHER_OUT_OF_RANGE, Size
from ...llvmir.builder import Function
from ...llvmir.kernel_entry import OpenKernel, share
from ...llvmir.values import Value
from ..emit.strided_loops import RuntimeSizes
from ..emit.tail_mask import TailMask, tail_mask

_UNROLL = 4


def emit_bins(
    sizes: RuntimeSizes, entry: OpenKernel, regions: Size, height: int, width: int
) -> Iterator[tuple[Value, Value, Value]]:
    """Write the loop's body for every (region, row, column) of this worker's bins."""
    f, bins = sizes.f, height * width
    lo, hi = share(f, f.mul(sizes.value(regions), bins), entry.worker, entry.workers)
    with f.range(lo, hi, unroll=1) as task:
        region, bin_ = f.udiv(task, bins), f.urem(task, bins)
        yield region, f.udiv(bin_, width), f.urem(bin_, width)


def require_image(
    sizes: RuntimeSizes, entry: OpenKernel, region: Value, found: Value, images: Size
) -> None:
    """Return GATHER_OUT_OF_RANGE where image `found` of the region is not there."""
    f = sizes.f
    with f.if_(f.icmp("uge", found, sizes.value(images))):
        f.store(region, entry.scratch)
        f.ret(GATHER_OUT_OF_RANGE)


def emit_channels(
    f: Function, channels: Value, lanes: int
) -> Iterator[tuple[Value, Sequence[TailMask | None]]]:
    """Write the loops' bodies for a few vectors of channels at a time, for one, and for the rest:
    the first channel, and the tail mask of each vector."""
    block = lanes * _UNROLL
    block_end = f.mul(f.udiv(channels, block), block)
    with f.range(0, block_end, block, unroll=1) as c:
        yield c, [None] * _UNROLL
    with f.range(block_end, channels, lanes, unroll=1) as c:
        left = f.sub(channels, c)
        with f.if_(f.icmp("sge", left, lanes)) as branch:
            yield c, [None]
            branch.else_()
            yield c, [tail_mask(f, lanes, left)]
