"""What kernels of pooled regions share: bins as tasks, and images that there are."""

from __future__ import annotations

from collections.abc import Iterator

from ....plan.specs.base import GATHER_OUT_OF_RANGE, Size
from ...llvmir.kernel_entry import OpenKernel, share
from ...llvmir.values import Value
from ..emit.strided_loops import RuntimeSizes

# Vectors of channels whose results stay in registers at a time.
CHANNEL_VECTORS = 4


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
