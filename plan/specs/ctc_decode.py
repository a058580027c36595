"""The spec of greedy CTC decoding: the most probable classes without blanks and repetitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ..ranges import COUNT, Range
from ..target import Target
from .base import Operand, Size, Spec, resolver
from .checks import FLOATS, INTEGERS, spec_error

# Classes are numbered in 32 bits.
MAX_CLASSES: Final = 1 << 30
INDEX_TYPES: Final = (DType.i32, DType.i64)


@dataclass(frozen=True)
class CTCDecodeSpec(Spec):
    """out[n]: for each step of sequence n the class of the largest element of data[n, t], the first
    of equal ones, NaN larger than every number; without the class `blank` and, with
    `merges_repeated`, without classes that are those of the step before. -1 is behind the last one,
    and count[n] is how many there are.

    With `has_mask`, ends[n, t] is 0 at the first step that does not count; else ends[n] is how many
    steps count, and a number that is not in 0..steps gives status LENGTH_OUT_OF_RANGE. No class is
    status EMPTY_AXIS. f16 and bf16 are compared in f32. Buffers: data, ends, out, count (if any).
    """

    family: ClassVar[str] = "ctc_decode"
    ranges: ClassVar[Mapping[str, Range]] = {
        "sequences": COUNT,
        "steps": COUNT,
        "classes": (0, MAX_CLASSES),
        "blank": (-1, MAX_CLASSES),
    }

    sequences: Size
    steps: Size
    classes: Size
    blank: Size
    merges_repeated: bool
    has_mask: bool
    data: Operand
    ends: Operand
    out: Operand
    count: Operand | None

    def operands(self) -> tuple[Operand, ...]:
        outputs = (self.out,) if self.count is None else (self.out, self.count)
        return (self.data, self.ends, *outputs)

    def output_count(self) -> int:
        return 1 if self.count is None else 2

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        each, steps = (self.sequences,), (self.sequences, self.steps)
        found = [(*steps, self.classes), steps if self.has_mask else each, steps]
        return found if self.count is None else [*found, each]

    def reduced_axes(self) -> tuple[Size, ...]:
        return (self.classes,)

    def verify(self, target: Target) -> None:
        where, data, ends, out = self.where, self.data.dtype, self.ends.dtype, self.out.dtype
        if data not in FLOATS:
            raise spec_error("no probabilities of this type", where, data, "a float type")
        if ends not in (FLOATS if self.has_mask else INTEGERS):
            raise spec_error("no ends of sequences of this type", where, ends, "a mask or lengths")
        if out not in (*FLOATS, *INDEX_TYPES):
            raise spec_error("no classes of this type", where, out, "i32, i64 or a float type")
        if self.count is not None and self.count.dtype not in INDEX_TYPES:
            raise spec_error("no counts of this type", where, self.count.dtype, "i32 or i64")

    def distinguishes_denormals(self) -> bool:
        return True

    def flops(self, dims: Sequence[int]) -> int:
        return math.prod(map(resolver(dims), (self.sequences, self.steps, self.classes)))

    def describe(self, size: Callable[[Size], str]) -> str:
        sizes = f"{size(self.sequences)} x {size(self.steps)} of {size(self.classes)}"
        return f" {sizes}, blank {size(self.blank)}"
