"""The spec of squeeze-and-excite: an image's channels, each scaled by what all their means say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from ...ir.dtype import DType
from ...ir.scalar.program import Program
from ...ir.scalar.verify import verify_program
from ..packing.layouts import PackedB, PackedLayout
from ..ranges import COUNT, Range
from ..target import Target
from .base import Operand, PackedOperand, Resolve, Size, Spec, count_instructions, resolver
from .checks import require_types, spec_error, types_of

# Runs of places whose sums are taken apart and joined in order: so many threads share an image,
# and their number changes no bit.
CHUNKS: Final = 8
# More channels, or hidden elements, are not worth one step, and would take much scratch.
MAX_EXCITED: Final = 1 << 14


@dataclass(frozen=True)
class SqueezeExciteSpec(Spec):
    """out[b, p, c] = scale(data[b, p, c], gate[b, c], extras[b, p, c]...), where

        mean[b, c]  = mean(sum over places p of data[b, p, c], their number)
        state[b, h] = squeeze(sum over c of mean[b, c] * down[c, h], squeeze_extras[b, h]...)
        gate[b, c]  = gate(sum over h of state[b, h] * up[h, c], gate_extras[b, c]...)

    All in f32. Places are summed in CHUNKS runs, each by itself, then pairs of runs; the order of
    all sums depends on the sizes and the Target alone. `compute_dtype` bf16: weights are stored so,
    and the programs of means and states round what they give; sums flush denormals.

    Strides of channels are 1 in data and out. The sums of the runs, states and gates have memory of
    their own, because threads that share an image hand them on.
    Buffers: data, down, up, squeeze_extras..., gate_extras..., epilogue_operands..., sums, states,
    gates, out.
    """

    family: ClassVar[str] = "squeeze_excite"
    product_name: ClassVar[str] = "squeeze-and-excites"
    ranges: ClassVar[Mapping[str, Range]] = {
        "batch": COUNT,
        "places": COUNT,
        "channels": (1, MAX_EXCITED),
        "hidden": (1, MAX_EXCITED),
    }

    batch: Size
    places: tuple[Size, ...]
    channels: int
    hidden: int
    data: Operand
    down: Operand
    up: Operand
    down_panels: PackedB
    up_panels: PackedB
    sums: Operand
    states: Operand
    gates: Operand
    out: Operand
    mean: Program
    squeeze: Program
    gate: Program
    scale: Program
    squeeze_extras: tuple[Operand, ...] = ()
    gate_extras: tuple[Operand, ...] = ()
    epilogue_operands: tuple[Operand, ...] = ()
    compute_dtype: DType | None = None

    def operands(self) -> tuple[Operand, ...]:
        read = (self.data, self.down, self.up)
        read = (*read, *self.squeeze_extras, *self.gate_extras, *self.epilogue_operands)
        return (*read, self.sums, self.states, self.gates, self.out)

    def output_count(self) -> int:
        return 4

    def phases(self, at: Resolve, parts: int) -> int:
        """Images are independent. Where they are fewer than threads, these share the sums of each,
        then the states, the gates and the scaling."""
        return 0 if at(self.batch) >= parts else 4

    def may_alias_output(self, operand: int) -> bool:
        """An element is written when all sums are taken, by its consumer."""
        first = 3 + len(self.squeeze_extras) + len(self.gate_extras)
        return operand == 0 or first <= operand < first + len(self.epilogue_operands)

    def computes_in_place(self) -> bool:
        return True

    def packed_operands(self) -> dict[int, PackedOperand]:
        return {
            1: PackedOperand(self.down_panels, self.channels, self.hidden, 1),
            2: PackedOperand(self.up_panels, self.hidden, self.channels, 1),
        }

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        image = (self.batch, *self.places, self.channels)
        states, gates = (self.batch, self.hidden), (self.batch, self.channels)
        down = PackedLayout.of(self.down_panels, self.channels, self.hidden).size
        up = PackedLayout.of(self.up_panels, self.hidden, self.channels).size
        return [
            *(image, (down,), (up,)),
            *[states] * len(self.squeeze_extras),
            *[gates] * len(self.gate_extras),
            *[image] * len(self.epilogue_operands),
            *((self.batch, CHUNKS, self.channels), states, gates, image),
        ]

    def verify(self, target: Target) -> None:
        where = self.where
        if not (1 <= self.channels <= MAX_EXCITED and 1 <= self.hidden <= MAX_EXCITED):
            got = (self.channels, self.hidden)
            raise spec_error("channels are too few or too many", where, got, f"1..{MAX_EXCITED}")
        wanted = excite_panels(self.channels, self.hidden, target.lanes(32))
        if (self.down_panels, self.up_panels) != wanted:
            got = (self.down_panels, self.up_panels)
            raise spec_error("packed panels have another width", where, got, wanted)
        if self.compute_dtype not in (None, DType.bf16):
            got = self.compute_dtype
            raise spec_error("factors that no kernel rounds so", where, got, DType.bf16)
        for operand in (self.data, self.sums, self.states, self.gates, self.out):
            kept = operand is self.out or operand.dtype is DType.f32
            if not kept or operand.strides[-1] != 1:
                got = f"{operand.dtype}, {operand.strides}"
                raise spec_error("an operand is not a plain row", where, got, "f32, last stride 1")
        for operand in (self.down, self.up):
            stored = self.compute_dtype or DType.f32
            if (operand.dtype, operand.strides, operand.offset) != (stored, (1,), 0):
                raise spec_error("packed weights are not plain arrays", where, operand, stored)
        self._verify_programs()

    def _verify_programs(self) -> None:
        f32 = DType.f32
        for program, given, made in (
            (self.mean, (f32, f32), f32),
            (self.squeeze, (f32, *types_of(self.squeeze_extras)), f32),
            (self.gate, (f32, *types_of(self.gate_extras)), f32),
            (self.scale, (f32, f32, *types_of(self.epilogue_operands)), self.out.dtype),
        ):
            require_types(verify_program(program, list(given), self.where), [made], self.where)

    def flops(self, dims: Sequence[int]) -> int:
        at = resolver(dims)
        image = math.prod(map(at, self.places)) * self.channels
        each = image * (1 + count_instructions(self.scale)) + 4 * self.channels * self.hidden
        return at(self.batch) * each

    def compute_unit(self) -> str:
        return str(self.compute_dtype) if self.compute_dtype else super().compute_unit()


def excite_panels(channels: int, hidden: int, lanes: int) -> tuple[PackedB, PackedB]:
    """The panels of both products, of (channels, hidden) and (hidden, channels): two vectors wide,
    or one where that is all."""
    down, up = (lanes if n <= lanes else 2 * lanes for n in (hidden, channels))
    return PackedB(down), PackedB(up)
