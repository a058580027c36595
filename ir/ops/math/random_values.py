"""Random values: RandomUniform and Multinomial; and FakeConvert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...dtype import DType
from ...errors import ShapeError, UnsupportedOperationError
from ...lazy_dataclass import dataclass
from ...op import Array, Effects, Fact, Op, Port
from ...random_seed import make_generator
from ...scalar.builder import cast_array
from ...types import TensorType, Type
from ..shape_inference import (
    count_of,
    fresh_symbol,
    int_of,
    ints_of,
    known_dims,
    one_dtype,
    require_dtype,
    require_rank,
    require_single,
    unknown_shape,
)
from .elementwise import FLOATS, INTEGERS


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
class Multinomial(Op):
    """Classes drawn by their probabilities [N, C] (or [C]): [N, samples] numbers of classes.

    Rows need not sum to 1; `log_probs`: they are logarithms. Without replacement a class is drawn
    once. Seeds are as those of RandomUniform.
    """

    kind: ClassVar[str] = "Multinomial"
    version: ClassVar[int] = 13
    effects: ClassVar[Effects] = Effects.RANDOM
    inputs: ClassVar[tuple[Port, ...]] = (Port("probs"), Port("num_samples"))
    convert_type: DType
    with_replacement: bool
    log_probs: bool
    global_seed: int = 0
    op_seed: int = 0

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        probs = inputs[0]
        # Logarithms, weights and their sums in f64; draws and classes in 8 bytes.
        return 32 * outputs[0].elements + (0 if probs is None else 40 * probs.elements)

    def infer(self, probs: Fact, num_samples: Fact) -> tuple[Type, ...]:
        require_dtype(probs, "probs", FLOATS, "a float type")
        require_rank(probs, "probs", 1, 2)
        require_dtype(num_samples, "num_samples", INTEGERS, "an integer type")
        require_single(num_samples, "num_samples")
        if self.convert_type not in (DType.i32, DType.i64):
            raise ShapeError("convert_type is not i32 or i64", got=self.convert_type)
        known, shape = known_dims(num_samples), probs.tensor.shape
        count = known[0] if known else fresh_symbol(self)
        return (TensorType(self.convert_type, None if shape is None else (*shape[:-1], count)),)

    def evaluate(self, probs: Array, num_samples: Array) -> tuple[Array, ...]:
        count, classes = int_of(num_samples), probs.shape[-1]
        if count < 0 or (not self.with_replacement and count > classes) or not classes:
            raise ShapeError(
                "num_samples is out of range",
                got=count,
                expected="0 or more" if self.with_replacement else f"0..{classes}",
            )
        log = probs.astype(np.float64)
        log = log if self.log_probs else np.log(log)
        seeded = self.global_seed or self.op_seed
        seeds = [self.global_seed, self.op_seed]
        generator = np.random.default_rng(seeds) if seeded else make_generator()
        if self.with_replacement:
            weights = np.cumsum(np.exp(log - log.max(axis=-1, keepdims=True)), axis=-1)
            rows = weights.reshape(-1, classes)
            drawn = generator.random((len(rows), count)) * rows[:, -1:]
            pairs = zip(rows, drawn, strict=True)
            found: list[Any] = [np.searchsorted(row, at, "right") for row, at in pairs]
            out = np.minimum(np.array(found, np.int64).reshape(len(rows), count), classes - 1)
        else:
            # The largest of the logarithms, each with Gumbel noise, are a draw without replacement.
            noisy = log + generator.gumbel(size=log.shape)
            out = np.argsort(-noisy, axis=-1, kind="stable")[..., :count]
        return (out.reshape(*probs.shape[:-1], count).astype(self.convert_type.numpy),)


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
