"""Rows of a compressed table: picked as integers, and only what was picked is dequantised.

An embedding table so stays as small as it was stored. Codes of 4 bits are kept in 8: kernels pick
whole bytes.
"""

from __future__ import annotations

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Array, Op
from ....ir.ops import Constant, Convert, Dequantize
from ....ir.types import normalize_axis
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import MatchFailure, Patch, producer
from ..canonicalize.fold_constants import LARGE_WEIGHT_BYTES
from ..match.values import known_axes, shape_of
from .sink_dequantize import parts

_WHOLE = {DType.u4: DType.u8, DType.i4: DType.i8}


def pick_codes(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Gather(Dequantize(codes), picks) = Dequantize(Gather(codes, picks)), scales picked alike."""
    op, (data, picks, where) = graph.op(node), graph.inputs(node)[:3]
    converted = producer(graph, data, "Convert")
    found = parts(graph, data if converted is None else graph.input(converted, 0))
    if found is None:
        return None
    form, *values = found
    ops = [None if v is None else graph.op(v.node) for v in values]
    constants = [o for o in ops if isinstance(o, Constant)]
    if len(constants) < len([v for v in values if v is not None]):
        return None
    codes, shape = constants[0], constants[0].data.shape
    if codes.data.size * 4 <= LARGE_WEIGHT_BYTES:
        return None
    index_shape, axes = shape_of(graph, picks), known_axes(graph, where, len(shape))
    if index_shape is None or not axes or getattr(op, "batch_dims", 0):
        return MatchFailure("the indices are of unknown rank, or batched, or along an unknown axis")
    axis, rank = axes[0], len(index_shape)
    group = normalize_axis(form.axis, len(shape)) if form.group else -1
    if group == axis:
        return MatchFailure("the elements that are picked share scales")
    patch = Patch()
    whole = _WHOLE.get(codes.dtype, codes.dtype)
    table = codes.data.astype(whole.numpy) if whole is not codes.dtype else codes.data
    made = [patch.add(op, patch.constant(table, whole), picks, where)]
    for constant in constants[1:]:
        dtype = _WHOLE.get(constant.dtype, constant.dtype)
        array = constant.data.astype(dtype.numpy)
        array = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
        if array.shape[axis] == 1 and getattr(op, "out_of_range", "zeros") == "zeros":
            # Beyond the end is 0, so scales have to be 0 there as well.
            if array.size * shape[axis] * 8 > codes.data.size:
                return MatchFailure("elements beyond the end would not be zeros")
            sizes = [*array.shape]
            sizes[axis] = shape[axis]
            array = np.ascontiguousarray(np.broadcast_to(array, sizes))
        made.append(_gather_parameters(patch, op, array, dtype, axis, rank, picks, where))
    scale_axis = group + rank - 1 if group > axis else group
    axis_of_groups = scale_axis if form.group else form.axis
    result = patch.add(Dequantize(axis_of_groups, form.group), *made)
    if converted is not None:
        to = graph.op(converted)
        assert isinstance(to, Convert)
        result = patch.add(to, result)
    return patch.replace(Value(node), result)


def _gather_parameters(
    patch: Patch,
    op: Op,
    array: Array,
    dtype: DType,
    axis: int,
    rank: int,
    picks: Value | None,
    where: Value | None,
) -> Value:
    """Scales or zero points of what is picked."""
    if array.shape[axis] == 1:
        sizes = (*array.shape[:axis], *(1,) * rank, *array.shape[axis + 1 :])
        return patch.constant(array.reshape(sizes), dtype)
    return patch.add(op, patch.constant(array, dtype), picks, where)


_RULES = (Rule("pick_codes", ("Gather",), pick_codes),)

gather_quantized_table = Pass("gather_quantized_table", lambda options: _RULES)
