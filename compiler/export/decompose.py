"""The dialect in standard operation sets: what `irc convert` writes and every reader knows.

A table says how each operation of the dialect becomes standard ones; scalar programs (Group,
Gemm's activation) go through scalar_programs.py. The graph is built anew, so the caller's stays as
it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...ir.dtype import DType
from ...ir.errors import UnsupportedOperationError
from ...ir.graph import Graph, Node, Value
from ...ir.op import Array, Op
from ...ir.ops import (
    MVN,
    Activation,
    Assign,
    Divide,
    Gemm,
    Group,
    LayerNorm,
    MatMul,
    ReduceMean,
    RMSNorm,
    Sqrt,
)
from ...ir.ops.accumulate import computing_dtype
from ...ir.types import TensorType
from ..decompositions.quantized import DECOMPOSITIONS
from .attribute_format import KEEP_DIALECT
from .bodies import with_bodies
from .expand_attention import expand_attention
from .fill_defaults import completed_inputs, completed_op
from .graph_builder import Build
from .scalar_programs import expand_activation, expand_program

Expansion = Callable[[Build, Node, Sequence[Value | None]], list[Value]]


def decompose(graph: Graph) -> Graph:
    """A graph of standard operations with the same meaning, inferred. Nodes that stay keep names,
    tensor names and rt_info; the last operation of an expansion takes them over.

    Raises UnsupportedOperationError naming the node where an operation has no standard form.
    """
    out = Graph(graph.name)
    out.rt_info = dict(graph.rt_info)
    new_values: dict[Value, Value] = {}
    for node in graph.order():
        record = graph.node(node)
        inputs = [
            None if v is None else new_values[_skip_assign(graph, v)] for v in graph.inputs(node)
        ]
        build = Build(out, record.name, record.origin)
        if record.op.version:
            inputs = completed_inputs(build, record, inputs)
            made = _copy_node(out, record, completed_op(record.op, build, inputs), inputs)
        else:
            made = _expansion(record)(build, record, inputs)
            _hand_over(out, record, made)
        for port, value in enumerate(made):
            new_values[Value(node, port)] = value
    for roots, copied in (
        (graph.parameters, out.parameters),
        (graph.results, out.results),
        (graph.sinks, out.sinks),
    ):
        copied[:] = [new_values[Value(node)].node for node in roots]
    return out


def _skip_assign(graph: Graph, value: Value) -> Value:
    """What a value that an Assign returns is: OpenVINO's plugins allow no readers of an Assign."""
    while isinstance(graph.op(value.node), Assign):
        value = graph.input(value.node, 0)
    return value


def _copy_node(graph: Graph, record: Node, op: Op, inputs: Sequence[Value | None]) -> list[Value]:
    node = graph.add(
        with_bodies(op, decompose),
        inputs,
        name=record.name,
        origin=record.origin,
        names=record.names,
    )
    twin = graph.node(node)
    twin.types, twin.known = list(record.types), list(record.known)
    twin.rt_info = dict(record.rt_info)
    return list(graph.values(node))


def _expansion(record: Node) -> Expansion:
    found = EXPANSIONS.get(record.op.kind)
    if found is None:
        raise UnsupportedOperationError(
            f"{record.op.kind} has no form in OpenVINO's operation sets",
            where=record.origin or f"{record.op.kind} {record.name!r}",
            fix=KEEP_DIALECT,
        )
    return found


def _hand_over(graph: Graph, record: Node, made: Sequence[Value]) -> None:
    """Names of the expanded node to the nodes that now produce its outputs."""
    for port, value in enumerate(made):
        twin = graph.node(value.node)
        twin.names[value.port] |= record.names[port]
        if len(made) == 1 and twin.name.startswith(f"{record.name}/"):
            twin.name = record.name


def _gemm(build: Build, record: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """MatMul, Multiply by alpha and beta, Add, and the activation's own operation."""
    op = record.op
    assert isinstance(op, Gemm)
    a, b, *rest = inputs
    c = rest[0] if rest else None
    assert a is not None and b is not None
    given = wide = build.dtype(a)
    if given.is_int and not (op.alpha.is_integer() and op.beta.is_integer()):
        # As evaluate does: a whole-number alpha of 0.5 would be 0.
        wide = DType.f64
    elif abs(op.alpha) != 1:
        # The product alone may be too large for f16.
        wide = computing_dtype(given)
    a, b = build.cast(a, wide), build.cast(b, wide)
    c = None if c is None or op.beta == 0 else build.cast(c, wide)
    value = build.op(MatMul(op.transpose_a, op.transpose_b), a, b)
    dtype = build.dtype(value)
    # Whole factors of integers wrap, as products do: -1 is 255 of 256.
    alpha, beta = (int(v) if dtype.is_int else v for v in (op.alpha, op.beta))
    if alpha != 1:
        value = build.multiply(value, build.number(alpha, dtype))
    if c is not None:
        term = c if beta == 1 else build.multiply(c, build.number(beta, dtype))
        value = build.add(value, term)
    value = expand_activation(build, op.activation, op.activation_params, value)
    return [build.cast(value, given)]


def _activation(build: Build, record: Node, inputs: Sequence[Value | None]) -> list[Value]:
    op = record.op
    assert isinstance(op, Activation) and inputs[0] is not None
    return [expand_activation(build, op.function, op.parameters, inputs[0])]


def _group(build: Build, record: Node, inputs: Sequence[Value | None]) -> list[Value]:
    op = record.op
    assert isinstance(op, Group)
    given = [v for v in inputs if v is not None]
    made = expand_program(build, op.program, given)
    return [
        build.broadcast_with(value, given, type_)
        for value, type_ in zip(made, _tensors(record), strict=True)
    ]


def _layer_norm(build: Build, record: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """MVN over the last axes, then scale and bias."""
    op = record.op
    data = inputs[0]
    assert isinstance(op, LayerNorm) and data is not None
    axes = build.constant(_last_axes(build, record, op.axis), DType.i64)
    value = build.op(MVN(eps=op.eps), data, axes)
    return [_scale_and_shift(build, value, inputs)]


def _rms_norm(build: Build, record: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """x / sqrt(mean of x * x + eps), then scale and bias; in f32 at least, as a square of 256 is
    too large for f16."""
    op = record.op
    assert isinstance(op, RMSNorm) and inputs[0] is not None
    given = build.dtype(inputs[0])
    wide = computing_dtype(given)
    widened = [None if v is None else build.cast(v, wide) for v in inputs]
    data = widened[0]
    assert data is not None
    axes = build.constant(_last_axes(build, record, op.axis), DType.i64)
    mean = build.op(ReduceMean(keep_dims=True), build.multiply(data, data), axes)
    root = build.op(Sqrt(), build.add(mean, build.number(op.eps, wide)))
    return [build.cast(_scale_and_shift(build, build.op(Divide(), data, root), widened), given)]


def _last_axes(build: Build, record: Node, axis: int) -> Array:
    if axis >= 0:
        (type_,) = _tensors(record)
        if type_.rank is None:
            raise UnsupportedOperationError(
                f"{record.op.kind} of an unknown rank has no form in OpenVINO's operation sets",
                where=record.origin or record.name,
            )
        axis -= type_.rank
    return np.arange(axis, 0, dtype=np.int64)


def _scale_and_shift(build: Build, value: Value, inputs: Sequence[Value | None]) -> Value:
    _, scale, bias = (*inputs, None, None)[:3]
    value = value if scale is None else build.multiply(value, scale)
    return value if bias is None else build.add(value, bias)


def _plain_form(build: Build, record: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """Quantised values: converted, centred, scaled."""
    made = DECOMPOSITIONS[record.op.kind](build.graph, build.op, record.op, inputs)
    if made is None:
        raise UnsupportedOperationError(
            f"{record.op.kind} in groups along an axis of unknown size has no standard form",
            where=record.origin or record.name,
            fix=KEEP_DIALECT,
        )
    return [made]


def _tensors(record: Node) -> list[TensorType]:
    return [t for t in record.types if isinstance(t, TensorType)]


EXPANSIONS: dict[str, Expansion] = {
    "Gemm": _gemm,
    "Activation": _activation,
    "Group": _group,
    "LayerNorm": _layer_norm,
    "RMSNorm": _rms_norm,
    "Attention": expand_attention,
    **dict.fromkeys(DECOMPOSITIONS, _plain_form),
}
