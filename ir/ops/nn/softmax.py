"""Softmax and its logarithm along one axis."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...dtype import DType
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.builder import cast_array
from ...types import Type, normalize_axis
from ..math.elementwise import FLOATS
from ..shape_inference import require_dtype


@dataclass(frozen=True)
class _AlongAxis(Op):
    """Base. exp(x - max x) / sum exp(x - max x), computed in f64 and rounded once."""

    scratch_width: ClassVar[int] = 36
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    log: ClassVar[bool] = False
    axis: int

    def infer(self, data: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", FLOATS, "a float type")
        if data.tensor.shape is not None:
            normalize_axis(self.axis, len(data.tensor.shape))
        return (data.tensor,)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        return (softmax(data, self.axis, log=self.log),)


def softmax(data: Array, axis: int, *, log: bool = False) -> Array:
    """Softmax (or its logarithm) of an array along an axis, in the array's type."""
    with np.errstate(all="ignore"):
        wide = data.astype(np.float64)
        shifted = wide - np.max(wide, axis=axis, keepdims=True, initial=-np.inf)
        grown = np.exp(shifted)
        total = np.sum(grown, axis=axis, keepdims=True)
        result = shifted - np.log(total) if log else grown / total
    return cast_array(result, DType.from_numpy(data.dtype))


@dataclass(frozen=True)
class Softmax1(_AlongAxis):
    """Softmax of operation set 1."""

    kind: ClassVar[str] = "Softmax"
    axis: int = 1


@dataclass(frozen=True)
class Softmax(_AlongAxis):
    kind: ClassVar[str] = "Softmax"
    version: ClassVar[int] = 8
    axis: int = 1


@dataclass(frozen=True)
class LogSoftmax(_AlongAxis):
    kind: ClassVar[str] = "LogSoftmax"
    version: ClassVar[int] = 5
    log: ClassVar[bool] = True
    axis: int = 1
