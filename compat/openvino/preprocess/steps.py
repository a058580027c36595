"""The steps of openvino.preprocess as functions of free tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....builder import functions as f
from ....builder.tensor import Tensor as Built
from ....builder.tensor import apply, constant
from ....ir import ops as o
from ....ir.dims import Dim
from ....ir.dtype import DType
from ....ir.errors import UsageError
from ..nodes import find_tensor, free_node
from ..types import Layout, Type

_SWAPPED = ("RGB", "BGR", "RGBX", "BGRX")
# How much red, green and blue add to grey (BT.601).
_GREY_WEIGHTS = (0.299, 0.587, 0.114)
_MODES = {
    "RESIZE_LINEAR": "linear",
    "RESIZE_CUBIC": "cubic",
    "RESIZE_NEAREST": "nearest",
    "RESIZE_BILINEAR_PILLOW": "bilinear_pillow",
    "RESIZE_BICUBIC_PILLOW": "bicubic_pillow",
}


@dataclass(frozen=True)
class State:
    """What the steps have made: the tensor (planes of an image before its colours are converted),
    its layout and colours; type, sizes and layout that the model takes."""

    tensors: tuple[Built, ...]
    layout: Layout | None
    color: str
    model_type: DType
    model_layout: Layout | None
    model_shape: tuple[Dim, ...] | None

    @property
    def tensor(self) -> Built:
        """The only tensor. UsageError for an image in planes."""
        if len(self.tensors) > 1:
            raise UsageError(
                "an image in planes cannot be changed before its colours are converted",
                got=self.color,
                fix="call convert_color first",
            )
        return next(iter(self.tensors))

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The tensor's sizes. UsageError where its rank is unknown."""
        shape = self.tensor._tensor_type.shape
        if shape is None:
            raise UsageError("the rank is unknown", got="[...]", expected="a tensor of known rank")
        return shape

    def axis(self, name: str) -> int:
        """The axis of a name. UsageError where the layout has none."""
        return find_axis(self.layout, name, len(self.shape))

    def with_tensor(self, tensor: Built) -> State:
        """The state after a step."""
        return replace(self, tensors=(tensor,))


def find_axis(layout: Layout | None, name: str, rank: int) -> int:
    """The axis of a name, from 0. UsageError where a layout does not have it."""
    if layout is None or not layout.has_name(name):
        raise UsageError(
            f"a step needs to know which axis is {name}",
            got=f"the layout {layout}",
            fix='set_layout(Layout("NHWC"))',
        )
    return layout.get_index_by_name(name) % rank


def convert_type(state: State, dtype: Type | None) -> State:
    """Another element type; the model's where none is given."""
    wanted = state.model_type if dtype is None else dtype.dtype
    return state.with_tensor(f.convert(state.tensor, wanted))


def permute(state: State, order: Sequence[int]) -> State:
    """Axes in another order."""
    layout = state.layout
    if layout is not None and "..." not in layout.names:
        layout = Layout("[" + ",".join(layout.names[i] for i in order) + "]")
    return replace(state.with_tensor(f.transpose(state.tensor, order)), layout=layout)


def convert_layout(state: State, wanted: Layout | None) -> State:
    """Another layout; the model's where none is given."""
    target = wanted or state.model_layout
    if target is None or state.layout is None or state.layout == target:
        return replace(state, layout=target or state.layout)
    order = find_order(state.layout, target, len(state.shape))
    if list(order) == sorted(order):
        return replace(state, layout=target)
    return replace(state.with_tensor(f.transpose(state.tensor, order)), layout=target)


def find_order(source: Layout, target: Layout, rank: int) -> list[int]:
    """Which axis of the source each axis of the target is. UsageError where they do not fit."""
    names, wanted = expand_layout(source, rank), expand_layout(target, rank)
    if sorted(names) != sorted(wanted):
        raise UsageError("a layout cannot be converted", got=str(source), expected=str(target))
    return [names.index(name) for name in wanted]


def expand_layout(layout: Layout, rank: int) -> list[str]:
    """A name for each axis: its own, or its position among those that have none."""
    names = layout.names
    if "..." in names:
        at = names.index("...")
        names = [*names[:at], *["?"] * (rank - len(names) + 1), *names[at + 1 :]]
    if len(names) != rank:
        raise UsageError("a layout has another rank", got=str(layout), expected=f"{rank} axes")
    unknown = iter(range(rank))
    return [f"?{next(unknown)}" if n == "?" else n for n in names]


def _along_channels(state: State, value: Any) -> Built:
    """A number, or one for each channel, as a constant of the tensor's type."""
    array = np.asarray(value, np.float64)
    if array.ndim and array.size > 1:
        shape = [1] * len(state.shape)
        shape[state.axis("C")] = array.size
        array = array.reshape(shape)
    elif array.ndim:
        array = array.reshape(())
    return constant(array, state.tensor.dtype)


def subtract(state: State, value: Any) -> State:
    """Subtract the mean."""
    return state.with_tensor(state.tensor - _along_channels(state, value))


def divide(state: State, value: Any) -> State:
    """Divide by the scale."""
    return state.with_tensor(state.tensor / _along_channels(state, value))


def resize(state: State, algorithm: str, sizes: Sequence[int] | None) -> State:
    """Resize to height and width; the model's where none are given."""
    axes = [state.axis("H"), state.axis("W")]
    if sizes is None:
        rank = len(state.model_shape or ())
        inner = [find_axis(state.model_layout, name, rank) for name in "HW"]
        wanted = [(state.model_shape or ())[a] for a in inner]
        sizes = [d for d in wanted if isinstance(d, int)]
        if len(sizes) < 2:
            raise UsageError(
                "the model has no fixed height and width to resize to",
                got=str(wanted),
                fix="resize(algorithm, height, width)",
            )
    op = o.Interpolate(mode=_MODES[algorithm], shape_calculation_mode="sizes")
    made = apply(op, state.tensor, np.array(sizes, np.int64), np.array(axes, np.int64))
    return state.with_tensor(made)


def crop(state: State, begin: Sequence[int], end: Sequence[int]) -> State:
    """Part of each axis."""
    axes = np.arange(len(begin), dtype=np.int64)
    given = [np.array(v, np.int64) for v in (begin, end, [1] * len(begin))]
    return state.with_tensor(apply(o.Slice(), state.tensor, *given, axes))


def pad(state: State, begin: Sequence[int], end: Sequence[int], value: Any, mode: str) -> State:
    """More elements around."""
    given = [np.array(v, np.int64) for v in (begin, end)]
    scalar = constant(np.asarray(value).reshape(-1)[0], state.tensor.dtype)
    return state.with_tensor(apply(o.Pad(mode), state.tensor, *given, scalar))


def reverse_channels(state: State) -> State:
    """The channels from the last to the first."""
    axis = state.axis("C")
    count = state.shape[axis]
    if not isinstance(count, int):
        raise UsageError("the channels are not counted", got=str(count), expected="a known size")
    order = np.arange(count - 1, -1, -1, dtype=np.int64)
    return state.with_tensor(f.gather(state.tensor, order, axis))


def convert_color(state: State, wanted: str) -> State:
    """Other colours. UsageError for formats that cannot become each other."""
    if state.color == wanted:
        return state
    source = state.color.split("_")[0]
    if source in ("NV12", "I420") and wanted in ("RGB", "BGR"):
        kind: Callable[[], Any] = getattr(o, f"{source}to{wanted}")
        made = replace(state, tensors=(apply(kind(), *state.tensors),), layout=Layout("NHWC"))
    elif state.color in _SWAPPED and wanted in ("RGB", "BGR"):
        made = state
        if state.color.endswith("X"):
            picked = np.arange(3, dtype=np.int64)
            made = made.with_tensor(f.gather(made.tensor, picked, made.axis("C")))
        if state.color[:3] != wanted:
            made = reverse_channels(made)
    elif state.color in ("RGB", "BGR") and wanted == "GRAY":
        made = _make_grey(state)
    else:
        raise UsageError("colours cannot be converted", got=state.color, expected=wanted)
    return replace(made, color=wanted)


def _make_grey(state: State) -> State:
    weights = _GREY_WEIGHTS if state.color == "RGB" else _GREY_WEIGHTS[::-1]
    axis = state.axis("C")
    dtype = state.tensor._dtype
    floats = state.tensor if dtype.is_float else f.convert(state.tensor, "f32")
    shape = [1] * len(state.shape)
    shape[axis] = 3
    scaled = floats * constant(np.array(weights, np.float64).reshape(shape), floats.dtype)
    total = f.reduce_sum(scaled, axis, keep_dims=True)
    if not dtype.is_float:
        total = f.convert(f.round(total), dtype)
    return state.with_tensor(total)


def apply_function(state: State, operation: Callable[[Any], Any]) -> State:
    """What a program's function makes of an Output."""
    made = operation(free_node(state.tensor).output(state.tensor._port))
    return state.with_tensor(find_tensor(made))
