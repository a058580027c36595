"""Prior boxes of SSD detectors: PriorBox and PriorBoxClustered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...dims import Dim
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..math.elementwise import INTEGERS
from ..shape_inference import count_of, fresh_symbol, ints_of, known_dims, require_dtype

F32 = np.float32
# Boxes per cell that a file may list: detectors have up to some tens.
MAX_PRIORS = 4096
# One prior per row: shift of the centre in x and y, half width, half height, and whether the
# corners are clipped on one side each.
_Priors = Array


class _PriorBoxes(Op, ABC):
    """Boxes [2, H * W * priors * 4] in f32: corners (x0, y0, x1, y1) divided by the image's size,
    then their variances."""

    inputs: ClassVar[tuple[Port, ...]] = (Port("output_size"), Port("image_size"))
    scratch_copies: ClassVar[int] = 3

    @abstractmethod
    def prior_count(self) -> int:
        """Boxes per cell. ShapeError where the attributes contradict each other."""

    def infer(self, output_size: Fact, image_size: Fact) -> tuple[Type, ...]:
        for name, fact in (("output_size", output_size), ("image_size", image_size)):
            require_dtype(fact, name, INTEGERS, "an integer type")
            if count_of(fact) not in (None, 2):
                raise ShapeError(f"{name} holds height and width", got=fact.type, expected="[2]")
        cells: list[Dim] | None = known_dims(output_size)
        height, width = cells or (fresh_symbol(self), fresh_symbol(self))
        return (TensorType(DType.f32, (2, height * width * (4 * self.prior_count()))),)


def _variances(given: Sequence[float], boxes: int) -> Array:
    """Four variances for each box; 0.1 where none is given."""
    if len(given) not in (0, 1, 4):
        raise ShapeError("variance has 0, 1 or 4 numbers", got=list(given))
    return np.broadcast_to(np.array(given or (0.1,), F32), (boxes, 4)).reshape(-1)


@dataclass(frozen=True)
class PriorBox1(_PriorBoxes):
    """Priors of all sizes and aspect ratios around the centre of each cell.

    Sizes are in pixels, or relative to the image's height unless `scale_all_sizes`. Fixed sizes
    are on a grid of density x density centres within the cell.
    """

    kind: ClassVar[str] = "PriorBox"
    version: ClassVar[int] = 1
    offset: float
    min_size: tuple[float, ...] = ()
    max_size: tuple[float, ...] = ()
    aspect_ratio: tuple[float, ...] = ()
    flip: bool = False
    clip: bool = False
    step: float = 0.0
    variance: tuple[float, ...] = ()
    scale_all_sizes: bool = True
    fixed_ratio: tuple[float, ...] = ()
    fixed_size: tuple[float, ...] = ()
    density: tuple[float, ...] = ()

    @property
    def _max_size_first(self) -> bool:
        """Whether the box of the maximum size precedes those of the aspect ratios."""
        return True

    def prior_count(self) -> int:
        ratios = 1 + 2 * max(len(self.aspect_ratio), len(self.fixed_ratio))
        points = len(self.min_size) + sum(max(d, 1) ** 2 for d in self.density)
        if ratios * points > MAX_PRIORS or max(ratios, len(self.max_size)) > MAX_PRIORS:
            raise ShapeError(
                "PriorBox lists too many boxes per cell",
                got=f"{ratios} ratios of {points} boxes",
                expected=f"at most {MAX_PRIORS} boxes",
            )
        sizes = (*self.min_size, *self.max_size, *self.fixed_size)
        if any(not size >= 0 for size in sizes):
            raise ShapeError("a size of PriorBox is negative", got=list(sizes))
        priors = self._priors(1.0)
        if len(priors) != self._declared_count():
            raise ShapeError(
                "the sizes and ratios of PriorBox do not fit together",
                got=f"{len(priors)} boxes",
                expected=f"{self._declared_count()}, as OpenVINO counts them",
            )
        return len(priors)

    def _ratios(self) -> list[float]:
        """Aspect ratios besides 1, each once."""
        found = [1.0]
        if any(r <= 0 for r in (*self.aspect_ratio, *self.fixed_ratio)):
            raise ShapeError("an aspect ratio is not positive", got=list(self.aspect_ratio))
        for ratio in self.aspect_ratio:
            if all(abs(ratio - r) >= 1e-6 for r in found):
                found += [ratio, 1 / ratio] if self.flip else [ratio]
        return found[1:]

    def _declared_count(self) -> int:
        ratios = len(self._ratios()) + 1
        if self.fixed_size:
            per_point = len(self.fixed_ratio) or ratios
            count = ratios * len(self.fixed_size)
            return count + sum(per_point * (int(d) ** 2 - 1) for d in self.density)
        if self.scale_all_sizes:
            return ratios * len(self.min_size) + len(self.max_size)
        return ratios + len(self.min_size) - 1

    def _priors(self, scale: float) -> _Priors:
        """The priors of one cell; `scale` multiplies the minimum sizes."""
        rows: list[list[float]] = []
        if self.fixed_size and len(self.density) != len(self.fixed_size):
            raise ShapeError(
                "density has one number per fixed size",
                got=len(self.density),
                expected=len(self.fixed_size),
            )
        if any(d < 1 for d in self.density):
            raise ShapeError("a density is less than 1", got=list(self.density))
        for size, density in zip(self.fixed_size, self.density, strict=False):
            rows += self._fixed_boxes(size, int(density))
        sizes = [size * scale for size in self.min_size]
        for n, size in enumerate(sizes):
            rows.append([0, 0, size / 2, size / 2, 0])
            largest: list[list[float]] = []
            if n < len(self.max_size):
                side = float(np.sqrt(F32(size) * F32(self.max_size[n]))) / 2
                largest = [[0, 0, side, side, 0]]
            shaped: list[list[float]] = []
            if self.scale_all_sizes or n == len(sizes) - 1:
                base = size if self.scale_all_sizes else sizes[0]
                roots = np.sqrt(np.array(self._ratios(), F32))
                shaped = [[0, 0, base / 2 * r, base / 2 / r, 0] for r in roots.tolist()]
            rows += largest + shaped if self._max_size_first else shaped + largest
        return np.array(rows, F32).reshape(-1, 5)

    def _fixed_boxes(self, size: float, density: int) -> list[list[float]]:
        shift = int(size / density)
        first = (shift - size) / 2
        halves: list[tuple[float, float]] = []
        ratios = self.fixed_ratio or self._ratios()
        if not self.fixed_ratio:
            halves.append((size / 2, size / 2))
        halves += [(size / 2 * r, size / 2 / r) for r in np.sqrt(np.array(ratios, F32)).tolist()]
        return [
            [first + c * shift, first + r * shift, w, h, 1]
            for w, h in halves
            for r in range(density)
            for c in range(density)
        ]

    def evaluate(self, output_size: Array, image_size: Array) -> tuple[Array, ...]:
        (height, width), (image_height, image_width) = ints_of(output_size), ints_of(image_size)
        step, scale = self.step, 1.0
        if not self.scale_all_sizes:
            scale = float(image_height)
            step = image_height / max(height, 1) if step == -1 else step * image_height
        steps, shift = (step, step), self.offset
        if step == 0:
            steps, shift = (image_width / max(width, 1), image_height / max(height, 1)), 0.5
        x, y = (
            (np.arange(n, dtype=F32) + F32(shift)) * F32(s)
            for n, s in zip((width, height), steps, strict=True)
        )
        priors = self._priors(scale)
        centre = np.empty((height, width, len(priors), 2), F32)
        centre[..., 0] = x[None, :, None] + priors[:, 0]
        centre[..., 1] = y[:, None, None] + priors[:, 1]
        half, sides = priors[:, 2:4], np.array([image_width, image_height], F32)
        low, high = (centre - half) * (F32(1) / sides), (centre + half) * (F32(1) / sides)
        fixed = priors[:, 4:] > 0
        low, high = (
            np.where(fixed, np.maximum(low, 0), low),
            np.where(fixed, np.minimum(high, 1), high),
        )
        boxes = np.concatenate([low, high], axis=-1).reshape(-1, 4)
        if self.clip:
            boxes = np.clip(boxes, 0, 1)
        return (np.stack([boxes.reshape(-1), _variances(self.variance, len(boxes))]),)


@dataclass(frozen=True)
class PriorBox(PriorBox1):
    """PriorBox with a choice of the order of boxes: `min_max_aspect_ratios_order` puts the maximum
    size before the aspect ratios."""

    version: ClassVar[int] = 8
    min_max_aspect_ratios_order: bool = True

    @property
    def _max_size_first(self) -> bool:
        return self.min_max_aspect_ratios_order


@dataclass(frozen=True)
class PriorBoxClustered(_PriorBoxes):
    """Priors of the given widths and heights, in pixels, around the centre of each cell."""

    kind: ClassVar[str] = "PriorBoxClustered"
    version: ClassVar[int] = 1
    offset: float
    width: tuple[float, ...] = (1.0,)
    height: tuple[float, ...] = (1.0,)
    clip: bool = False
    step: float = 0.0
    step_w: float = 0.0
    step_h: float = 0.0
    variance: tuple[float, ...] = ()

    def prior_count(self) -> int:
        if len(self.width) != len(self.height):
            raise ShapeError(
                "width and height of PriorBoxClustered have one number per box",
                got=f"{len(self.width)} and {len(self.height)}",
            )
        return len(self.width)

    def evaluate(self, output_size: Array, image_size: Array) -> tuple[Array, ...]:
        (height, width), (image_height, image_width) = ints_of(output_size), ints_of(image_size)
        step_w, step_h = self.step_w or self.step, self.step_h or self.step
        if step_w == 0 and step_h == 0:
            step_w, step_h = image_width / max(width, 1), image_height / max(height, 1)
        parts: list[Any] = []
        for axis, (n, step, sides, image) in enumerate(
            ((width, step_w, self.width, image_width), (height, step_h, self.height, image_height))
        ):
            centre = (np.arange(n, dtype=F32) + F32(self.offset)) * F32(step)
            half = np.array(sides, F32) / 2
            for sign in (-1, 1):
                ends = (centre[:, None] + sign * half) / F32(image)
                shaped = ends[None] if axis == 0 else ends[:, None]
                parts.append(np.broadcast_to(shaped, (height, width, len(half))))
        boxes = np.stack([parts[0], parts[2], parts[1], parts[3]], axis=-1).reshape(-1, 4)
        if self.clip:
            boxes = np.clip(boxes, 0, 1)
        return (np.stack([boxes.reshape(-1), _variances(self.variance, len(boxes))]),)
