"""Where values that leave a region are computed, and where a region's symbols are read."""

from __future__ import annotations

from collections.abc import Container, Sequence

from ....ir.graph import Value
from ....ir.ops import (
    Attention,
    Concat,
    Gemm,
    GridSample,
    Group,
    MatMul,
    MatMulInteger,
    Reshape,
    Split,
    Squeeze,
    Squeeze1,
    Transpose,
    Unsqueeze,
    VariadicSplit,
)
from ....ir.ops.math.elementwise import Elementwise
from ....ir.types import TensorType
from ....plan.packing.panel_params import accumulator
from ....plan.plan import SymbolSource
from ...rewrite.patch import has_one_use
from ...strided_view import (
    BlockedAxes,
    View,
    divide,
    is_contiguous,
    permute,
    reshape,
    row_major,
    runs_of_vectors,
)
from ..ops.data_movement import known_list, parts_of_view
from ..schedule.fusion import conversion_of
from ..schedule.symbols import symbols_in
from .concat_in_place import (
    NativeReaders,
    concat_buffer_of,
    concats_in_place,
    inputs_of,
    sharable,
    stored_dtype,
)
from .region_lowering import RegionLowering
from .symbol_sources import find_symbol_sources

_SAME_MEMORY = (Reshape, Squeeze, Squeeze1, Unsqueeze)
_PRODUCTS = (MatMul, Gemm, MatMulInteger)
# Kernels that write their output with any strides at full speed (a view can't).
_WRITES_ANYWHERE = (*_PRODUCTS, Attention, Elementwise, Group)
# Below this there are no vectors of columns.
_MIN_VECTOR_COLUMNS = 8


def propagate_output_buffers(
    lowering: RegionLowering, nodes: Sequence[int], lowered: Container[int]
) -> None:
    """Let producers write where their value will be needed: through reshapes into a region output,
    and into their part of a concatenation.

    nodes: of the region in order. lowered: the nodes of all regions.
    """
    graph, mine, roles = lowering.graph, frozenset(nodes), lowering.schedule.roles
    shared = concats_in_place(lowering, nodes)
    readers = NativeReaders(lowering, lowered)
    propagate_buffers(lowering, list(lowering.placed), mine, readers, shared)
    # The last first: what it joins may have been joined by others before, in less memory.
    for node in reversed(nodes):
        op, value = graph.op(node), Value(node)
        if not roles[node].native or value in lowering.placed:
            continue
        if isinstance(op, Concat) and (
            whole := concat_buffer_of(lowering, node, inputs_of(lowering, node), value)
        ):
            lowering.placed[value] = whole
            continue
        if isinstance(op, Concat) or (
            isinstance(op, Transpose)
            and read_in_order(lowering, value)
            and conversion_of(graph, lowering.fusion, value) is None
        ):
            lowering.placed[value] = lowering.allocate(value)
            propagate_buffers(lowering, [value], mine, readers, shared)


def propagate_buffers(
    lowering: RegionLowering,
    pending: list[Value],
    nodes: frozenset[int],
    readers: NativeReaders,
    shared: frozenset[int],
) -> None:
    """Propagate the output views of these values to their producers, as far as views can express
    it. nodes: of the region. shared: Concats whose inputs are written in place though others read
    them."""
    while pending:
        value = pending.pop()
        if not readers.is_native(value.node):
            continue
        for source, part in input_buffers_for(lowering, value):
            if part is None or source.node not in nodes or source in lowering.placed:
                continue
            alone = has_one_use(lowering.graph, source)
            if not alone and not (
                value.node in shared and sharable(lowering, value, source, readers)
            ):
                continue
            if isinstance(part, View):
                if part.dtype in (lowering.tensor(source).dtype, stored_dtype(lowering, source)):
                    lowering.placed[source] = part
                    pending.append(source)
            elif readers.is_native(source.node):
                lowering.divided[source] = part


def input_buffers_for(
    lowering: RegionLowering, value: Value
) -> Sequence[tuple[Value, View | BlockedAxes | None]]:
    """Where the inputs of a placed value would have to be written for it to cost nothing."""
    graph, view = lowering.graph, lowering.placed[value]
    op = graph.op(value.node)
    if isinstance(op, Concat):
        parts = inputs_of(lowering, value.node)
        return list(zip(parts, parts_of_view(lowering, value.node, parts, view), strict=True))
    if isinstance(op, Split | VariadicSplit):
        whole = graph.input(value.node, 0)
        return [(whole, concat_buffer_of(lowering, value.node, [*graph.values(value.node)], whole))]
    source = graph.input(value.node, 0) if graph.inputs(value.node) else value
    if isinstance(op, _SAME_MEMORY) and is_contiguous(view):
        return [(source, reshape(view, lowering.shape(source)))]
    if isinstance(op, _SAME_MEMORY) and isinstance(graph.op(source.node), GridSample):
        return [(source, reshape(view, lowering.shape(source)))]
    if isinstance(op, _SAME_MEMORY):
        return [(source, blocks_of(lowering, source, view))]
    if isinstance(op, Transpose) and can_write_transposed(lowering, value):
        order = inverse_permutation(lowering, value)
        return [(source, permute(view, [order.index(axis) for axis in range(view.rank)]))]
    return []


def inverse_permutation(lowering: RegionLowering, value: Value) -> list[int]:
    """The order of the axes that a Transpose gives its input."""
    rank = len(lowering.shape(value))
    return [int(i) for i in known_list(lowering.graph, value.node, 1) or reversed(range(rank))]


def can_write_transposed(lowering: RegionLowering, value: Value) -> bool:
    """Whether the kernel behind a Transpose may write its result, reshaped or not, as the
    transposed value lies. A product stores vectors of columns: turned against them it would write
    one element at a time (1024 x 128, 32 deep: 735 us, 66 with a copy; 1000 x 128: 70 and 43)."""
    graph, source = lowering.graph, lowering.graph.input(value.node, 0)
    op, made = graph.op(source.node), source
    if isinstance(op, _SAME_MEMORY):
        made = graph.input(source.node, 0)
        op = graph.op(made.node)
        if not has_one_use(graph, made):
            return False
    if not isinstance(op, _WRITES_ANYWHERE):
        return False
    columns = lowering.shape(source)[-1:]
    few = all(isinstance(n, int) and n < _MIN_VECTOR_COLUMNS for n in columns)
    anchor = lowering.fusion.anchor_of.get(made.node, made.node)
    if few or not isinstance(graph.op(anchor), _PRODUCTS):
        return True
    return inverse_permutation(lowering, value)[-1] == len(lowering.shape(source)) - 1


def blocks_of(lowering: RegionLowering, value: Value, view: View) -> BlockedAxes | None:
    """An output view for the result of a product that is reshaped to `view`: columns in blocks."""
    anchor = lowering.fusion.anchor_of.get(value.node, value.node)
    if not isinstance(lowering.graph.op(anchor), _PRODUCTS):
        return None
    if any(len(lowering.shape(lowering.graph.input(anchor, port))) < 2 for port in (0, 1)):
        return None
    found = divide(view, lowering.shape(value))
    lanes = lowering.target.lanes(accumulator(lowering.tensor(Value(anchor)).dtype).bits)
    return found if found and runs_of_vectors(found, lanes) else None


def read_in_order(lowering: RegionLowering, value: Value) -> bool:
    """Whether a transposed value is read only by a reshape that wants its elements in order: then
    the producer should write them so. Where the reshape only divides axes (tokens to an image
    of channels) it is a view of what the producer writes anyway."""
    graph = lowering.graph
    use, source = graph.only_use(value), graph.input(value.node, 0)
    if use is None or not isinstance(graph.op(use.node), Reshape):
        return False
    shape = lowering.shape(source)
    plain = View(0, lowering.tensor(source).dtype, shape, row_major(shape))
    if (
        reshape(
            permute(plain, inverse_permutation(lowering, value)), lowering.shape(Value(use.node))
        )
        is not None
    ):
        return False
    return has_one_use(graph, source) and can_write_transposed(lowering, value)


def symbol_sources(lowering: RegionLowering) -> tuple[SymbolSource, ...]:
    """Where each symbol of the region is read: an axis of a region input, added for this purpose
    if need be."""
    sizes = [*lowering.region.dims, *(d for b in lowering.region.buffers for d in b.shape)]
    names = {s.name for size in sizes for s in symbols_in(size)}
    types = lowering.schedule.interface.types
    added, found = find_symbol_sources(names, lowering.inputs, lowering.plan.slot_symbols, types)
    for slot in added:
        type_ = types[slot]
        assert isinstance(type_, TensorType)
        lowering.inputs.append(slot)
        lowering.region.input(len(lowering.inputs) - 1, type_.dtype, type_.shape or ())
    return tuple(found)
