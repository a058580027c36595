"""Sizes read as data: shapes, and ranges between them, that a kernel writes without any input."""

from __future__ import annotations

from ....ir.dims import Dim, Expr
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Op
from ....ir.types import TensorType
from ....plan.specs.iota import IotaSpec
from ...strided_view import View, take
from ..build.region_builder import SizeCollector
from ..build.region_lowering import RegionLowering
from .data_movement import known_list

WRITTEN = frozenset({DType.i32, DType.i64, DType.f32})


def is_known_sizes(graph: Graph, node: int) -> bool:
    """Whether the node's only result is known to be sizes of the inputs, of a type that kernels
    write."""
    if graph.op(node).output_count() != 1:
        return False
    value = Value(node)
    type_, known = graph.type(value), graph.known_value(value)
    if not isinstance(type_, TensorType) or type_.shape is None or known is None:
        return False
    if type_.dtype not in WRITTEN or len(type_.shape) > 1 or known.dtype != object:
        return False
    return all(isinstance(d, int | Expr) for d in known.reshape(-1))


def lower_known(lowering: RegionLowering, node: int, op: Op) -> None:
    """One short step per element."""
    known = lowering.graph.known_value(Value(node))
    assert known is not None
    out = lowering.result(Value(node))
    for i, size in enumerate(known.reshape(-1)):
        write(lowering, node, take(out, 0, i, 1) if out.rank else out, 1, size, 0)


def refuse_range(graph: Graph, node: int, op: Op) -> str | None:
    """Why no kernel writes the range, or None."""
    ends = [known_list(graph, node, port) for port in (0, 2)]
    type_ = graph.type(Value(node))
    if any(e is None or not isinstance(e[0], int | Expr) for e in map(_to_python_ints, ends)):
        return "its ends are not sizes"
    if not isinstance(type_, TensorType) or type_.dtype not in WRITTEN:
        return "no kernel for a range of this type"
    return None


def _to_python_ints(found: list[object] | None) -> list[object] | None:
    """NumPy's integers as Python's."""
    if found is None:
        return None
    return [int(d) if hasattr(d, "dtype") and d.dtype.kind in "iu" else d for d in found]  # type: ignore[attr-defined]


def lower_range(lowering: RegionLowering, node: int, op: Op) -> None:
    """start, start + step, ... as many as the shape says."""
    start, step = (_to_python_ints(known_list(lowering.graph, node, port)) for port in (0, 2))
    assert start is not None and step is not None
    out = lowering.result(Value(node))
    write(lowering, node, out, out.shape[0], start[0], step[0])  # type: ignore[arg-type]


def write(
    lowering: RegionLowering, node: int, out: View, count: Dim, start: Dim, step: Dim
) -> None:
    """The step that writes `count` numbers into a vector or a scalar."""
    sizes = SizeCollector()
    strides = out.strides if out.rank else (1,)
    spec = IotaSpec(sizes(count), sizes(start), sizes(step), sizes.operand(out, strides))
    work = lowering.vectors((count,), out.dtype)
    lowering.region.kernel(spec, sizes, [out], work, lowering.name(node), lowering.sources(node))
