"""The spec of squeeze-and-excite: an image's channels, each scaled by what all their means say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from ...ir.dtype import DType
from ...ir.scalar.program import Program
from ..packing.panel_params import packed_size
from .base import Operand, Size, Spec
from .gemm import PackedB

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

    family: ClassVar[str] = "excite"

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

    def phases(self, at: Callable[[Size], int], parts: int) -> int:
        """Images are independent. Where they are fewer than threads, these share the sums of each,
        then the states, the gates and the scaling."""
        return 0 if at(self.batch) >= parts else 4

    def may_alias_output(self, reader: int) -> bool:
        """Whether `out` may be the memory of this operand: an element is written when all sums are
        taken, by consumer."""
        first = 3 + len(self.squeeze_extras) + len(self.gate_extras)
        return reader == 0 or first <= reader < first + len(self.epilogue_operands)

    def packed_operands(self) -> dict[int, tuple[PackedB, Size, Size]]:
        """Layout, K and N of the operands (by number) that are packed constants."""
        return {
            1: (self.down_panels, self.channels, self.hidden),
            2: (self.up_panels, self.hidden, self.channels),
        }

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        """The iteration space of each operand."""
        image = (self.batch, *self.places, self.channels)
        states, gates = (self.batch, self.hidden), (self.batch, self.channels)
        down = packed_size(self.channels, self.hidden, self.down_panels.nr)
        up = packed_size(self.hidden, self.channels, self.up_panels.nr)
        return [
            *(image, (down,), (up,)),
            *[states] * len(self.squeeze_extras),
            *[gates] * len(self.gate_extras),
            *[image] * len(self.epilogue_operands),
            *((self.batch, CHUNKS, self.channels), states, gates, image),
        ]


def excite_panels(channels: int, hidden: int, lanes: int) -> tuple[PackedB, PackedB]:
    """The panels of both products, of (channels, hidden) and (hidden, channels): two vectors wide,
    or one where that is all."""
    down, up = (lanes if n <= lanes else 2 * lanes for n in (hidden, channels))
    return PackedB(down), PackedB(up)
