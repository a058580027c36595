"""Patches of an image as channels: ExtractImagePatches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..math.elementwise import sizes_of
from ..nn.pooling_window import Windows
from ..shape_inference import fresh_symbol, require_rank


@dataclass(frozen=True)
class ExtractImagePatches(Op):
    """Every window of an image [N, C, H, W] as channels [N, kernel * C, rows, columns], ordered by
    position in the window, then by channel. `rates` are dilations."""

    kind: ClassVar[str] = "ExtractImagePatches"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[Port, ...]] = (Port("image"),)
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    rates: tuple[int, ...]
    auto_pad: str

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        image = inputs[0]
        if image is None or not image.is_static:
            return 0
        padded = self.windows().padded_elements(sizes_of(image.shape))
        return padded * image.dtype.numpy.itemsize

    def windows(self) -> Windows:
        """The windows that slide over the image."""
        if len(self.sizes) != 2:
            raise ShapeError("sizes has two numbers", got=list(self.sizes))
        return Windows.of(self.sizes, self.strides, self.rates, (), (), self.auto_pad)

    def infer(self, image: Fact) -> tuple[Type, ...]:
        require_rank(image, "image", 4)
        windows, shape = self.windows(), image.tensor.shape
        if shape is None:
            unknown = tuple(fresh_symbol(self) for _ in range(4))
            return (TensorType(image.tensor.dtype, unknown),)
        area = self.sizes[0] * self.sizes[1]
        out = (shape[0], shape[1] * area, *windows.out_sizes(shape[2:]))
        return (TensorType(image.tensor.dtype, out),)

    def evaluate(self, image: Array) -> tuple[Array, ...]:
        view = self.windows().view(image, 0)
        moved = view.transpose(0, 4, 5, 1, 2, 3)
        out = np.empty(moved.shape, image.dtype)
        out[...] = moved
        area = self.sizes[0] * self.sizes[1] * image.shape[1]
        return (out.reshape(len(image), area, *view.shape[2:4]),)
