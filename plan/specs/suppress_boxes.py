"""The spec of non-maximum suppression: the best boxes of each class that overlap no better one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ..ranges import COUNT, Range
from ..target import Target
from .base import Operand, Size, Spec, resolver
from .checks import spec_error

MAX_BOXES = 1 << 30  # their numbers have 32 bits


@dataclass(frozen=True)
class SuppressBoxesSpec(Spec):
    """indices[n, c]: the boxes of class c in image n whose scores are finite and above
    `score_threshold`, from the highest score (of equal ones the first box) to the lowest, without
    those whose intersection over union with a box before, in f64, exceeds `iou_threshold`; at most
    `kept` of them, and -1 behind the last. counts[n, c]: how many they are.

    boxes[n, b]: two corners (y, x, y, x), or with `is_centered` (x, y, width, height). keys[n, c],
    corners[n, c] and bounds[n, c] are memory for the candidates' order and for the corners of kept
    boxes, in f64 and rounded to f32; what they hold afterwards is not defined. Buffers: boxes,
    scores, indices, counts, keys, corners, bounds.
    """

    family: ClassVar[str] = "suppress_boxes"
    ranges: ClassVar[Mapping[str, Range]] = {
        "images": COUNT,
        "classes": COUNT,
        "count": (0, MAX_BOXES),
        "kept": (0, MAX_BOXES),
    }

    images: Size
    classes: Size
    count: Size
    kept: Size
    is_centered: bool
    iou_threshold: float
    score_threshold: float
    boxes: Operand
    scores: Operand
    indices: Operand
    counts: Operand
    keys: Operand
    corners: Operand
    bounds: Operand

    def operands(self) -> tuple[Operand, ...]:
        memory = (self.keys, self.corners, self.bounds)
        return (self.boxes, self.scores, self.indices, self.counts, *memory)

    def output_count(self) -> int:
        return 5

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        rows = (self.images, self.classes)
        each, kept = (*rows, self.count), (*rows, self.kept)
        corners = (*rows, 4, self.kept)
        return [(self.images, self.count, 4), each, kept, rows, each, corners, corners]

    def reduced_axes(self) -> tuple[Size, ...]:
        return (self.count,)

    def writes_all(self, at: Callable[[Size], int]) -> bool:
        return False

    def verify(self, target: Target) -> None:
        where, outputs = self.where, (self.indices, self.counts, self.keys)
        if any(o.dtype is not DType.f32 for o in (self.boxes, self.scores)):
            types = self.boxes.dtype, self.scores.dtype
            raise spec_error("no boxes and scores of these types", where, types, "f32")
        corners = self.corners.dtype, self.bounds.dtype
        if any(o.dtype is not DType.i64 for o in outputs) or corners != (DType.f64, DType.f32):
            expected = "i64, and corners in f64 and f32"
            raise spec_error("no outputs of these types", where, (*outputs, *corners), expected)
        if any(o.strides[-1] != 1 for o in (self.keys, self.corners, self.bounds)):
            expected = "elements that follow one another"
            raise spec_error("the kernel's memory is strided", where, self.keys.strides, expected)
        if not (0 <= self.iou_threshold < math.inf and math.isfinite(self.score_threshold)):
            thresholds = self.iou_threshold, self.score_threshold
            expected = "finite numbers, the first 0 or more"
            raise spec_error("thresholds out of range", where, thresholds, expected)

    def distinguishes_denormals(self) -> bool:
        return True

    def flops(self, dims: Sequence[int]) -> int:
        return math.prod(map(resolver(dims), (self.images, self.classes, self.count)))

    def describe(self, size: Callable[[Size], str]) -> str:
        rows = f"{size(self.images)} x {size(self.classes)} of {size(self.count)}"
        return f" {rows}, at most {size(self.kept)}, overlap {self.iou_threshold:g}"
