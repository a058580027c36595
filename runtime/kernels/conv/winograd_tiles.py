"""How a convolution by Winograd's transform is cut into blocks and register tiles."""

from __future__ import annotations

from ....ir.lazy_dataclass import dataclass
from ....plan.specs.convolution import ConvSpec
from ....plan.target import Target
from ...llvmir.values import F32, I16
from ..gemm.tiling import tile_rows
from .tile_partition import is_epilogue_inline


@dataclass(frozen=True)
class WinogradSchedule:
    """m: side of an output tile; side: of the data it reads; slices: images that a window reads,
    of a convolution of three axes; channels: of all of them; nr: channels of a panel; rows: tiles
    per register tile; few: of a register tile for the last ones of a block, which may be fewer
    (0: as many as others); block: tiles transformed at once, a multiple of `rows`; pitch: elements
    between two tiles' channels in scratch; kr: values of a cell of 32 bits, f32 or pairs of i16;
    unroll: steps along the channels in the body of a loop, at most; inline_epilogue: the epilogue
    is written out for each register of a tile."""

    m: int
    slices: int
    channels: int
    kr: int
    lanes: int
    nr: int
    rows: int
    few: int
    block: int
    pitch: int
    unroll: int
    inline_epilogue: bool

    @property
    def side(self) -> int:
        return self.m + 2

    @property
    def element(self) -> str:
        """The type of data in scratch and of weights."""
        return F32 if self.kr == 1 else I16

    @property
    def points(self) -> int:
        return self.side * self.side


def choose_winograd(spec: ConvSpec, target: Target) -> WinogradSchedule:
    """The plan of a convolution of three spatial axes."""
    m, kr, nr, lanes = spec.packed.winograd, spec.packed.kr, spec.packed.nr, target.lanes(32)
    points, slices = (m + 2) ** 2, spec.window.kernel[0]
    channels = slices * spec.channels
    # A line more than the channels fill: tiles a power of two apart would share cache sets.
    pitch = (-(-channels // (kr * lanes)) * lanes + 16) * kr
    most = tile_rows(target, nr // lanes)
    # Of bytes, half of L2: weights of eight times the size pass through it.
    share = (target.l2 or 256 << 10) // 4 * (3 if kr == 1 else 2)
    room = max(most, share // (4 * points * (pitch // kr + nr)))
    sizes = [s for s in (spec.batch, *spec.out_sizes) if isinstance(s, int)]
    if len(sizes) == 4:
        batch, depth, height, width = sizes
        tiles = max(1, batch * depth * -(-height // m) * -(-width // m))
        blocks = -(-tiles // room)
        block = -(-tiles // blocks)
        strips = -(-block // most)
        rows, few = -(-block // strips), 0
    else:
        rows, few, strips = most, -(-most // 2), max(1, round(room / most))
    inline, unroll = is_epilogue_inline(spec, target, lanes), target.heuristics.conv_unroll
    sizes_of_blocks = (rows, few, strips * rows, pitch)
    return WinogradSchedule(m, slices, channels, kr, lanes, nr, *sizes_of_blocks, unroll, inline)
