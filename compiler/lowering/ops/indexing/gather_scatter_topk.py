"""Elements picked and put by indices, running sums, the best along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from .....ir.dims import Dim
from .....ir.graph import Graph, Value
from .....ir.op import Op
from .....ir.ops import (
    CumSum,
    Gather,
    Gather7,
    GatherElements,
    GatherND,
    GatherND5,
    ScatterElementsUpdate3,
    ScatterNDUpdate4,
    TopK1,
)
from .....ir.ops.tensor.sorting import CumProd
from .....ir.types import normalize_axis
from .....plan.specs.checks import ORDERED
from .....plan.specs.gather_scatter import COMBINED, GatherScatterSpec
from .....plan.specs.scan_topk import ScanSpec, TopKSpec
from ....strided_view import View, broadcast_to, permute, take
from ...build.region_builder import SizeCollector
from ...build.region_lowering import RegionLowering
from ..data_movement import known_ints, known_list, rank_of

AnyGatherND = GatherND5 | GatherND


def refuse_elements(graph: Graph, node: int, op: Op) -> str | None:
    """Why no kernel scatters elements, or None."""
    dtype = graph.tensor(Value(node)).dtype
    if how := _combine(op):
        if how not in COMBINED or not getattr(op, "use_init_val", True):
            return f"a scatter that reduces by {how} without the data"
        if dtype not in ORDERED:
            return f"a scatter that reduces {dtype}"
    axis = len(graph.inputs(node)) == 4 and known_ints(graph, node, 3) is None
    return "the axis is known at run time only" if axis else None


def refuse_points(graph: Graph, node: int, op: AnyGatherND | ScatterNDUpdate4) -> str | None:
    """Why no kernel picks or puts at points given by several indices each, or None."""
    shape = graph.shape(graph.input(node, 1))
    if not shape or not isinstance(shape[-1], int) or not 1 <= shape[-1] <= 8:
        return "points of no or an unknown number of axes"
    if isinstance(op, AnyGatherND) and op.joins_batch and op.batch_dims > 1:
        return "batch axes that the result joins"
    return refuse_elements(graph, node, op) if len(graph.inputs(node)) == 3 else None


def refuse_ordered(graph: Graph, node: int, op: CumSum | TopK1) -> str | None:
    """Why no kernel ranks or sums along the axis, or None."""
    dtype = graph.tensor(graph.input(node, 0)).dtype
    if dtype not in ORDERED:
        return f"no kernel for {op.kind} of {dtype}"
    if not graph.shape(graph.input(node, 0)):
        return "a scalar has no axis"
    known = known_ints if isinstance(op, CumSum) else known_list
    if len(graph.inputs(node)) > 1 and known(graph, node, 1) is None:
        return "an input is known at run time only"
    return None


def lower_batched_gather(lowering: RegionLowering, node: int, op: Gather7 | Gather) -> None:
    """Gather where leading axes of the indices go along with those of the data."""
    data, index = (
        lowering.view(lowering.graph.input(node, 0)),
        lowering.view(lowering.graph.input(node, 1)),
    )
    (axis,) = known_list(lowering.graph, node, 2) or (0,)
    at = normalize_axis(int(axis), data.rank)
    batch = normalize_axis(int(op.batch_dims), index.rank + 1)
    more = index.rank - batch - 1
    axes = [i if i < at else None if i == at else i + more for i in range(data.rank)]
    out = lowering.result(Value(node))
    _step(
        lowering,
        node,
        _broadcast_for_indices(data, out.shape, axes),
        [
            _broadcast_along(
                index, out.shape, [i if i < batch else at + i - batch for i in range(index.rank)]
            )
        ],
        out,
        out_of_range=op.out_of_range if isinstance(op, Gather) else "zeros",
    )


def lower_gather_elements(lowering: RegionLowering, node: int, op: GatherElements) -> None:
    """An index for every element of the result."""
    data, index = (
        lowering.view(lowering.graph.input(node, 0)),
        lowering.view(lowering.graph.input(node, 1)),
    )
    at = normalize_axis(int(op.axis), data.rank)
    moving = _broadcast_for_indices(data, index.shape, _all_but(data, at))
    _step(lowering, node, moving, [index], lowering.result(Value(node)))


def lower_gather_points(lowering: RegionLowering, node: int, op: AnyGatherND) -> None:
    """GatherND: the last axis of the indices is a point in the data."""
    data, index = (
        lowering.view(lowering.graph.input(node, 0)),
        lowering.view(lowering.graph.input(node, 1)),
    )
    out = lowering.result(Value(node))
    moving, indices = _points(data, index, out.shape, int(op.batch_dims))
    _step(lowering, node, moving, indices, out)


def lower_scatter_elements(lowering: RegionLowering, node: int, op: ScatterElementsUpdate3) -> None:
    """An index for every element of the updates."""
    index, updates = (lowering.view(lowering.graph.input(node, port)) for port in (1, 2))
    (axis,) = known_list(lowering.graph, node, 3) or (0,)
    out = _copy_data(lowering, node)
    moving = _broadcast_for_indices(
        out, index.shape, _all_but(out, normalize_axis(int(axis), out.rank))
    )
    combine = _combine(op)
    _step(lowering, node, updates, [index], moving, put=True, combine=combine)


def lower_scatter_points(lowering: RegionLowering, node: int, op: ScatterNDUpdate4) -> None:
    """ScatterND: the last axis of the indices is a point in the data."""
    index, updates = (lowering.view(lowering.graph.input(node, port)) for port in (1, 2))
    out = _copy_data(lowering, node)
    moving, indices = _points(out, index, (*index.shape[:-1], *out.shape[index_depth(index) :]), 0)
    shape = moving.shape[: len(moving.shape) - len(indices)]
    data, combine = broadcast_to(updates, shape), _combine(op)
    _step(lowering, node, data, indices, moving, put=True, combine=combine)


def lower_scatter_slices(lowering: RegionLowering, node: int, op: Op) -> None:
    """ScatterUpdate: an index for every slice of the updates along one axis."""
    index, updates = (lowering.view(lowering.graph.input(node, port)) for port in (1, 2))
    (axis,) = known_list(lowering.graph, node, 3) or (0,)
    out = _copy_data(lowering, node)
    at = normalize_axis(int(axis), out.rank)
    more = index.rank - 1
    shape = (*out.shape[:at], *index.shape, *out.shape[at + 1 :])
    axes = [i if i < at else None if i == at else i + more for i in range(out.rank)]
    spread = _broadcast_along(index, shape, [at + i for i in range(index.rank)])
    _step(
        lowering,
        node,
        broadcast_to(updates, shape),
        [spread],
        _broadcast_for_indices(out, shape, axes),
        put=True,
    )


def lower_scan(lowering: RegionLowering, node: int, op: CumSum) -> None:
    """CumSum and CumProd along a known axis."""
    value = lowering.graph.input(node, 0)
    axis = int((known_list(lowering.graph, node, 1) or [0])[0])
    order = _move_axis_last(rank_of(lowering.graph, value), axis)
    data, out = permute(lowering.view(value), order), permute(lowering.result(Value(node)), order)
    sizes = SizeCollector()
    spec = ScanSpec(
        sizes.all(data.shape[:-1]),
        sizes(data.shape[-1]),
        sizes.operand(data, data.strides),
        sizes.operand(out, out.strides),
        product=isinstance(op, CumProd),
        exclusive=op.exclusive,
        reverse=op.reverse,
    )
    work = lowering.vectors(data.shape, data.dtype) * 8
    lowering.region.kernel(
        spec, sizes, [data, out], work, lowering.name(node), lowering.sources(node)
    )


def lower_rank(lowering: RegionLowering, node: int, op: TopK1) -> None:
    """TopK along its axis."""
    value = lowering.graph.input(node, 0)
    order = _move_axis_last(rank_of(lowering.graph, value), op.axis)
    data = permute(lowering.view(value), order)
    values, indices = (permute(lowering.result(Value(node, i)), order) for i in (0, 1))
    sizes, wanted = SizeCollector(), known_ints(lowering.graph, node, 1)
    spec = TopKSpec(
        sizes.all(data.shape[:-1]),
        sizes(data.shape[-1]),
        sizes(values.shape[-1]),
        *(sizes.operand(v, v.strides) for v in (data, values, indices)),
        largest=op.mode.lower() == "max",
        by_index=op.sort.lower() == "index",
        most=None if wanted is None else int(wanted[0]),
    )
    work = lowering.vectors(data.shape, data.dtype) * 16
    views = [data, values, indices]
    lowering.region.kernel(spec, sizes, views, work, lowering.name(node), lowering.sources(node))


def _combine(op: Op) -> str:
    """How a scatter joins updates with the data: "" for not at all."""
    how = str(getattr(op, "reduction", "none")).lower()
    return {"none": "", "add": "sum", "mul": "prod"}.get(how, how)


def index_depth(index: View) -> int:
    """How many axes a point has."""
    depth = index.shape[-1]
    assert isinstance(depth, int)
    return depth


def _move_axis_last(rank: int, axis: int) -> list[int]:
    """The order of axes with one moved to the end."""
    at = normalize_axis(axis, rank)
    return [*(i for i in range(rank) if i != at), at]


def _all_but(view: View, axis: int) -> list[int | None]:
    return [None if i == axis else i for i in range(view.rank)]


def _broadcast_along(view: View, shape: Sequence[Dim], axes: Sequence[int | None]) -> View:
    """The view over `shape`: its axis i follows axis axes[i], with stride 0 elsewhere."""
    strides: list[Dim] = [0] * len(shape)
    for stride, axis in zip(view.strides, axes, strict=True):
        if axis is not None:
            strides[axis] = stride
    return View(view.buffer, view.dtype, tuple(shape), tuple(strides), view.offset)


def _broadcast_for_indices(view: View, shape: Sequence[Dim], axes: Sequence[int | None]) -> View:
    """As `_broadcast_along`, with the axes that go nowhere at the end: indices pick from them."""
    base = _broadcast_along(view, shape, axes)
    picked = [i for i, axis in enumerate(axes) if axis is None]
    sizes, strides = [view.shape[i] for i in picked], [view.strides[i] for i in picked]
    return View(
        view.buffer, view.dtype, (*base.shape, *sizes), (*base.strides, *strides), view.offset
    )


def _points(view: View, index: View, shape: Sequence[Dim], batch: int) -> tuple[View, list[View]]:
    """What is picked from (put into) at points, and the index for each axis of a point."""
    depth, more = index_depth(index), index.rank - 1
    axes = [
        i if i < batch else None if i < batch + depth else i - batch - depth + more
        for i in range(view.rank)
    ]
    one = [take(index, more, i, 1) for i in range(depth)]
    axes_of_index = [*range(more), None]
    return _broadcast_for_indices(view, shape, axes), [
        _broadcast_along(i, shape, axes_of_index) for i in one
    ]


def _copy_data(lowering: RegionLowering, node: int) -> View:
    """The result, with the data in it."""
    out = lowering.result(Value(node))
    lowering.copy(
        lowering.view(lowering.graph.input(node, 0)),
        out,
        lowering.name(node),
        lowering.sources(node),
    )
    return out


def _step(
    lowering: RegionLowering,
    node: int,
    data: View,
    indices: Sequence[View],
    out: View,
    *,
    put: bool = False,
    out_of_range: str = "error",
    combine: str = "",
) -> None:
    """The kernel. What is picked from or put into ends with the picked axes."""
    moving = out if put else data
    depth = moving.rank - len(indices)
    sizes = SizeCollector()
    spec = GatherScatterSpec(
        sizes.all(moving.shape[:depth]),
        sizes.all(moving.shape[depth:]),
        sizes.operand(data, data.strides),
        tuple(sizes.operand(i, i.strides) for i in indices),
        sizes.operand(out, out.strides),
        put,
        out_of_range,
        combine,
    )
    # Where rows are put whole, workers share their columns; else one puts all.
    alone = put and any(depth == 0 or i.strides[depth - 1] != 0 for i in indices)
    work = 1 if alone else lowering.vectors(moving.shape[:depth], out.dtype)
    views = [data, *indices, out]
    lowering.region.kernel(spec, sizes, views, work, lowering.name(node), lowering.sources(node))
