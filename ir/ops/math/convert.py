"""Element types changed and values chosen: Convert, ConvertLike, Select."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...dtype import DType
from ...errors import ShapeError, UnsupportedOperationError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.blocks import map_blocks
from ...scalar.builder import Builder, Ref, cast_array
from ...types import TensorType, Type
from ..shape_inference import require_dtype
from .elementwise import BOOLEAN, FLOATS, Elementwise, Unary, holds_sizes


@dataclass(frozen=True)
class Convert(Unary):
    """Each element as `destination_type`: float to integer truncates and saturates, NaN gives 0;
    integers wrap; to boolean: whether it is not 0."""

    kind: ClassVar[str] = "Convert"
    evaluates_shapes: ClassVar[bool] = True
    destination_type: DType

    def infer(self, *facts: Fact | None) -> tuple[Type, ...]:
        assert facts[0] is not None
        return (TensorType(self.destination_type, facts[0].tensor.shape),)

    def output_dtype(self, *dtypes: DType | None) -> DType:
        return self.destination_type

    def program(self, b: Builder, *x: Ref) -> Ref:
        return b.cast(x[0], self.destination_type)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        data = arrays[0]
        assert data is not None
        return (convert_array(data, self.destination_type),)


def convert_array(data: Array, to: DType) -> Array:
    """`data` as `to`; symbolic sizes pass through wide integers."""
    if holds_sizes(data):
        if to not in (DType.i32, DType.i64, DType.u32, DType.u64):
            raise TypeError(f"symbolic sizes cannot become {to}")
        return data
    if to is DType.string or data.dtype == object:
        return _strings(data, to)
    return cast_array(data, to)


def _strings(data: Array, to: DType) -> Array:
    """To or from text, as ONNX's Cast: floats in their shortest form."""
    if to is DType.string:
        out = np.empty(data.shape, dtype=object)
        out.reshape(-1)[:] = [str(v) for v in data.reshape(-1)]
        return out
    # Block by block: Python sees no signal while NumPy reads an array of strings.
    (found,) = map_blocks(
        lambda block: [cast_array(block[0].astype(np.float64), to)], [data], data.shape
    )
    return found


class ConvertLike(Op):
    """Convert to the element type of the second input."""

    kind: ClassVar[str] = "ConvertLike"
    evaluates_shapes: ClassVar[bool] = True
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("like"))

    def infer(self, data: Fact, like: Fact) -> tuple[Type, ...]:
        return (TensorType(like.tensor.dtype, data.tensor.shape),)

    def evaluate(self, data: Array, like: Array) -> tuple[Array, ...]:
        return (convert_array(data, DType.from_numpy(like.dtype)),)


@dataclass(frozen=True)
class ConvertE8M0(Op):
    """Convert to f8e8m0, a power of two: the exponent of |x| rounded up, down or to the nearest.

    Dialect. Not finite gives NaN; so does an overflow, unless `saturate`. Source: ONNX Cast.
    """

    kind: ClassVar[str] = "ConvertE8M0"
    version: ClassVar[int] = 0
    scratch_width: ClassVar[int] = 36
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    round_mode: str = "up"
    saturate: bool = True

    def infer(self, data: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", FLOATS, "a float type")
        if self.round_mode not in ("up", "down", "nearest"):
            raise UnsupportedOperationError("a cast with this round_mode", got=self.round_mode)
        return (TensorType(DType.f8e8m0, data.tensor.shape),)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        bits = np.ascontiguousarray(data.astype(np.float32)).reshape(-1).view(np.uint32)
        exponent, part = (bits >> 23 & 0xFF).astype(np.int64), bits & 0x7FFFFF
        up = part > 0
        if self.round_mode == "nearest":
            # A tie goes up, but in the lowest binade, which has no implicit one before its point.
            up = (part > 0x400000) | ((part == 0x400000) & (exponent > 0))
        rounded = exponent + (up if self.round_mode != "down" else 0)
        rounded = np.minimum(rounded, 254 if self.saturate else 255)
        codes = np.where(exponent == 255, 255, rounded).astype(np.uint8)
        return (codes.view(DType.f8e8m0.numpy).reshape(data.shape),)


@dataclass(frozen=True)
class Select(Elementwise):
    """`then` where the condition holds, else `else`."""

    kind: ClassVar[str] = "Select"
    scalar: ClassVar[str] = "select"
    inputs: ClassVar[tuple[Port, ...]] = (Port("cond"), Port("then"), Port("else"))
    evaluates_shapes: ClassVar[bool] = True
    allowed = frozenset(DType)
    rule = "any type"
    auto_broadcast: str = "numpy"

    def check_dtypes(self, *facts: Fact | None) -> None:
        require_dtype(facts[0], "cond", BOOLEAN, "boolean")
        if facts[1] is None or facts[2] is None:
            raise ShapeError("Select needs three inputs")
        super().check_dtypes(*facts[1:])

    def output_dtype(self, *dtypes: DType | None) -> DType:
        assert dtypes[1] is not None
        return dtypes[1]

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        cond, then, other = arrays
        assert cond is not None and then is not None and other is not None
        if cond.dtype == object:
            raise TypeError("the condition is not decided")
        return (np.where(cond, then, other),)
