"""Random values, and FakeConvert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...dtype import DType
from ...errors import UnsupportedOperationError
from ...op import Array, Effects, Fact, Op, Port
from ...scalar.builder import cast_array
from ...types import TensorType, Type
from ..random_seed import make_generator
from ..shape_inference import (
    count_of,
    ints_of,
    known_dims,
    one_dtype,
    require_dtype,
    require_single,
    unknown_shape,
)
from .elementwise import FLOATS


@dataclass(frozen=True)
class RandomUniform(Op):
    """Values drawn evenly from [min, max). The same two seeds (not both 0) give the same values
    in every run; they are not OpenVINO's values. Without seeds, `set_seed` decides."""

    kind: ClassVar[str] = "RandomUniform"
    version: ClassVar[int] = 8
    scratch_width: ClassVar[int] = 16
    effects: ClassVar[Effects] = Effects.RANDOM
    inputs: ClassVar[tuple[Port, ...]] = (Port("shape"), Port("minval"), Port("maxval"))
    output_type: DType
    global_seed: int = 0
    op_seed: int = 0
    alignment: str = "tensorflow"

    def infer(self, shape: Fact, minval: Fact, maxval: Fact) -> tuple[Type, ...]:
        one_dtype(minval, maxval)
        require_single(minval, "minval")
        require_single(maxval, "maxval")
        sizes, count = known_dims(shape), count_of(shape)
        if sizes is not None:
            return (TensorType(self.output_type, tuple(sizes)),)
        unknown = None if count is None else unknown_shape(self, count)
        return (TensorType(self.output_type, unknown),)

    def evaluate(self, shape: Array, minval: Array, maxval: Array) -> tuple[Array, ...]:
        seeded = self.global_seed or self.op_seed
        seeds = [self.global_seed, self.op_seed]
        generator = np.random.default_rng(seeds) if seeded else make_generator()
        low, high = (a.reshape(-1)[0] for a in (minval, maxval))
        if self.output_type.is_int:
            drawn = generator.integers(int(low), int(high), ints_of(shape))
        else:
            drawn = generator.uniform(float(low), float(high), ints_of(shape))
        made = cast_array(np.asarray(drawn), self.output_type)
        if self.output_type.is_float and low < high:
            # Rounding to the output's type may reach the bound, which is not in the interval.
            made = np.where(made >= high, np.nextafter(high, low), made)
        return (made,)


@dataclass(frozen=True)
class FakeConvert(Op):
    """x * scale - shift, rounded to a float8 type, and back: (y + shift) / scale."""

    kind: ClassVar[str] = "FakeConvert"
    version: ClassVar[int] = 13
    scratch_width: ClassVar[int] = 12
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("data"),
        Port("scale"),
        Port("shift", optional=True),
    )
    destination_type: str = "f8e4m3"

    def infer(self, data: Fact, scale: Fact, shift: Fact | None = None) -> tuple[Type, ...]:
        one_dtype(data, scale, shift)
        require_dtype(data, "data", FLOATS, "a float type")
        if self.destination_type.lower() not in ("f8e4m3", "f8e5m2"):
            raise UnsupportedOperationError(
                "FakeConvert to this type", got=self.destination_type, expected="f8e4m3, f8e5m2"
            )
        return (data.tensor,)

    def evaluate(self, data: Array, scale: Array, shift: Array | None = None) -> tuple[Array, ...]:
        by, to = scale.astype(np.float32), DType(self.destination_type.lower())
        add = np.zeros((), np.float32) if shift is None else shift.astype(np.float32)
        rounded = cast_array(data.astype(np.float32) * by - add, to).astype(np.float32)
        return (cast_array((rounded + add) / by, DType.from_numpy(data.dtype)),)
