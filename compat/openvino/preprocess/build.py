"""Graph edits of openvino.preprocess: another Parameter or Result, and the steps between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ....builder.tensor import Tensor as Built
from ....builder.tensor import add_node
from ....ir import ops as o
from ....ir.dims import Dim
from ....ir.dtype import DType
from ....ir.errors import UsageError
from ....ir.graph import Graph, Use, Value
from ....ir.infer import infer_graph
from ..layout_helpers import read_layout, write_layout
from ..nodes import insert
from ..types import Dimension, Layout
from . import steps

# Planes of an image: by format, the ending of each plane's name, its divisor of height and width,
# and its channels. A single plane has half as many rows more.
_PLANES = {
    "NV12_SINGLE_PLANE": (("", 1, 1),),
    "I420_SINGLE_PLANE": (("", 1, 1),),
    "NV12_TWO_PLANES": (("/y", 1, 1), ("/uv", 2, 2)),
    "I420_THREE_PLANES": (("/y", 1, 1), ("/u", 2, 1), ("/v", 2, 1)),
}
_CHANNELS = {"RGBX": 4, "BGRX": 4, "GRAY": 1}


def build_input(graph: Graph, node: int, tensor: Any, chain: Any, layout: Layout | None) -> None:
    """Put a Parameter of the tensor's type and shape, and the steps, before a Parameter's readers.

    tensor: a TensorInfo; chain: PreProcessSteps; layout: the model's own."""
    record = graph.node(node)
    op = record.op
    assert isinstance(op, o.Parameter)
    untouched = not chain.steps and tensor.dtype is None and tensor.shape is None
    own = layout or read_layout(record)
    if untouched and tensor.layout is None and tensor.color.name == "UNDEFINED":
        if layout is not None:
            write_layout(record, layout)
        return
    color, planar = tensor.color.name, tensor.color.name in _PLANES
    outer = tensor.layout or (Layout("NHWC") if planar else own)
    dtype = op.element_type if tensor.dtype is None else tensor.dtype.dtype
    parameters = _make_parameters(
        record.name, record.names[0], op, dtype, tensor, chain, own, outer
    )
    state = steps.State(tuple(parameters), outer, color, op.element_type, own, op.shape)
    for step in chain.steps:
        state = step(state)
    if state.tensor._dtype is not op.element_type:
        state = steps.convert_type(state, None)
    state = steps.convert_layout(state, None)
    _check_shape(record.name, state.tensor, op.shape)
    _replace_parameter(graph, node, parameters, state.tensor, outer)


def _check_shape(name: str, made: Built, wanted: Sequence[Dim] | None) -> None:
    shape = made._tensor_type.shape
    if shape is None or wanted is None:
        return
    fits = len(shape) == len(wanted) and all(
        Dimension.of(a).compatible(Dimension.of(b)) for a, b in zip(shape, wanted, strict=True)
    )
    if not fits:
        raise UsageError(
            "the steps do not make what the model takes",
            where=name,
            got=[str(d) for d in shape],
            expected=[str(d) for d in wanted],
        )


def _make_parameters(
    name: str,
    names: frozenset[str],
    op: o.Parameter,
    dtype: DType,
    tensor: Any,
    chain: Any,
    own: Layout | None,
    outer: Layout | None,
) -> list[Built]:
    color = tensor.color.name
    shape = _outer_shape(name, op.shape, tensor, chain, own, outer)
    planes = _PLANES.get(color, (("", 1, 0),))
    made: list[Built] = []
    for at, (ending, divisor, channels) in enumerate(planes):
        if tensor.plane_names and len(planes) > 1:
            ending = f"/{tensor.plane_names[at]}"
        sizes = shape
        if channels and shape is not None:
            sizes = _plane_sizes(shape, divisor, channels, color)
        tensor_names = frozenset(n + ending for n in names or {name})
        made += add_node(o.Parameter(dtype, sizes), (), name + ending, [tensor_names])
    return made


def _plane_sizes(
    shape: tuple[Dim, ...], divisor: int, channels: int, color: str
) -> tuple[Dim, ...]:
    batch, height, width, _ = shape
    if color.endswith("SINGLE_PLANE"):
        height = height * 3 // 2
    return (batch, height // divisor, width // divisor, channels)


def _outer_shape(
    name: str,
    inner: tuple[Dim, ...] | None,
    tensor: Any,
    chain: Any,
    own: Layout | None,
    outer: Layout | None,
) -> tuple[Dim, ...] | None:
    """The shape of what a program passes."""
    if tensor.shape is not None:
        if tensor.shape.rank.is_dynamic:
            return None
        return tuple(d.to_dim(f"{name}.{n}") for n, d in enumerate(tensor.shape))
    if inner is None:
        return None
    shape = list(inner)
    for order in reversed(chain.orders):
        before = list(shape)
        for new, old in enumerate(order):
            before[old] = shape[new]
        shape = before
    if own is not None and outer is not None and not chain.orders:
        shape = [shape[i] for i in steps.find_order(own, outer, len(shape))]
    sizes = tensor.height_width or ((-1, -1) if chain.resizes else None)
    if sizes is not None:
        for axis_name, size in zip("HW", sizes, strict=True):
            axis = steps.find_axis(outer, axis_name, len(shape))
            shape[axis] = Dimension(size).to_dim(f"{name}.{axis}")
    channels = _CHANNELS.get(tensor.color.name)
    if channels is not None:
        shape[steps.find_axis(outer, "C", len(shape))] = channels
    return tuple(shape)


def _replace_parameter(
    graph: Graph, node: int, parameters: list[Built], made: Built, outer: Layout | None
) -> None:
    position, uses = graph.parameters.index(node), graph.uses(Value(node))
    placed: dict[int, Value] = {}
    added = [insert(graph, parameter, placed).node for parameter in parameters]
    value = insert(graph, made, placed)
    for use in uses:
        graph.connect(value, use)
    graph.remove(node)
    others = [p for p in graph.parameters if p not in added]
    graph.parameters[:] = [*others[:position], *added, *others[position:]]
    for parameter in added:
        if outer is not None:
            write_layout(graph.node(parameter), outer)
    infer_graph(graph)


def build_output(graph: Graph, node: int, tensor: Any, chain: Any, layout: Layout | None) -> None:
    """Put the steps between a Result and what it read. Arguments as of build_input."""
    record = graph.node(node)
    own = layout or read_layout(record)
    value = graph.input(node, 0)
    type_ = graph.tensor(value)
    free = add_node(o.Parameter(type_.dtype, type_.shape), ())[0]
    state = steps.State((free,), own, "UNDEFINED", type_.dtype, own, type_.shape)
    for step in chain.steps:
        state = step(state)
    if tensor.layout is not None:
        state = steps.convert_layout(replace(state, model_layout=tensor.layout), None)
    wanted = type_.dtype if tensor.dtype is None else tensor.dtype.dtype
    if tensor.dtype is not None and state.tensor._dtype is not wanted:
        state = steps.convert_type(state, tensor.dtype)
    if state.tensor is not free:
        names = graph.node(value.node).names[value.port]
        after = insert(graph, state.tensor, {id(free._record): value})
        graph.node(value.node).names[value.port] = frozenset()
        graph.node(after.node).names[after.port] |= names
        graph.connect(after, Use(node, 0))
        infer_graph(graph)
    if state.layout is not None:
        write_layout(record, state.layout)
