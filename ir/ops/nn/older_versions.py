"""Definitions of earlier operation sets: LSTMCell 1, Interpolate 1, ROIAlign 3, and
NonMaxSuppression 1, 3, 4 and 5. Each is computed as the latest one of its kind."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from ...dims import maximum, minimum
from ...dtype import DType
from ...errors import ShapeError, UnsupportedOperationError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..shape_inference import int_of, known_dims, unique_axes
from .grid_sample_roi import ROIAlign
from .interpolate import Interpolate4
from .nms import NonMaxSuppression
from .recurrent import LSTMCell

GATES = "fico"


class NonMaxSuppression5(NonMaxSuppression):
    """NonMaxSuppression of operation set 5."""

    version: ClassVar[int] = 5


class NonMaxSuppression3(NonMaxSuppression):
    """Only the indices of the boxes, as many as there are: the specification reserves fewer rows
    than there may be boxes, so this follows OpenVINO's CPU plugin."""

    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[Port, ...]] = NonMaxSuppression.inputs[:5]
    outputs: ClassVar[tuple[Port, ...]] = (Port("selected_indices"),)

    def infer(self, boxes: Fact, scores: Fact, *limits: Fact | None) -> tuple[Type, ...]:
        return super().infer(boxes, scores, *limits)[:1]

    def evaluate(self, boxes: Array, scores: Array, *limits: Array | None) -> tuple[Array, ...]:
        return super().evaluate(boxes, scores, *limits)[:1]


class NonMaxSuppression1(NonMaxSuppression3):
    """NonMaxSuppression of operation set 1, whose indices are i64."""

    version: ClassVar[int] = 1


class NonMaxSuppression4(NonMaxSuppression3):
    """The indices of the boxes, and rows of -1 up to the number of boxes that there may be."""

    version: ClassVar[int] = 4

    def infer(self, boxes: Fact, scores: Fact, *limits: Fact | None) -> tuple[Type, ...]:
        (found,) = super().infer(boxes, scores, *limits)
        shape, most = scores.tensor.shape, limits[0] if limits else None
        known = [0] if most is None else known_dims(most)
        if shape is None or not known:
            return (found,)
        rows = minimum(shape[2], maximum(known[0], 0)) * shape[0] * shape[1]
        return (TensorType(self.output_type, (rows, 3)),)

    def evaluate(self, boxes: Array, scores: Array, *limits: Array | None) -> tuple[Array, ...]:
        (found,) = super().evaluate(boxes, scores, *limits)
        most = limits[0] if limits else None
        each = min(scores.shape[2], 0 if most is None else max(int_of(most), 0))
        rows = each * scores.shape[0] * scores.shape[1]
        out = np.full((rows, 3), -1, found.dtype)
        out[: len(found)] = found
        return (out,)


@dataclass(frozen=True)
class ROIAlign3(Op):
    """ROIAlign without aligned modes: regions are at least 1 wide, corners are not shifted."""

    kind: ClassVar[str] = "ROIAlign"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[Port, ...]] = ROIAlign.inputs
    pooled_h: int
    pooled_w: int
    sampling_ratio: int
    spatial_scale: float
    mode: str

    def to_latest(self) -> ROIAlign:
        """The same operation of set 9."""
        return ROIAlign(
            self.pooled_h, self.pooled_w, self.sampling_ratio, self.spatial_scale, self.mode
        )

    def infer(self, data: Fact, rois: Fact, batch_indices: Fact) -> tuple[Type, ...]:
        return self.to_latest().infer(data, rois, batch_indices)

    def evaluate(self, data: Array, rois: Array, batch_indices: Array) -> tuple[Array, ...]:
        return self.to_latest().evaluate(data, rois, batch_indices)


@dataclass(frozen=True)
class Interpolate1(Op):
    """Interpolate whose axes are an attribute; `output_shape` holds their sizes."""

    kind: ClassVar[str] = "Interpolate"
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = (Port("image"), Port("output_shape"))
    axes: tuple[int, ...]
    mode: str
    align_corners: bool = True
    antialias: bool = False
    pads_begin: tuple[int, ...] = ()
    pads_end: tuple[int, ...] = ()

    def to_latest(self, rank: int) -> Interpolate4:
        """The same operation of set 4, for an image of this rank. UnsupportedOperationError for
        mode area."""
        mode = self.mode.lower()
        if mode not in ("nearest", "linear", "cubic"):
            raise UnsupportedOperationError("Interpolate with this mode", got=self.mode)
        if mode == "linear" and rank < 5:
            mode = "linear_onnx"
        return Interpolate4(
            mode,
            "sizes",
            "align_corners" if self.align_corners else "asymmetric",
            "simple",
            self.antialias,
            self.pads_begin,
            self.pads_end,
        )

    def sorted_axes(self, rank: int) -> list[int]:
        """The axes in ascending order: OpenVINO holds them as a set."""
        return sorted(unique_axes(self.axes, rank))

    def infer(self, image: Fact, output_shape: Fact) -> tuple[Type, ...]:
        shape = image.tensor.shape
        if shape is None:
            return (TensorType(image.tensor.dtype, None),)
        axes = np.array(self.sorted_axes(len(shape)), np.int64)
        list_ = TensorType(DType.i64, axes.shape)
        scales = Fact(TensorType(DType.f32, axes.shape))
        return self.to_latest(len(shape)).infer(image, output_shape, scales, Fact(list_, axes))

    def evaluate(self, image: Array, output_shape: Array) -> tuple[Array, ...]:
        axes = np.array(self.sorted_axes(image.ndim), np.int64)
        scales = np.ones(len(axes), np.float32)
        return self.to_latest(image.ndim).evaluate(image, output_shape, scales, axes)


@dataclass(frozen=True)
class LSTMCell1(LSTMCell):
    """LSTMCell with a choice of the order of gates: `weights_format` is fico, ifco, ..."""

    version: ClassVar[int] = 1
    input_forget: bool = False
    weights_format: str = GATES

    def gate_order(self) -> list[int]:
        """Where the gates f, i, c, o are in the weights. ShapeError for another format."""
        order = self.weights_format.lower()
        if sorted(order) != sorted(GATES):
            raise ShapeError("weights_format does not name the gates", got=self.weights_format)
        if self.input_forget:
            raise UnsupportedOperationError("LSTMCell with coupled gates (input_forget)")
        return [order.index(gate) for gate in GATES]

    def to_latest(self) -> LSTMCell:
        """The same operation of set 4, for weights in its order of gates."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(LSTMCell)}
        return LSTMCell(**fields)

    def infer(self, *facts: Fact | None) -> tuple[Type, ...]:
        self.gate_order()
        return super().infer(*facts)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        order, states = self.gate_order(), 3
        moved = [
            a if a is None else np.concatenate([np.split(a, 4)[n] for n in order])
            for a in arrays[states:]
        ]
        return self.to_latest().evaluate(*arrays[:states], *moved)
