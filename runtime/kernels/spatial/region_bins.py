"""What kernels of pooled regions and of samples share: operands, bins as tasks, images that there
are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....plan.specs.base import GATHER_OUT_OF_RANGE, Operand, Size
from ...llvmir.kernel_entry import OpenKernel, share
from ...llvmir.values import Value
from ..emit.strided_loops import Lane, RuntimeSizes, base_pointer

# Vectors of channels whose results stay in registers at a time.
CHANNEL_VECTORS = 4


def base_pointers(
    sizes: RuntimeSizes, entry: OpenKernel, operands: Sequence[Operand]
) -> list[Value]:
    """The address of element (0, 0, ...) of each operand."""
    pairs = zip(entry.buffers, operands, strict=True)
    return [base_pointer(sizes.f, sizes, pointer, operand) for pointer, operand in pairs]


def channel_lanes(sizes: RuntimeSizes, operands: Sequence[Operand], lanes: int) -> list[Lane]:
    """Loads and stores of vectors of channels, the last of four axes."""
    return [Lane(sizes.f, sizes, o.dtype, o.strides[3], lanes) for o in operands]


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
