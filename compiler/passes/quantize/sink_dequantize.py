"""Operations that only move elements, or choose among them, work on bytes: Dequantize moves behind
them, and Quantize before what only gives a value another shape, next to the arithmetic that it
rounds. A value that is dequantised and quantised again alike was bytes all along.

Exact: an element's value is a function of its code, growing where the scale is positive.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Array
from ....ir.ops import (
    Concat,
    Constant,
    Dequantize,
    MaxPool1,
    MaxPool8,
    Multiply,
    Quantize,
    Reshape,
    Transpose,
)
from ....ir.ops.shape_inference import known_ints
from ...legality import MOVES, RESHAPES
from ...rewrite.engine import Pass, Rule, op_rule
from ...rewrite.patch import MatchFailure, Patch, has_one_use, producer
from ..match.values import (
    constant_scalar,
    dtype_of,
    known_axes,
    same_shape,
    shape_of,
    split_constant_operand,
)
from .scale_layout import joined_groups, reshape_scales, transpose_scales

# Operations on the elements of input 0; other inputs only say where to.
MOVERS = tuple(
    "Reshape Squeeze Unsqueeze Transpose Slice StridedSlice Gather DepthToSpace "
    "SpaceToDepth ShuffleChannels Identity Split VariadicSplit MaxPool".split()
)

# (operation, codes, scale, zero point) of a dequantised value.
Parts = tuple[Dequantize, Value, Value, Value | None]


def parts(graph: Graph, value: Value | None) -> Parts | None:
    """What a dequantised value is made of."""
    node = producer(graph, value, "Dequantize")
    op = None if node is None else graph.op(node)
    if node is None or not isinstance(op, Dequantize):
        return None
    codes, scale, zero = (*graph.inputs(node), None)[:3]
    assert codes is not None and scale is not None
    return op, codes, scale, zero


def is_single(graph: Graph, value: Value | None) -> bool:
    """Whether a scale or zero point is absent, or one value for all elements."""
    shape = () if value is None else shape_of(graph, value)
    return shape is not None and all(d == 1 for d in shape)


def move_behind(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Mover(Dequantize(codes)) = Dequantize(Mover(codes)), with one scale for all elements."""
    op, inputs = graph.op(node), graph.inputs(node)
    found = parts(graph, inputs[0])
    if found is None:
        return None
    dequantize, codes, scale, zero = found
    if dequantize.group or not is_single(graph, scale) or not is_single(graph, zero):
        return None if op.kind in MOVES else MatchFailure("scales differ")
    outputs = [v for v in graph.values(node) if graph.use_count(v)]
    if op.kind == "Gather" and zero is not None and not _all_there(graph, node):
        return MatchFailure("an index out of range gives 0, and the code 0 is another number")
    if op.kind == "MaxPool":
        factor = constant_scalar(graph, scale)
        if factor is None or not factor > 0:
            return MatchFailure("the scale is not known to be positive")
        if any(v.port for v in outputs):
            return MatchFailure("the indices of the largest elements are read")
        assert isinstance(op, MaxPool1 | MaxPool8)
        if not op.windows().hold_data:
            # What such a window gives, less than any number, is not a byte.
            return MatchFailure("a window may hold paddings only")
    patch = Patch()
    # As scalars: no mover's result has a lower rank.
    factors, zeros = _scalar(graph, patch, scale), _scalar(graph, patch, zero)
    made = patch.add(op, codes, *inputs[1:])
    for value in outputs:
        source = Value(made.node, value.port)
        patch.replace(value, patch.add(Dequantize(), source, factors, zeros))
    return patch


def _all_there(graph: Graph, node: int) -> bool:
    """Whether a Gather's indices are known to be in range, or refused where they are not."""
    if getattr(graph.op(node), "out_of_range", "zeros") == "error":
        return True
    picks, axis = (known_ints(graph.fact(graph.input(node, n))) for n in (1, 2))
    shape = shape_of(graph, graph.input(node, 0))
    if picks is None or axis is None or shape is None:
        return False
    size = shape[axis[0]]
    return isinstance(size, int) and all(0 <= n < size for n in picks)


def _scalar(graph: Graph, patch: Patch, value: Value | None) -> Value | None:
    if value is None or shape_of(graph, value) == ():
        return value
    op = graph.op(value.node)
    if isinstance(op, Constant):
        return patch.constant(op.data.reshape(()), op.dtype)
    return patch.add(Reshape(special_zero=False), value, patch.integers([]))


def move_weight(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Values with scales of their own in another shape or order: the scales follow."""
    op, found = graph.op(node), parts(graph, graph.input(node, 0))
    source, target = shape_of(graph, graph.input(node, 0)), shape_of(graph, Value(node))
    if found is None or source is None or target is None:
        return None
    dequantize, codes, scale, zero = found
    if is_single(graph, scale) and is_single(graph, zero) and not dequantize.group:
        return None
    given = [v for v in (scale, zero) if v is not None]
    arrays = [o.data for v in given if isinstance(o := graph.op(v.node), Constant)]
    sizes = [d for d in source if isinstance(d, int)]
    wanted = [d for d in target if isinstance(d, int)]
    whole = len(sizes) == len(source) and len(wanted) == len(target)
    if len(arrays) < len(given) or not whole:
        return MatchFailure("scales that differ are known at run time only, or a size is")
    if 0 in sizes:  # counts of no elements say nothing of where they went
        return MatchFailure("there are no elements")
    layout: tuple[list[Array], int, int] | None
    if isinstance(op, Transpose):
        order = known_axes(graph, graph.input(node, 1), len(source))
        layout = (
            transpose_scales(arrays, order, dequantize.axis, dequantize.group) if order else None
        )
    elif dequantize.group:
        layout = None
    else:
        layout = reshape_scales(arrays, sizes, wanted) or joined_groups(arrays, sizes, wanted)
    if layout is None:
        return MatchFailure("the scales don't follow the elements")
    moved, axis, group = layout
    patch = Patch()
    made = [patch.constant(a, dtype_of(graph, v)) for a, v in zip(moved, given, strict=True)]
    codes = patch.add(op, codes, *graph.inputs(node)[1:])
    return patch.replace(Value(node), patch.add(Dequantize(axis, group), codes, *made))


def join_alike(graph: Graph, node: int, op: Concat) -> Patch | MatchFailure | None:
    """Concat of values that are dequantised alike."""
    found = [parts(graph, v) for v in graph.inputs(node)]
    known = [p for p in found if p is not None]
    if not known or len(known) < len(found):
        return None
    dequantize, _, scale, zero = known[0]
    if not is_single(graph, scale) or not is_single(graph, zero) or dequantize.group:
        return MatchFailure("scales differ within an input")
    if not all(have_equal_parameters(graph, known[0], p) for p in known[1:]):
        return MatchFailure("the inputs have different scales or zero points")
    patch = Patch()
    factors, zeros = _scalar(graph, patch, scale), _scalar(graph, patch, zero)
    made = patch.add(op, *(p[1] for p in known))
    return patch.replace(Value(node), patch.add(Dequantize(), made, factors, zeros))


def have_equal_parameters(graph: Graph, a: Parts, b: Parts) -> bool:
    """Whether two values are dequantised with the same numbers from the same type."""
    return (
        a[0] == b[0]
        and dtype_of(graph, a[1]) is dtype_of(graph, b[1])
        and all(same_number(graph, x, y) for x, y in zip(a[2:], b[2:], strict=True))
    )


def same_number(graph: Graph, a: Value | None, b: Value | None) -> bool:
    """Whether both are one value, or constants of one equal element (absent: 0)."""
    if a == b:
        return True
    left, right = (0 if v is None else constant_scalar(graph, v) for v in (a, b))
    return left is not None and left == right


def cancel_quantize(graph: Graph, node: int, op: Quantize) -> Patch | MatchFailure | None:
    """Quantize(Dequantize(codes)) with the same scale and zero point."""
    x, scale, zero = (*graph.inputs(node), None, None)[:3]
    found = parts(graph, x)
    if found is None or scale is None:
        return None
    _, codes, factor, shift = found
    if dtype_of(graph, codes) is not op.destination_type:
        return None
    if dtype_of(graph, factor) is not DType.f32:
        return None
    same = same_number(graph, scale, factor) and same_number(graph, zero, shift)
    value = constant_scalar(graph, scale)
    # (code * scale) / scale rounds to the code where both stay far from the type's ends.
    if not same or value is None or not 1e-30 < abs(value) < 1e30:
        return MatchFailure("the scales or zero points differ")
    return Patch().replace(Value(node), codes)


def quantize_before_reshape(graph: Graph, node: int, op: Quantize) -> Patch | MatchFailure | None:
    """Quantize(Reshape(x)) = Reshape(Quantize(x)), with one scale for all elements. onnxruntime's
    quantiser is given Gemm between Reshapes, where MatMul and Add were."""
    x, scale, zero = (*graph.inputs(node), None, None)[:3]
    assert x is not None
    reshape = graph.op(x.node)
    if reshape.kind not in RESHAPES:
        return None
    if not is_single(graph, scale) or not is_single(graph, zero):
        return MatchFailure("scales differ")
    if not has_one_use(graph, x):
        return MatchFailure("the reshaped value has other readers")
    patch = Patch()
    source, *sizes = graph.inputs(x.node)
    codes = patch.add(op, source, _scalar(graph, patch, scale), _scalar(graph, patch, zero))
    return patch.replace(Value(node), patch.add(reshape, codes, *sizes))


def scale_dequantized(graph: Graph, node: int, op: Multiply) -> Patch | MatchFailure | None:
    """Dequantize(codes, scale) * number = Dequantize(codes, scale * number), as exporters scale
    the keys of attention."""
    found = split_constant_operand(graph, node)
    made = None if found is None else parts(graph, found[0])
    if found is None or made is None or dtype_of(graph, Value(node)) is not DType.f32:
        return None
    dequantize, codes, scale, zero = made
    known = graph.op(scale.node)
    if not isinstance(known, Constant):
        return MatchFailure("the scale is known at run time only")
    with np.errstate(over="ignore", invalid="ignore"):
        factors = known.data.astype(np.float32) * np.float32(found[1])
    if not found[1] > 0 or not np.isfinite(factors).all():
        return MatchFailure("the number is not positive, or too large for the scale")
    if not same_shape(graph, Value(node), found[0]):
        return MatchFailure("the number has a higher rank than the product")
    patch = Patch()
    scaled = patch.add(dequantize, codes, patch.constant(factors, DType.f32), zero)
    return patch.replace(Value(node), scaled)


_RULES: Sequence[Rule] = (
    op_rule("scale_dequantized", (Multiply,), scale_dequantized),
    Rule("move_behind", MOVERS, move_behind),
    Rule("move_weight", tuple(sorted(MOVES)), move_weight),
    op_rule("join_alike", (Concat,), join_alike),
    op_rule("cancel_quantize", (Quantize,), cancel_quantize),
    op_rule("quantize_before_reshape", (Quantize,), quantize_before_reshape),
)

sink_dequantize = Pass("sink_dequantize", lambda options: _RULES)
