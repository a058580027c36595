"""Operations that move data: arithmetic on views where strides can say it, copies elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ....ir.dims import Dim, Expr
from ....ir.graph import Graph, Value
from ....ir.op import Op
from ....ir.ops import (
    Concat,
    DeferredConstant,
    Gather,
    Gather1,
    Gather7,
    Gemm,
    MatMul,
    MatMulInteger,
)
from ....ir.ops import shape_inference as rules
from ....ir.slice_bounds import normalize_start
from ....ir.types import normalize_axis
from ....plan.packing.layouts import PackedB
from ....plan.packing.panel_params import accumulator, cell_depth, dot_factor_dtype
from ....plan.specs.gather_scatter import CELL_BITS, GatherSpec
from ...compressed_weights import find_weight_of_table
from ...strided_view import (
    View,
    broadcast_to,
    divide,
    has_same_strides,
    merged_axes,
    permute,
    reshape,
    runs_of_vectors,
    split_axis,
    take,
)
from ..build.region_builder import SizeCollector
from ..build.region_lowering import RegionLowering
from .matmul import rounded_factors
from .weight_only_quant import packed_codes


def known_list(graph: Graph, node: int, port: int) -> list[Any] | None:
    """The known elements of an input: ints or symbolic sizes."""
    inputs = graph.inputs(node)
    if port >= len(inputs) or (value := inputs[port]) is None:
        return None
    known = graph.known_value(value)
    return None if known is None else list(known.reshape(-1))


def known_ints(graph: Graph, node: int, port: int) -> list[int] | None:
    """The known elements of an input that says axes: None where one is a symbolic size, too."""
    inputs = graph.inputs(node)
    return rules.known_ints(graph.fact(inputs[port])) if port < len(inputs) else None


def rank_of(graph: Graph, value: Value) -> int:
    """Rank of a tensor value."""
    return len(graph.shape(value))


def keep(lowering: RegionLowering, value: Value, view: View) -> None:
    """Let `value` be this view; where it has a view already, copy it there."""
    if value in lowering.placed and not has_same_strides(lowering.placed[value], view):
        out = lowering.result(value)
        lowering.copy(view, out, lowering.name(value.node), lowering.sources(value.node))
    else:
        lowering.views[value] = lowering.placed.get(value, view)


def lower_reshape(lowering: RegionLowering, node: int, op: Op) -> None:
    """Reshape, Squeeze, Unsqueeze, Flatten: the same elements under the inferred shape."""
    value = lowering.graph.input(node, 0)
    shape = lowering.shape(Value(node))
    if value in lowering.divided and value not in lowering.views:
        # A product has written it where the reshaped value belongs.
        lowering.views[Value(node)] = lowering.placed[Value(node)]
        return
    view = lowering.view(value)
    found = reshape(view, shape)
    if found is None and only_packed(lowering, Value(node)) and (divided := divide(view, shape)):
        if runs_of_vectors(divided, packed_width(lowering, Value(node))):
            lowering.divided[Value(node)] = divided
            return
    if found is None:
        found = reshape(lowering.contiguous(view, lowering.name(node)), shape)
    assert found is not None
    keep(lowering, Value(node), found)


def only_packed(lowering: RegionLowering, value: Value) -> bool:
    """Whether one product alone reads a value, as the left operand, and not for a single column:
    it packs what is in blocks as fast as a copy would be made."""
    use = lowering.graph.only_use(as_multiplied(lowering, value))
    if use is None or use.port != 0 or value in lowering.placed:
        return False
    op, made = lowering.graph.op(use.node), Value(use.node)
    if not isinstance(op, MatMul | Gemm | MatMulInteger) or op.transpose_a:
        return False
    columns = lowering.shape(made)[-1]
    both = all(len(lowering.shape(lowering.graph.input(made.node, port))) > 1 for port in (0, 1))
    return both and isinstance(columns, int) and columns > 1


def as_multiplied(lowering: RegionLowering, value: Value) -> Value:
    """The value, or what its only reader, a conversion that products make, gives."""
    use = lowering.graph.only_use(value)
    return value if use is None or use.node not in lowering.fusion.absorbed else Value(use.node)


def packed_width(lowering: RegionLowering, value: Value) -> int:
    """How many elements of a left operand a product packs at once."""
    dtype = lowering.tensor(as_multiplied(lowering, value)).dtype
    cells = cell_depth(
        lowering.target, dot_factor_dtype(dtype, rounded_factors(lowering.options, dtype))
    )
    return lowering.target.lanes(accumulator(dtype).bits) * cells


def lower_identity(lowering: RegionLowering, node: int, op: Op) -> None:
    """A value under another name."""
    keep(lowering, Value(node), lowering.view(lowering.graph.input(node, 0)))


def lower_transpose(lowering: RegionLowering, node: int, op: Op) -> None:
    """Permuted axes; an empty order reverses them."""
    view = lowering.view(lowering.graph.input(node, 0))
    order = known_list(lowering.graph, node, 1) or list(reversed(range(view.rank)))
    keep(lowering, Value(node), permute(view, [int(i) for i in order]))


def lower_broadcast(lowering: RegionLowering, node: int, op: Op) -> None:
    """Broadcast by numpy's rule to the inferred shape."""
    view = lowering.view(lowering.graph.input(node, 0))
    keep(lowering, Value(node), broadcast_to(view, lowering.shape(Value(node))))


def lower_slice(lowering: RegionLowering, node: int, op: Op) -> None:
    """Slice-8 with known starts, stops, steps and axes."""
    view = lowering.view(lowering.graph.input(node, 0))
    out = lowering.shape(Value(node))
    for axis, first, step in slice_starts(lowering.graph, node) or ():
        assert first is not None
        view = take(view, axis, first, out[axis], step)
    keep(lowering, Value(node), view)


def slice_starts(graph: Graph, node: int) -> list[tuple[int, Dim | None, int]] | None:
    """The axes of a Slice, each with its first element (None where its sign is not known) and its
    step; None where starts, steps or axes are known at run time only."""
    shape = graph.shape(graph.input(node, 0))
    ports = graph.inputs(node)
    starts = rules.known_dims(graph.fact(ports[1]))
    steps = known_ints(graph, node, 3)
    if starts is None or steps is None:
        return None
    listed = list(range(len(starts)))
    if len(ports) > 4 and ports[4] is not None:
        axes = known_ints(graph, node, 4)
        if axes is None:
            return None
        listed = [normalize_axis(a, len(shape)) for a in axes]
    cuts = zip(listed, starts, steps, strict=True)
    return [(a, normalize_start(first, shape[a], step), step) for a, first, step in cuts]


def parts_of_view(
    lowering: RegionLowering, node: int, values: Sequence[Value], view: View
) -> list[View]:
    """The parts of a view that the inputs of a Concat are, or the results of a Split along a known
    axis. Other sizes are the expressions of the values, which may differ from those of the whole:
    what looks at a value elsewhere takes two expressions for two shapes."""
    op, shapes = lowering.graph.op(node), [lowering.shape(v) for v in values]
    if isinstance(op, Concat):
        axis = normalize_axis(op.axis, view.rank)
    else:
        axes = known_list(lowering.graph, node, 1)
        assert axes is not None
        axis = normalize_axis(int(axes[0]), view.rank)
    parts = split_axis(view, axis, [shape[axis] for shape in shapes])
    return [replace(part, shape=shape) for part, shape in zip(parts, shapes, strict=True)]


def lower_split(lowering: RegionLowering, node: int, op: Op) -> None:
    """Split and VariadicSplit along a known axis: each output is a part of the input."""
    values, whole = [*lowering.graph.values(node)], lowering.view(lowering.graph.input(node, 0))
    for value, part in zip(values, parts_of_view(lowering, node, values, whole), strict=True):
        keep(lowering, value, part)


def lower_concat(lowering: RegionLowering, node: int, op: Op) -> None:
    """Each input is copied into its part of the output."""
    out, values = (
        lowering.result(Value(node)),
        [v for v in lowering.graph.inputs(node) if v is not None],
    )
    for value, part in zip(values, parts_of_view(lowering, node, values, out), strict=True):
        # A producer may have written here already (compiler/lowering/build/output_placement.py).
        if 0 not in part.shape and lowering.placed.get(value) != part:
            lowering.copy(lowering.view(value), part, lowering.name(node), lowering.sources(node))


def lower_tile(lowering: RegionLowering, node: int, op: Op) -> None:
    """Tile with known repeats: one copy whose source repeats by strides of 0."""
    view, out = lowering.view(lowering.graph.input(node, 0)), lowering.result(Value(node))
    repeats = known_list(lowering.graph, node, 1)
    assert repeats is not None
    repeats = [*[1] * (out.rank - len(repeats)), *repeats]
    extra = out.rank - view.rank
    shape: list[Dim] = []
    strides: list[Dim] = []
    for axis, repeat in enumerate(repeats):
        inner = view.shape[axis - extra] if axis >= extra else 1
        stride = view.strides[axis - extra] if axis >= extra else 0
        shape += [int(repeat) if hasattr(repeat, "dtype") else repeat, inner]
        strides += [0, stride]
    source = View(view.buffer, view.dtype, tuple(shape), tuple(strides), view.offset)
    target = reshape(out, shape)
    if target is None:
        copied = lowering.region.allocate(out.dtype, shape, lowering.name(node))
        lowering.copy(source, copied, lowering.name(node), lowering.sources(node))
        back = reshape(copied, out.shape)
        assert back is not None
        lowering.copy(back, out, lowering.name(node), lowering.sources(node))
    else:
        lowering.copy(source, target, lowering.name(node), lowering.sources(node))


def lower_gather(lowering: RegionLowering, node: int, op: Gather1 | Gather7 | Gather) -> None:
    """Gather along a known axis: blocks picked by an index tensor; a single known one is a part of
    the data, such as the queries of a product that makes keys and values too."""
    if pick_packed_rows(lowering, node, op):
        return
    data = lowering.view(lowering.graph.input(node, 0))
    axes = known_list(lowering.graph, node, 2)
    assert axes is not None
    axis = normalize_axis(int(axes[0]), data.rank)
    picked = known_list(lowering.graph, node, 1) or []
    size = data.shape[axis]
    if len(picked) == 1 and isinstance(size, int) and not isinstance(picked[0], Expr):
        at = int(picked[0])
        at += size if at < 0 else 0
        part = (
            reshape(take(data, axis, at, 1), lowering.shape(Value(node)))
            if 0 <= at < size
            else None
        )
        if part is not None:
            keep(lowering, Value(node), part)
            return
    index = lowering.view(lowering.graph.input(node, 1))
    outer, inner = one_block(data, 0, axis), one_block(data, axis + 1, data.rank)
    if outer is None or inner is None:
        data = lowering.contiguous(data, lowering.name(node))
        outer, inner = one_block(data, 0, axis), one_block(data, axis + 1, data.rank)
        assert outer is not None and inner is not None
    blocks = View(
        data.buffer,
        data.dtype,
        (outer[0], data.shape[axis], inner[0]),
        (outer[1], data.strides[axis], inner[1]),
        data.offset,
    )
    _pick_blocks(lowering, node, op, blocks, index, inner[0])


def pick_packed_rows(lowering: RegionLowering, node: int, op: Gather1 | Gather7 | Gather) -> bool:
    """Gather of rows of a table whose bytes a product's packed weight has, too: they are picked
    from that, so that they are in memory once. False for any other table."""
    graph = lowering.graph
    table, axes = graph.op(graph.input(node, 0).node), known_list(graph, node, 2)
    if not isinstance(table, DeferredConstant) or axes != [0] or len(table.shape) != 2:
        return False
    weight = find_weight_of_table(graph, table.content)
    if weight is None or weight.k * weight.codes.dtype.bits % CELL_BITS:
        return False
    codes, layout = packed_codes(lowering, weight, lowering.name(node))
    rows = View(codes.buffer, codes.dtype, (1, weight.n, weight.k), (0, 0, 0))
    index = lowering.view(graph.input(node, 1))
    _pick_blocks(lowering, node, op, rows, index, weight.k * codes.dtype.bits // 8, layout)
    return True


def _pick_blocks(
    lowering: RegionLowering,
    node: int,
    op: Gather1 | Gather7 | Gather,
    data: View,
    index: View,
    block: Dim,
    packed: PackedB | None = None,
) -> None:
    """Write the step that picks blocks of data (outer, axis, inner). block: elements of each in the
    output."""
    index = lowering.contiguous(index, lowering.name(node))
    count: Dim = 1
    for size in index.shape:
        count = count * size
    out = lowering.result(Value(node))
    flat = reshape(out, (data.shape[0], count, block))
    if packed is not None and flat is not None and flat.strides[-1] != 1:
        flat = None
    target = flat
    if target is None:
        shape = (data.shape[0], count, block)
        target = lowering.region.allocate(out.dtype, shape, lowering.name(node))
    sizes = SizeCollector()
    spec = GatherSpec(
        outer=sizes(data.shape[0]),
        axis=sizes(data.shape[1]),
        count=sizes(count),
        inner=sizes(data.shape[2]),
        data=sizes.operand(data, data.strides),
        index=sizes.operand(index, (1,)),
        out=sizes.operand(target, target.strides),
        out_of_range=op.out_of_range if isinstance(op, Gather) else "zeros",
        packed=packed,
    )
    work = lowering.vectors(out.shape, out.dtype)
    views = [data, index, target]
    lowering.region.kernel(spec, sizes, views, work, lowering.name(node), lowering.sources(node))
    if flat is None:
        back = reshape(target, out.shape)
        assert back is not None
        lowering.copy(back, out, lowering.name(node), lowering.sources(node))


def one_block(view: View, start: int, end: int) -> tuple[Dim, Dim] | None:
    """Axes start..end as one (size, stride), or None where one stride does not walk them."""
    part = View(view.buffer, view.dtype, view.shape[start:end], view.strides[start:end])
    blocks = merged_axes(part)
    if not blocks:
        return (1, 0) if start < end or start == 0 else (1, 1)
    return blocks[0] if len(blocks) == 1 else None
