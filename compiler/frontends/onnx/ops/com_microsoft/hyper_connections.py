"""onnxruntime's operators of hyper-connections (domain com.microsoft): streams that are normalized,
mixed and gated; and its router of groups of experts. Arithmetic is f32, rounded once.

Sizes: streams C, hidden size H, experts E. Source: the operators' schemas.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    Abs,
    Add,
    Broadcast,
    Divide,
    GatherElements,
    Log,
    MatMul,
    Maximum,
    Multiply,
    ReduceSum,
    Reshape,
    RMSNorm,
    ScatterElementsUpdate,
    ShapeOf,
    Sigmoid,
    Sign,
    Sqrt,
    Swish,
    TopK,
    Unsqueeze,
)
from ..elementary import convert_value, sizes_of

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction


def _to_f32(n: ImportContext, x: Value) -> Value:
    return convert_value(n, x, DType.f32)


def _apart(n: ImportContext, x: Value) -> Value:
    """[..., C * H] as [..., C, H], by the attribute num_branches."""
    count = n.integer("num_branches", 0)
    if not count:
        return x
    return n.add(Reshape(special_zero=True), x, n.ints_value([0] * (n.rank(x) - 1) + [count, -1]))


def _finish(n: ImportContext, value: Value, x: Value) -> Value:
    """In x's element type and sizes."""
    value = convert_value(n, value, n.dtype(x))
    return n.add(Reshape(), value, sizes_of(n, x)) if n.rank(value) != n.rank(x) else value


def _root_mean_square(n: ImportContext, x: Value, scale: Value | None, eps: float) -> Value:
    """x over the root of its mean square along the last axis, times a scale, in f32."""
    shape = n.shape(x)
    if shape is None or not isinstance(shape[-1], int):
        raise n.unsupported_error(f"{n.op_type} of an unknown hidden size")
    ones = n.add(Broadcast(), n.constant(1.0, DType.f32), n.ints_value([shape[-1]]))
    found = n.add(RMSNorm(-1, eps), _to_f32(n, x), ones)
    return found if scale is None else n.add(Multiply(), found, _to_f32(n, scale))


def branchwise_rms_norm(n: ImportContext) -> Value:
    x, scale = n.input(0), n.optional(1)
    streams = _apart(n, x)
    shape = n.shape(streams)
    if scale is not None and n.shape(scale) is not None and shape is not None:
        if n.rank(scale) == 1 and n.shape(scale) != shape[-1:]:
            scale = n.add(Reshape(), scale, n.ints_value([int(shape[-2]), -1]))  # type: ignore[arg-type]
    eps = n.number("epsilon", 1e-5)
    return _finish(n, _root_mean_square(n, streams, scale, eps), x)


def gated_rms_norm(n: ImportContext) -> Value:
    """Each group of as many elements as there are scales, times an activation of a gate."""
    x, scale, kind = n.input(0), n.input(1), n.text("activation", "silu")
    if kind not in ("silu", "swish", "sigmoid"):
        raise n.error("unknown activation", got=kind, expected="silu, swish or sigmoid")
    shape = n.shape(scale)
    if shape is None or not isinstance(shape[0], int):
        raise n.unsupported_error(f"{n.op_type} of an unknown hidden size")
    rank, width = n.rank(x), n.shape(x)
    grouped = x
    if width is None or width[-1] != shape[0]:
        sizes = n.ints_value([0] * (rank - 1) + [-1, shape[0]])
        grouped = n.add(Reshape(special_zero=True), x, sizes)
    normal = _root_mean_square(n, grouped, scale, n.number("epsilon", 1e-5))
    if grouped is not x:
        normal = n.add(Reshape(), normal, sizes_of(n, x))
    gate = n.add(Sigmoid() if kind == "sigmoid" else Swish(), _to_f32(n, n.input(2)))
    return convert_value(n, n.add(Multiply(), normal, gate), n.dtype(x))


def gated_add(n: ImportContext) -> Value:
    """x + y * gate."""
    if n.optional(3) is not None:
        raise n.unsupported_error(f"{n.op_type} with a projected gate (CUDA only)")
    return n.add(Add(), n.input(0), n.add(Multiply(), n.input(1), n.input(2)))


def _branch_gates(n: ImportContext, gates: Value, streams: Value) -> Value:
    """Gates of streams [..., C, H] as they broadcast to them, in f32."""
    wide, rank = _to_f32(n, gates), n.rank(streams)
    if n.rank(wide) == rank:
        return wide
    shape, own = n.shape(streams), n.shape(wide)
    if shape is not None and own is not None and own[-1] == shape[-2]:
        return n.add(Unsqueeze(), wide, n.ints_value([rank - 1]))
    return n.add(Reshape(), wide, sizes_of(n, streams))


def pre_mix(n: ImportContext) -> Value:
    """The streams' sum, weighted by gates."""
    streams = _apart(n, n.input(0))
    weighted = n.add(Multiply(), _to_f32(n, streams), _branch_gates(n, n.input(1), streams))
    total = n.add(ReduceSum(), weighted, n.ints_value([-2]))
    scale = n.number("reduction_scale", 1.0)
    total = n.add(Multiply(), total, n.like(total, scale))
    return convert_value(n, total, n.dtype(n.input(0)))


def post_mix(n: ImportContext) -> Value:
    """Streams mixed by a matrix, and a block's output added to each as its gate says."""
    streams, mix = _apart(n, n.input(0)), n.optional(3)
    kept = _to_f32(n, streams)
    if mix is not None:
        kept = n.add(MatMul(transpose_a=True), _to_f32(n, mix), kept)
    block = n.add(Unsqueeze(), _to_f32(n, n.input(1)), n.ints_value([-2]))
    added = n.add(Multiply(), _branch_gates(n, n.input(2), streams), block)
    return _finish(n, n.add(Add(), kept, added), n.input(0))


def engram_gate(n: ImportContext) -> Imported:
    """A value shared by all streams, gated by how well keys and queries agree."""
    key, query, value, third = n.input(0), n.input(1), n.input(2), n.optional(5)
    eps, shape = n.number("epsilon", 1e-5), n.shape(key)
    if shape is None or not isinstance(shape[-1], int):
        raise n.unsupported_error(f"{n.op_type} of an unknown hidden size")
    normal = [_root_mean_square(n, v, n.input(i), eps) for v, i in ((key, 3), (query, 4))]
    product = n.add(Multiply(), normal[0], normal[1])
    dot = n.add(ReduceSum(keep_dims=True), product, n.ints_value([-1]))
    dot = n.add(Divide(), dot, n.like(dot, math.sqrt(shape[-1])))
    root = n.add(Sqrt(), n.add(Maximum(), n.add(Abs(), dot), n.like(dot, 1e-6)))
    gate = n.add(Sigmoid(), n.add(Multiply(), n.add(Sign(), dot), root))
    gated = n.add(Multiply(), gate, n.add(Unsqueeze(), _to_f32(n, value), n.ints_value([2])))
    result = convert_value(n, gated, n.dtype(key))
    if not n.wants(1):
        return [result]
    normed = _root_mean_square(n, gated, third, eps)
    return [result, convert_value(n, normed, n.dtype(key))]


def group_router(n: ImportContext) -> Imported:
    """Sigmoid scores of experts: of the best groups the best experts keep their logarithm."""
    logits, weights = n.input(0), n.optional(2)
    if weights is not None:
        logits = n.add(MatMul(transpose_b=True), _to_f32(n, logits), _to_f32(n, weights))
    shape = n.shape(logits)
    if shape is None or not isinstance(shape[-1], int):
        raise n.unsupported_error(f"{n.op_type} of an unknown number of experts")
    count = shape[-1]
    rows = n.add(Reshape(), _to_f32(n, logits), n.ints_value([-1, count]))
    score = n.add(Sigmoid(), rows)
    biased = n.add(Add(), score, n.input(1))
    groups, active = n.integer("n_group", 1), n.integer("topk_group", 1)
    each, best = n.integer("group_topk", 2), n.integer("top_k")
    sentinel = n.number("router_sentinel", -10000.0)
    outputs: list[Value | None] = [None, biased, score]
    if not n.wants(0):
        return outputs
    if groups < 1 or count % groups or not 0 < active <= groups or best < 1:
        raise n.type_error("the experts do not divide into groups", got=f"{count}, {groups}")
    allowed = biased
    if active < groups:
        allowed = _keep_groups(n, biased, groups, active, min(each, count // groups))
    _, index = _top(n, allowed, best)
    value = n.add(GatherElements(1), score, index)
    value = n.add(Log(), n.add(Maximum(), value, n.like(value, 1e-20)))
    every = n.add(ShapeOf(DType.i64), rows)
    base = n.add(Broadcast(), n.like(rows, sentinel), every)
    routed = n.add(ScatterElementsUpdate(), base, index, value, n.int_value(1))
    return [convert_value(n, routed, n.dtype(n.input(0))), *outputs[1:]]


def _top(n: ImportContext, x: Value, count: int) -> tuple[Value, Value]:
    values, index = n.add_all(TopK(-1, "max", "value", DType.i64), x, n.int_value(count))
    return values, index


def _keep_groups(n: ImportContext, score: Value, groups: int, active: int, each: int) -> Value:
    """Scores [rows, E], lowered to -inf outside of the groups whose best experts sum highest."""
    apart = n.add(Reshape(special_zero=True), score, n.ints_value([0, groups, -1]))
    values, _ = _top(n, apart, each)
    total = n.add(ReduceSum(), values, n.ints_value([2]))
    _, index = _top(n, total, active)
    lost = n.add(Broadcast(), n.like(score, -math.inf), n.add(ShapeOf(DType.i64), total))
    zeros = n.add(Broadcast(), n.like(score, 0.0), n.add(ShapeOf(DType.i64), index))
    mask = n.add(ScatterElementsUpdate(), lost, index, zeros, n.int_value(1))
    masked = n.add(Add(), apart, n.add(Unsqueeze(), mask, n.ints_value([2])))
    return n.add(Reshape(), masked, n.add(ShapeOf(DType.i64), score))


_MS = "com.microsoft::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    f"{_MS}BranchwiseRMSNorm": {1: branchwise_rms_norm},
    f"{_MS}GatedRMSNorm": {1: gated_rms_norm},
    f"{_MS}GatedAdd": {1: gated_add},
    f"{_MS}HyperConnectionPreMix": {1: pre_mix},
    f"{_MS}HyperConnectionPostMix": {1: post_mix},
    f"{_MS}EngramGate": {1: engram_gate},
    f"{_MS}MoEGroupRouter": {1: group_router},
}
