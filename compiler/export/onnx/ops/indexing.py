"""Elements gathered and scattered."""

from __future__ import annotations

from .....ir.dtype import DType
from .....ir.ops import (
    Gather,
    GatherElements,
    GatherND,
    GatherND5,
    ScatterElementsUpdate,
    ScatterNDUpdate,
)
from .....ir.types import normalize_axis
from ..context import ExportContext, Exported, ExportFunction

_REDUCTIONS = {"none": None, "sum": "add", "prod": "mul", "min": "min", "max": "max"}


def _indices(n: ExportContext, port: int) -> str:
    """Indices as i64, unless they are i32 already."""
    return n.input(port) if n.dtype(port) is DType.i32 else n.input_as(port, DType.i64)


def _gather(n: ExportContext) -> Exported:
    """Indices out of range are an error in ONNX. Models do not have them; what the pipeline's
    rules make of other operations may, and reads zeros there."""
    op = n.op
    if n.decomposed and isinstance(op, Gather) and op.out_of_range == "zeros":
        return _gather_or_zero(n, op)
    return _gather_at(n, _indices(n, 1))


def _gather_or_zero(n: ExportContext, op: Gather) -> str:
    rank, own = n.rank(0), n.rank(1)
    axis = n.axis_of(2, rank)
    indices, zero = n.input_as(1, DType.i64), n.int_scalar(0)
    size = n.add("Reshape", n.size(n.input(0), axis), n.ints([]))
    known = n.known_ints(1)
    limit = n.fixed_shape(0)
    if (
        known is not None
        and limit is not None
        and all(-limit[axis] <= v < limit[axis] for v in known)
    ):
        return _gather_at(n, indices)
    least = n.add("GreaterOrEqual", indices, n.add("Neg", size))
    below = n.add("And", least, n.add("Less", indices, size))
    found = _gather_at(n, n.add("Where", below, indices, zero))
    # The mask is aligned to the axes of the indices.
    behind = rank - 1 - axis
    batch = normalize_axis(op.batch_dims, own + 1) if op.batch_dims else 0
    between = list(range(batch, axis))
    mask = n.add("Unsqueeze", below, n.ints(between)) if between else below
    if behind:
        mask = n.add("Unsqueeze", mask, n.ints(range(-behind, 0)))
    return n.add("Where", mask, found, n.scalar(0, n.dtype(0)))


def _gather_at(n: ExportContext, indices: str) -> str:
    batch = int(getattr(n.op, "batch_dims", 0))
    axes = n.ints_of(2, "an axis")
    if not batch:
        return n.add("Gather", n.input(0), indices, axis=axes[0])
    rank = n.rank(0)
    batch = normalize_axis(batch, n.rank(1) + 1)
    axis = normalize_axis(axes[0], rank)
    if n.dtype(1) is DType.i32:
        indices = n.cast(indices, DType.i64)
    # GatherND picks along the axis behind the batch.
    order = [*range(batch), axis, *(a for a in range(batch, rank) if a != axis)]
    indices = n.add("Unsqueeze", indices, n.ints([-1]))
    found = n.add("GatherND", n.transpose(n.input(0), order), indices, batch_dims=batch)
    # Axes now: batch, indices, then what was between batch and axis, then the rest.
    own, between = n.rank(1) - batch, axis - batch
    out = [*range(batch), *range(batch + own, batch + own + between)]
    out += [*range(batch, batch + own), *range(batch + own + between, rank - 1 + own)]
    return n.transpose(found, out)


def _gather_elements(n: ExportContext) -> Exported:
    axis = n.cast_op(GatherElements).axis
    return n.add("GatherElements", n.input(0), _indices(n, 1), axis=axis)


def _gather_nd(n: ExportContext) -> Exported:
    op = n.op
    assert isinstance(op, GatherND5 | GatherND)
    found = n.add("GatherND", n.input(0), n.input_as(1, DType.i64), batch_dims=op.batch_dims)
    if isinstance(op, GatherND) or op.batch_dims < 2:
        return found
    # Before operation set 8 the batch is one axis.
    tail = n.slice(n.add("Shape", found), op.batch_dims, 1 << 31, 0)
    return n.add("Reshape", found, n.add("Concat", n.ints([-1]), tail, axis=0))


def _scatter_update(n: ExportContext) -> Exported:
    """Slices along an axis, which ScatterND writes along the first one."""
    rank, own = n.rank(0), n.rank(1)
    axis = n.axis_of(3, rank)
    order = [axis, *(a for a in range(rank) if a != axis)]
    count = n.rank(2)
    moved = [*range(axis, axis + own), *range(axis), *range(axis + own, count)]
    indices = n.add("Unsqueeze", n.input_as(1, DType.i64), n.ints([-1]))
    updates = n.transpose(n.input(2), moved)
    found = n.add("ScatterND", n.transpose(n.input(0), order), indices, updates)
    return n.transpose(found, [order.index(a) for a in range(rank)])


def _reduction(n: ExportContext, op_type: str, name: str) -> str | None:
    found = _REDUCTIONS.get(name.lower(), "")
    if found == "":
        raise n.error(f"the reduction {name}")
    if found is not None and not n.has_attribute(op_type, "reduction"):
        raise n.error("a reduction, in this operator set")
    return found


def _scatter_elements(n: ExportContext) -> Exported:
    op = n.op
    axis = n.axis_of(3, n.rank(0))
    reduction = None
    if isinstance(op, ScatterElementsUpdate):
        reduction = _reduction(n, "ScatterElements", op.reduction)
        if reduction is not None and not op.use_init_val:
            raise n.error("a reduction without the initial values")
    inputs = n.input(0), _indices(n, 1), n.input(2)
    return n.add("ScatterElements", *inputs, axis=axis, reduction=reduction)


def _scatter_nd(n: ExportContext) -> Exported:
    op = n.op
    reduction = None
    updates = n.input(2)
    if isinstance(op, ScatterNDUpdate):
        name = op.reduction.lower()
        if name == "sub":
            name, updates = "sum", n.add("Neg", updates)
        reduction = _reduction(n, "ScatterND", name)
    indices = n.input_as(1, DType.i64)
    return n.add("ScatterND", n.input(0), indices, updates, reduction=reduction)


EXPORTERS: dict[str, ExportFunction] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterUpdate": _scatter_update,
    "ScatterElementsUpdate": _scatter_elements,
    "ScatterNDUpdate": _scatter_nd,
}
