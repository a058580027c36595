"""Kernel steps: buffers and sizes fit the spec's operands, constants the layouts it reads."""

from __future__ import annotations

from collections.abc import Sequence

from ..packing.layouts import PackedB, PackedConv, panels
from ..plan import CONSTANT, Buffer, KernelStep, PlanConstant, Region
from ..specs.base import Spec, verified_spaces
from .buffers import check_index, plan_error
from .spec_ranges import check_ranges


def verify_kernel(
    region: Region, constants: Sequence[PlanConstant], step: KernelStep, where: str
) -> tuple[list[int], list[int]]:
    """(buffers read, buffers written)."""
    spec = step.spec
    check_ranges(spec, where)
    operands = spec.operands()
    verified_spaces(spec)
    if len(step.buffers) != len(operands):
        raise plan_error("a step has not one buffer per operand", where, len(step.buffers))
    for d in step.dims:
        check_index(d, len(region.dims), where, "size")
    if spec.runtime_dims > len(step.dims):
        raise plan_error("a kernel reads a size the step does not give", where, spec.runtime_dims)
    for n, (b, operand) in enumerate(zip(step.buffers, operands, strict=True)):
        check_index(b, len(region.buffers), where, "buffer")
        buffer = region.buffers[b]
        if buffer.dtype is not operand.dtype:
            got = f"operand {n} is {operand.dtype}, buffer {b} {buffer.dtype}"
            raise plan_error("operand and buffer differ in element type", where, got)
        _verify_layout(constants, spec, n, buffer, where)
    count = spec.output_count()
    if not 0 < count <= len(operands):
        raise plan_error("a kernel writes nothing", where, count)
    return list(step.buffers[:-count]), list(step.buffers[-count:])


def _verify_layout(
    constants: Sequence[PlanConstant], spec: Spec, n: int, buffer: Buffer, where: str
) -> None:
    """A packed constant has the layout and the sizes that operand `n` of the kernel reads."""
    layout = constants[buffer.index].layout if buffer.kind == CONSTANT else None
    packed = spec.packed_operands().get(n)
    wanted = None if packed is None else packed.layout
    # Filters of one tap are panels of a plain matrix.
    point = False
    if isinstance(wanted, PackedB) and not wanted.column_sums:
        point = layout == PackedConv(wanted.nr, kr=wanted.kr)
    if layout != wanted and not point:
        raise plan_error("a constant's layout is not what its reader wants", where, layout)
    if layout is None or packed is None:
        return
    made = constants[buffer.index]
    matrices, k, n_ = panels(made.shape, layout, made.transposed)
    if point and made.shape[1:2] == (packed.k,):
        # Filters are padded to whole cells of channels.
        k = made.shape[1]
    expected = (matrices if packed.matrices is None else packed.matrices, packed.k, packed.n)
    if expected != (matrices, k, n_):
        raise plan_error("a packed constant has other sizes", where, expected)
