"""Where values that leave a region are computed, and where a region's symbols are read."""

from __future__ import annotations

from collections.abc import Container, Sequence

from ....ir.graph import Value
from ....ir.ops import (
    Attention,
    Concat,
    Gemm,
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
from ..ops.data_movement import known_list, places
from ..schedule.fusion import conversion_of
from ..schedule.symbols import symbols_in
from .concat_in_place import NativeReaders, concat_buffer_of, concats_in_place, inputs_of, sharable
from .region_lowering import RegionLowering
from .symbol_sources import find_symbol_sources

_SAME_MEMORY = (Reshape, Squeeze, Squeeze1, Unsqueeze)
_PRODUCTS = (MatMul, Gemm, MatMulInteger)
# Kernels that write their output with any strides at full speed (a view can't).
_WRITES_ANYWHERE = (*_PRODUCTS, Attention, Elementwise, Group)
# Below this there are no vectors of columns.
_MIN_VECTOR_COLUMNS = 8


def propagate_output_buffers(
    low: RegionLowering, nodes: Sequence[int], lowered: Container[int]
) -> None:
    """Let producers write where their value will be needed: through reshapes into a region output,
    and into their part of a concatenation.

    nodes: of the region in order. lowered: the nodes of all regions.
    """
    graph, mine, roles = low.graph, frozenset(nodes), low.schedule.roles
    shared = concats_in_place(low, nodes)
    readers = NativeReaders(low, lowered)
    propagate_buffers(low, list(low.placed), mine, readers, shared)
    # The last first: what it joins may have been joined by others before, in less memory.
    for node in reversed(nodes):
        op, value = graph.op(node), Value(node)
        if not roles[node].native or value in low.placed:
            continue
        if isinstance(op, Concat) and (
            whole := concat_buffer_of(low, node, inputs_of(low, node), value)
        ):
            low.placed[value] = whole
            continue
        if isinstance(op, Concat) or (
            isinstance(op, Transpose)
            and read_in_order(low, value)
            and conversion_of(graph, low.fusion, value) is None
        ):
            low.placed[value] = low.allocate(value)
            propagate_buffers(low, [value], mine, readers, shared)


def propagate_buffers(
    low: RegionLowering,
    pending: list[Value],
    nodes: frozenset[int],
    readers: NativeReaders,
    shared: frozenset[int],
) -> None:
    """Hand the places of these values on to what makes them, as far as views can say it. nodes: of
    the region. shared: Concats whose inputs are written in place though others read them."""
    while pending:
        value = pending.pop()
        if not readers.is_native(value.node):
            continue
        for source, part in input_buffers_for(low, value):
            if part is None or source.node not in nodes or source in low.placed:
                continue
            alone = has_one_use(low.graph, source)
            if not alone and not (value.node in shared and sharable(low, value, source, readers)):
                continue
            if isinstance(part, View):
                low.placed[source] = part
                pending.append(source)
            elif readers.is_native(source.node):
                low.divided[source] = part


def input_buffers_for(
    low: RegionLowering, value: Value
) -> Sequence[tuple[Value, View | BlockedAxes | None]]:
    """Where the inputs of a placed value would have to be written for it to cost nothing."""
    graph, view = low.graph, low.placed[value]
    op = graph.op(value.node)
    if isinstance(op, Concat):
        parts = inputs_of(low, value.node)
        return list(zip(parts, places(low, value.node, parts, view), strict=True))
    if isinstance(op, Split | VariadicSplit):
        whole = graph.input(value.node, 0)
        return [(whole, concat_buffer_of(low, value.node, [*graph.values(value.node)], whole))]
    source = graph.input(value.node, 0) if graph.inputs(value.node) else value
    if isinstance(op, _SAME_MEMORY) and is_contiguous(view):
        return [(source, reshape(view, low.shape(source)))]
    if isinstance(op, _SAME_MEMORY):
        return [(source, blocks_of(low, source, view))]
    if isinstance(op, Transpose) and can_write_transposed(low, value):
        order = inverse_permutation(low, value)
        return [(source, permute(view, [order.index(axis) for axis in range(view.rank)]))]
    return []


def inverse_permutation(low: RegionLowering, value: Value) -> list[int]:
    """The order of the axes that a Transpose gives its input."""
    rank = len(low.shape(value))
    return [int(i) for i in known_list(low.graph, value.node, 1) or reversed(range(rank))]


def can_write_transposed(low: RegionLowering, value: Value) -> bool:
    """Whether the kernel behind a Transpose may write its result, reshaped or not, as the
    transposed value lies. A product stores vectors of columns: turned against them it would write
    one element at a time (1024 x 128, 32 deep: 735 us, 66 with a copy; 1000 x 128: 70 and 43)."""
    graph, source = low.graph, low.graph.input(value.node, 0)
    op, made = graph.op(source.node), source
    if isinstance(op, _SAME_MEMORY):
        made = graph.input(source.node, 0)
        op = graph.op(made.node)
        if not has_one_use(graph, made):
            return False
    if not isinstance(op, _WRITES_ANYWHERE):
        return False
    columns = low.shape(source)[-1:]
    few = all(isinstance(n, int) and n < _MIN_VECTOR_COLUMNS for n in columns)
    anchor = low.fusion.anchor_of.get(made.node, made.node)
    if few or not isinstance(graph.op(anchor), _PRODUCTS):
        return True
    return inverse_permutation(low, value)[-1] == len(low.shape(source)) - 1


def blocks_of(low: RegionLowering, value: Value, view: View) -> BlockedAxes | None:
    """A place for the result of a product that is reshaped to `view`: columns in blocks."""
    anchor = low.fusion.anchor_of.get(value.node, value.node)
    if not isinstance(low.graph.op(anchor), _PRODUCTS):
        return None
    if any(len(low.shape(low.graph.input(anchor, port))) < 2 for port in (0, 1)):
        return None
    found = divide(view, low.shape(value))
    lanes = low.target.lanes(accumulator(low.tensor(Value(anchor)).dtype).bits)
    return found if found and runs_of_vectors(found, lanes) else None


def read_in_order(low: RegionLowering, value: Value) -> bool:
    """Whether a transposed value is read only by a reshape that wants its elements in order: then
    the producer should write them so. Where the reshape only divides axes (tokens to an image
    of channels) it is a view of what the producer writes anyway."""
    graph = low.graph
    use, source = graph.only_use(value), graph.input(value.node, 0)
    if use is None or not isinstance(graph.op(use.node), Reshape):
        return False
    shape = low.shape(source)
    plain = View(0, low.tensor(source).dtype, shape, row_major(shape))
    if (
        reshape(permute(plain, inverse_permutation(low, value)), low.shape(Value(use.node)))
        is not None
    ):
        return False
    return has_one_use(graph, source) and can_write_transposed(low, value)


def symbol_sources(low: RegionLowering) -> tuple[SymbolSource, ...]:
    """Where each symbol of the region is read: an axis of a region input, added for this purpose
    if need be."""
    sizes = [*low.region.dims, *(d for b in low.region.buffers for d in b.shape)]
    names = {s.name for size in sizes for s in symbols_in(size)}
    types = low.schedule.interface.types
    added, found = find_symbol_sources(names, low.inputs, low.plan.slot_symbols, types)
    for slot in added:
        type_ = types[slot]
        assert isinstance(type_, TensorType)
        low.inputs.append(slot)
        low.region.input(len(low.inputs) - 1, type_.dtype, type_.shape or ())
    return tuple(found)
