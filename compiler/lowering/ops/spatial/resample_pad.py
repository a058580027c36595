"""Axes resampled one after another, or rows and columns at once: Interpolate, Pad, and adaptive
pools of uneven pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .....ir.dims import Dim, Expr, le, maximum
from .....ir.dtype import DType
from .....ir.graph import Graph, Value
from .....ir.lazy_dataclass import dataclass
from .....ir.ops import AdaptiveAvgPool, AdaptiveMaxPool, Constant, Interpolate, Pad
from .....ir.ops.nn.interpolate import Interpolate4
from .....ir.ops.tensor.padding import cropped_elements
from .....ir.types import normalize_axis
from .....plan.specs.resample import (
    COORDINATE_MODES,
    PICKING,
    ROUNDINGS,
    Columns,
    ResampleSpec,
)
from ....strided_view import View, are_equal, coalesce, permute, take
from ...build.region_builder import SizeCollector
from ...build.region_lowering import RegionLowering, require_match
from ...schedule.tensor_layout import MIN_NHWC_CHANNELS
from ..convolution import to_channels_last
from ..data_movement import keep, known_list

Adaptive = AdaptiveAvgPool | AdaptiveMaxPool
AnyInterpolate = Interpolate4 | Interpolate


@dataclass(frozen=True)
class Turn:
    """One axis to resample, by the spec's words."""

    axis: int
    rule: str
    coordinate_mode: str = "asymmetric"
    rounding: str = "floor"
    scale: float | None = None
    coefficient: float = -0.75
    begin: Dim = 0


def _shapes(graph: Graph, node: int) -> tuple[tuple[Dim, ...], tuple[Dim, ...]] | None:
    """The shapes of the first input and the first output."""
    data, out = graph.shape(graph.input(node, 0)), graph.tensor(Value(node)).shape
    return None if out is None else (data, out)


# Interpolate ----------------------------------------------------------------------------------


def refuse_interpolate(graph: Graph, node: int, op: AnyInterpolate) -> str | None:
    """Why no kernel resizes this, or None."""
    found = match_interpolate(graph, node, op)
    return found if isinstance(found, str) else None


def match_interpolate(graph: Graph, node: int, op: AnyInterpolate) -> list[Turn] | str:
    """The axes that an Interpolate resizes, or why no kernel does."""
    shapes = _shapes(graph, node)
    by_scales = op.shape_calculation_mode.lower() == "scales"
    port = 2 if isinstance(op, Interpolate4) and by_scales else 1
    axes_port = 3 if isinstance(op, Interpolate4) else 2
    if shapes is None:
        return "the sizes are known at run time only"
    mode = op.mode.lower()
    rule = {"nearest": "nearest", "cubic": "cubic"}.get(mode, "linear")
    if mode not in ("nearest", "linear", "linear_onnx", "cubic") or (
        op.antialias and mode[0] != "n"
    ):
        return f"no kernel resizes by mode {mode}{' with antialiasing' * op.antialias}"
    mode, rounding = op.coordinate_transformation_mode.lower(), op.nearest_mode.lower()
    if mode not in COORDINATE_MODES or rounding not in ROUNDINGS:
        return f"no kernel resizes by {mode} and {rounding}"
    if any((*op.pads_begin, *op.pads_end)):
        return "paddings before the axes are resized"
    dtype = graph.tensor(Value(node)).dtype
    if rule != "nearest" and not dtype.is_float:
        return f"no kernel interpolates {dtype}"
    inputs = graph.inputs(node)
    has_axes = axes_port < len(inputs) and inputs[axes_port] is not None
    listed = known_list(graph, node, axes_port) if has_axes else list(range(len(shapes[0])))
    given = known_list(graph, node, port)
    if listed is None or given is None:
        return "sizes, scales or axes are known at run time only"
    turns: list[Turn] = []
    for axis, number in zip(listed, given, strict=True):
        at = normalize_axis(int(axis), len(shapes[0]))
        size, out = shapes[0][at], shapes[1][at]
        scale = float(np.float32(number)) if by_scales else None
        if are_equal(size, out) and scale in (None, 1.0):
            continue
        if scale is None and isinstance(size, int) and isinstance(out, int):
            scale = float(np.float32(out) / np.float32(max(size, 1)))
        if scale is None and rule == "nearest" and rounding == "simple":
            return "the rounding depends on a scale that is known at run time only"
        if scale is not None and not 0 < scale < float("inf"):
            return f"a scale of {scale}"
        turns.append(Turn(at, rule, mode, rounding, scale, op.cube_coeff))
    return turns


def lower_interpolate(lowering: RegionLowering, node: int, op: AnyInterpolate) -> None:
    """A step per resized axis, or one for rows and columns."""
    turns = require_match(match_interpolate(lowering.graph, node, op))
    resample(lowering, node, lowering.view(lowering.graph.input(node, 0)), turns)


# Pad ------------------------------------------------------------------------------------------


def refuse_pad(graph: Graph, node: int, op: Pad) -> str | None:
    """Why no kernel pads this, or None."""
    found = match_pad(graph, node, op)
    return found if isinstance(found, str) else None


def match_pad(
    graph: Graph, node: int, op: Pad
) -> tuple[list[Turn], list[tuple[int, Dim, Dim]], int] | str:
    """The axes that grow, those that are cut as (axis, before, after), and the bits outside. A
    padding that a run may make negative or not is both: the other one is 0 then."""
    shapes = _shapes(graph, node)
    begins, ends = known_list(graph, node, 1), known_list(graph, node, 2)
    if shapes is None or begins is None or ends is None:
        return "the paddings are known at run time only"
    rule = op.pad_mode.lower()
    fill = 0
    inputs = graph.inputs(node)
    if rule == "constant" and len(inputs) > 3 and (value := inputs[3]) is not None:
        constant = graph.op(value.node)
        if not isinstance(constant, Constant) or constant.dtype.bits < 8:
            return "the number outside is known at run time only"
        fill = int.from_bytes(constant.data.reshape(-1)[:1].tobytes(), "little", signed=True)
    turns: list[Turn] = []
    cuts: list[tuple[int, Dim, Dim]] = []
    for axis, pair in enumerate(zip(begins, ends, strict=True)):
        begin, end = (n if isinstance(n, Expr) else int(n) for n in pair)
        if not (are_equal(cropped_elements(begin), 0) and are_equal(cropped_elements(end), 0)):
            cuts.append((axis, cropped_elements(begin), cropped_elements(end)))
        if not (le(begin, 0) and le(end, 0)):
            turns.append(Turn(axis, rule, begin=maximum(begin, 0)))
    return turns, cuts, fill


def lower_pad(lowering: RegionLowering, node: int, op: Pad) -> None:
    """A step per padded axis; what is cut away is not looked at."""
    turns, cuts, fill = require_match(match_pad(lowering.graph, node, op))
    view = lowering.view(lowering.graph.input(node, 0))
    for axis, before, after in cuts:
        view = take(view, axis, before, view.shape[axis] - before - after)
    resample(lowering, node, view, turns, fill=fill)


# Adaptive pools -------------------------------------------------------------------------------


def refuse_adaptive(graph: Graph, node: int, op: Adaptive) -> str | None:
    """Why no kernel computes this adaptive pool, or None."""
    if op.output_count() > 1 and graph.use_count(Value(node, 1)):
        return "the indices of the largest elements are read"
    shapes = _shapes(graph, node)
    if shapes is None or known_list(graph, node, 1) is None:
        return "the sizes are known at run time only"
    return None


def lower_adaptive(lowering: RegionLowering, node: int, op: Adaptive) -> None:
    """Means of means, or maxima of maxima, axis by axis: pieces are boxes."""
    view, out = lowering.view(lowering.graph.input(node, 0)), lowering.shape(Value(node))
    rule = "mean" if isinstance(op, AdaptiveAvgPool) else "max"
    turns = [Turn(a, rule) for a in range(2, len(out)) if not are_equal(view.shape[a], out[a])]
    resample(lowering, node, view, turns)


# Steps ----------------------------------------------------------------------------------------


def resample(
    lowering: RegionLowering, node: int, view: View, turns: Sequence[Turn], *, fill: int = 0
) -> None:
    """Emit a step per turn, or one for two turns; the last step writes the result's memory."""
    value, name = Value(node), lowering.name(node)
    if not turns:
        keep(lowering, value, view)
        return
    out = lowering.result(value)
    if turns[0].rule in PICKING and view.dtype is not out.dtype:
        rounded = lowering.region.allocate(out.dtype, view.shape, name)
        lowering.copy(view, rounded, name, lowering.sources(node))
        view = rounded
    if turns[0].rule == "constant":
        fill = _convert_bits(fill, lowering.tensor(value).dtype, out.dtype)
    last = out.rank - 1
    order = list(range(out.rank))
    turned = _are_vectors_of_channels(view) and not _is_channels_last(out)
    if turned or _is_channels_last(out):
        order = [0, *range(2, out.rank), 1]
        view = to_channels_last(lowering, view, name)
    back = [order.index(axis) for axis in range(last + 1)]
    acc = DType.f32 if out.dtype.is_float and out.dtype.bits == 16 else out.dtype
    pending = list(turns)
    while pending:
        count = 2 if _are_rows_and_columns(pending[:2], permute(view, order), order) else 1
        chosen, pending = pending[:count], pending[count:]
        target, final = out, not pending
        if turned or not final:
            between = out.dtype if chosen[0].rule in PICKING or final else acc
            shape = [*view.shape]
            for turn in chosen:
                shape[turn.axis] = out.shape[turn.axis]
            made = lowering.region.allocate(between, [shape[a] for a in order], name)
            target = permute(made, back)
        data, target_view = permute(view, order), permute(target, order)
        _step(lowering, node, data, target_view, order, chosen, acc, fill)
        view = target
    if turned:
        lowering.copy(view, out, name, lowering.sources(node))


def _convert_bits(bits: int, dtype: DType, stored: DType) -> int:
    """The bits of a number of one type as those of the type in which it is stored."""
    if dtype is stored:
        return bits
    number = np.array(bits, f"i{dtype.bits // 8}").view(dtype.numpy).astype(stored.numpy)
    return int.from_bytes(number.tobytes(), "little", signed=True)


def _is_channels_last(view: View) -> bool:
    return view.rank > 2 and are_equal(view.strides[1], 1) and not are_equal(view.shape[1], 1)


def _are_vectors_of_channels(view: View) -> bool:
    """Whether an image is stored in vectors of channels, which are resampled in less time than
    single pixels."""
    channels = view.shape[1] if view.rank > 2 else 0
    many = isinstance(channels, int) and channels >= MIN_NHWC_CHANNELS
    return many and _is_channels_last(view)


def _are_rows_and_columns(turns: Sequence[Turn], data: View, order: Sequence[int]) -> bool:
    """Whether one step resamples both axes: neighbours in the order of memory with vectors behind
    them, picked, or weighed by scales that are known."""
    if len(turns) < 2 or turns[0].rule not in ("nearest", "linear"):
        return False
    same = replace(turns[0], axis=turns[1].axis, scale=turns[1].scale) == turns[1]
    known = turns[0].rule == "nearest" or all(turn.scale is not None for turn in turns)
    rows, columns = (order.index(turn.axis) for turn in turns)
    behind = data.shape[columns + 1 :]
    return same and known and columns == rows + 1 and bool(behind)


def _step(
    lowering: RegionLowering,
    node: int,
    data: View,
    out: View,
    order: Sequence[int],
    turns: Sequence[Turn],
    acc: DType,
    fill: int,
) -> None:
    """One axis, or rows and columns, of views whose axes are in the order of memory."""
    turn, name, sources = turns[0], lowering.name(node), lowering.sources(node)
    axis = order.index(turn.axis)
    collapse = _collapse_axes if len(turns) == 1 else _collapse_around_columns
    target, walked = out, collapse(data, out, axis)
    if walked is None:
        target = lowering.region.allocate(out.dtype, out.shape, name)
        data = lowering.contiguous(data, name)
        walked = collapse(data, target, axis)
    assert walked is not None
    (outer, middle, inner), strides = walked
    sizes = SizeCollector()
    operands = [
        sizes.operand(v, (s[0], v.strides[axis], s[1], s[2]))
        for v, s in zip((data, target), strides, strict=True)
    ]
    columns = None
    if len(turns) == 2:
        columns = Columns(sizes(data.shape[axis + 1]), sizes(out.shape[axis + 1]), turns[1].scale)
    spec = ResampleSpec(
        rule=turn.rule,
        outer=sizes(outer),
        axis=sizes(data.shape[axis]),
        count=sizes(out.shape[axis]),
        middle=sizes(middle),
        inner=sizes(inner),
        data=operands[0],
        out=operands[1],
        acc=acc,
        coordinate_mode=turn.coordinate_mode,
        rounding=turn.rounding,
        scale=turn.scale,
        coefficient=turn.coefficient,
        begin=sizes(turn.begin),
        fill=fill,
        columns=columns,
    )
    work = lowering.vectors(out.shape, out.dtype) * (1 if turn.rule in PICKING else 4 * len(turns))
    lowering.region.kernel(spec, sizes, [data, target], work, name, sources)
    if target != out:
        lowering.copy(target, out, name, sources)


Walked = tuple[tuple[Dim, Dim, Dim], list[tuple[Dim, Dim, Dim]]]


def _collapse_around_columns(data: View, out: View, axis: int) -> Walked | None:
    """(outer, 1, inner) around the axis and the one behind it, and both views' strides along what
    is before them, along the second one and along what is behind; None where they are more."""
    before = coalesce(out.shape[:axis], [v.strides[:axis] for v in (data, out)])
    after = coalesce(out.shape[axis + 2 :], [v.strides[axis + 2 :] for v in (data, out)])
    if len(before[0]) > 1 or len(after[0]) > 1:
        return None
    strides = [
        (near[0] if near else 0, v.strides[axis + 1], far[0] if far else 0)
        for v, near, far in zip((data, out), before[1], after[1], strict=True)
    ]
    return (before[0][0] if before[0] else 1, 1, after[0][0] if after[0] else 1), strides


def _collapse_axes(data: View, out: View, axis: int) -> Walked | None:
    """(outer, middle, inner) around the axis and both views' strides along them, or None where
    they are more than that. Behind the last axis comes what is before it: rows side by side."""
    before = coalesce(out.shape[:axis], [v.strides[:axis] for v in (data, out)])
    after = coalesce(out.shape[axis + 1 :], [v.strides[axis + 1 :] for v in (data, out)])
    if not after[0]:
        before, after = after, before
    if len(before[0]) > 1 or len(after[0]) > 2:
        return None
    outer = before[0][0] if before[0] else 1
    found = (outer, *(1 for _ in range(2 - len(after[0]))), *after[0])
    strides: list[tuple[Dim, Dim, Dim]] = []
    for near, far in zip(before[1], after[1], strict=True):
        listed = (near[0] if near else 0, *(0 for _ in range(2 - len(far))), *far)
        strides.append((listed[0], listed[1], listed[2]))
    return (found[0], found[1], found[2]), strides
