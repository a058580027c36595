"""openvino.preprocess: conversions of inputs and outputs that become part of a model's graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeVar

from ...nearest import NamesNearest
from ..model import Model
from ..ports import find_port
from ..types import Layout, PartialShape, Type
from . import steps
from .build import build_input, build_output

_T = TypeVar("_T", bound="_StepChain")


class ColorFormat(Enum):
    """What the channels of an image are."""

    UNDEFINED = 0
    NV12_SINGLE_PLANE = 1
    NV12_TWO_PLANES = 2
    I420_SINGLE_PLANE = 3
    I420_THREE_PLANES = 4
    RGB = 5
    BGR = 6
    GRAY = 7
    RGBX = 8
    BGRX = 9


class ResizeAlgorithm(Enum):
    """How an image is resized."""

    RESIZE_LINEAR = 0
    RESIZE_CUBIC = 1
    RESIZE_NEAREST = 2
    RESIZE_BILINEAR_PILLOW = 3
    RESIZE_BICUBIC_PILLOW = 4


class PaddingMode(Enum):
    """What an image is padded with."""

    CONSTANT = 0
    REFLECT = 1
    SYMMETRIC = 2


class TensorInfo(NamesNearest):
    """What a program passes or receives: type, layout, shape, colours."""

    def __init__(self) -> None:
        self.dtype: Type | None = None
        self.layout: Layout | None = None
        self.shape: PartialShape | None = None
        self.height_width: tuple[int, int] | None = None
        self.color = ColorFormat.UNDEFINED
        self.plane_names: list[str] = []

    def set_element_type(self, type: Any) -> TensorInfo:
        """The element type."""
        self.dtype = Type(type)
        return self

    def set_layout(self, layout: Any) -> TensorInfo:
        """What the axes mean."""
        self.layout = Layout(layout)
        return self

    def set_shape(self, shape: Any) -> TensorInfo:
        """The shape."""
        self.shape = PartialShape(shape)
        return self

    def set_spatial_static_shape(self, height: int, width: int) -> TensorInfo:
        """The height and width of an image that is resized."""
        self.height_width = (height, width)
        return self

    def set_spatial_dynamic_shape(self) -> TensorInfo:
        """Any height and width."""
        self.height_width = (-1, -1)
        return self

    def set_color_format(self, format: ColorFormat, sub_names: Sequence[str] = ()) -> TensorInfo:
        """What the channels are; `sub_names` end the names of a format's planes."""
        self.color, self.plane_names = format, list(sub_names)
        return self

    def set_memory_type(self, memory_type: str) -> TensorInfo:
        """Accepted: a CPU has one memory."""
        return self

    def set_from(self, runtime_tensor: Any) -> TensorInfo:
        """Type and shape of a Tensor."""
        array = getattr(runtime_tensor, "data", runtime_tensor)
        return self.set_element_type(array.dtype).set_shape(list(array.shape))


class ModelInfo(NamesNearest):
    """What the model itself takes or gives."""

    def __init__(self) -> None:
        self.layout: Layout | None = None

    def set_layout(self, layout: Any) -> ModelInfo:
        """What the axes mean."""
        self.layout = Layout(layout)
        return self


class _StepChain(NamesNearest):
    """Steps in order: functions of the state of an input or output."""

    def __init__(self) -> None:
        self.steps: list[Callable[[steps.State], steps.State]] = []
        # Permutations of explicit layout conversions, and whether a step resizes.
        self.orders: list[Sequence[int]] = []
        self.resizes = False

    def _add(self: _T, function: Callable[..., steps.State], *values: Any) -> _T:
        self.steps.append(lambda state: function(state, *values))
        return self

    def convert_element_type(self: _T, type: Any = None) -> _T:
        """Another element type (default: the model's)."""
        return self._add(steps.convert_type, None if type is None else Type(type))

    def convert_layout(self: _T, dst_layout: Any = None) -> _T:
        """Another order of the axes: a Layout, or the axes in their new order."""
        if isinstance(dst_layout, list | tuple):
            self.orders.append(dst_layout)
            return self._add(steps.permute, dst_layout)
        return self._add(steps.convert_layout, None if dst_layout is None else Layout(dst_layout))

    def custom(self: _T, operation: Callable[[Any], Any]) -> _T:
        """What a function makes of an Output, by functions of an opset module."""
        return self._add(steps.apply_function, operation)


class PreProcessSteps(_StepChain):
    """Steps from what a program passes to what the model takes."""

    def mean(self, value: Any) -> PreProcessSteps:
        """Subtract a number, or one for each channel."""
        return self._add(steps.subtract, value)

    def scale(self, value: Any) -> PreProcessSteps:
        """Divide by a number, or one for each channel."""
        return self._add(steps.divide, value)

    def resize(self, alg: ResizeAlgorithm, *sizes: int, **named: int) -> PreProcessSteps:
        """Resize the image to height and width (default: the model's)."""
        given = sizes or tuple(named[k] for k in ("dst_height", "dst_width") if k in named)
        self.resizes = True
        return self._add(steps.resize, alg.name, given or None)

    def crop(self, begin: Sequence[int], end: Sequence[int]) -> PreProcessSteps:
        """The elements from `begin` to before `end`, by axis."""
        return self._add(steps.crop, begin, end)

    def pad(
        self, pads_begin: Sequence[int], pads_end: Sequence[int], value: Any, mode: PaddingMode
    ) -> PreProcessSteps:
        """More elements before and after, by axis."""
        return self._add(steps.pad, pads_begin, pads_end, value, mode.name.lower())

    def reverse_channels(self) -> PreProcessSteps:
        """The channels in reverse order."""
        return self._add(steps.reverse_channels)

    def convert_color(self, dst_format: ColorFormat) -> PreProcessSteps:
        """Other channels: of NV12, I420, RGB, BGR and such with a fourth one."""
        return self._add(steps.convert_color, dst_format.name)


class PostProcessSteps(_StepChain):
    """Steps from what the model gives to what a program receives."""


class InputInfo(NamesNearest):
    """One input."""

    def __init__(self) -> None:
        self._tensor, self._steps, self._model = TensorInfo(), PreProcessSteps(), ModelInfo()

    def tensor(self) -> TensorInfo:
        """What a program passes."""
        return self._tensor

    def preprocess(self) -> PreProcessSteps:
        """The steps between."""
        return self._steps

    def model(self) -> ModelInfo:
        """What the model takes."""
        return self._model


class OutputInfo(NamesNearest):
    """One output."""

    def __init__(self) -> None:
        self._tensor, self._steps, self._model = TensorInfo(), PostProcessSteps(), ModelInfo()

    def tensor(self) -> TensorInfo:
        """What a program receives."""
        return self._tensor

    def postprocess(self) -> PostProcessSteps:
        """The steps between."""
        return self._steps

    def model(self) -> ModelInfo:
        """What the model gives."""
        return self._model


class PrePostProcessor(NamesNearest):
    """Describes inputs and outputs as a program has them; `build` changes the model for that."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._inputs = [InputInfo() for _ in model.inputs]
        self._outputs = [OutputInfo() for _ in model.outputs]

    def input(self, key: Any = None) -> InputInfo:
        """The only input, or one by name or position."""
        return self._inputs[_position(self._model.inputs, key)]

    def output(self, key: Any = None) -> OutputInfo:
        """The only output, or one by name or position."""
        return self._outputs[_position(self._model.outputs, key)]

    def build(self) -> Model:
        """The model, changed."""
        model = self._model
        graph = model.graph.copy()
        for node, info in zip(list(graph.parameters), self._inputs, strict=True):
            build_input(graph, node, info.tensor(), info.preprocess(), info.model().layout)
        for node, info in zip(list(graph.results), self._outputs, strict=True):
            build_output(graph, node, info.tensor(), info.postprocess(), info.model().layout)
        model.replace_graph(graph)
        return model


def _position(ports: Sequence[Any], key: Any) -> int:
    return ports.index(find_port(ports, key))
