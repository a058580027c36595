"""Specs of sliding windows: convolution and pooling over 1 to 3 spatial axes.

Operands walk (batch, channel, spatial...), whatever the memory order is: strides say it, so that
channels-last and channels-first are the same spec with other strides. A window's tap that falls
outside the data is left out of the sum (it is not multiplied by a zero).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ...ir.dtype import DType
from ...ir.errors import VerificationError
from ...ir.lazy_dataclass import dataclass
from ...ir.scalar.program import Program
from ...ir.scalar.verify import verify_program
from ..packing.layouts import PackedB, PackedConv, PackedLayout
from ..packing.panel_params import (
    BF16_STEP_VALUES,
    BYTES,
    conv_cells,
    multiplies_pairs,
    panel_width,
)
from ..ranges import CHANNELS, COUNT, MAX_CHANNELS, MAX_ELEMENTS, MAX_TAPS, OFFSET, STEP, Range
from ..target import Target
from .base import Operand, PackedOperand, Resolve, Size, Spec, count_instructions, resolver
from .checks import (
    require_bf16,
    require_one_of,
    require_types,
    require_widening,
    spec_error,
    types_of,
)
from .gemm import GemmSpec

# Pixels of a row, and rows, that copies of data reach over at most; taps that are listed.
_REACH = 1 << 10


@dataclass(frozen=True)
class Window:
    """How windows slide over the spatial axes: output pixel o and tap k meet the data at
    o * stride - pad + k * dilation. Paddings at the end follow from the sizes."""

    ranges: ClassVar[Mapping[str, Range]] = {
        "kernel": (1, MAX_TAPS),
        "strides": STEP,
        "dilations": STEP,
        "pads": OFFSET,
    }

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[Size, ...]

    @property
    def copyable(self) -> bool:
        """Whether the pixels that some windows read together are few enough to be copied."""
        reach = self.strides[-1] + (self.kernel[-1] - 1) * self.dilations[-1]
        return reach <= _REACH and math.prod(self.kernel[:-1]) <= _REACH

    def verify(self, data: Sequence[Size], out: Sequence[Size], where: str) -> None:
        """VerificationError where the axes of window, data and output differ in number."""
        listed = (data, out, self.kernel, self.strides, self.dilations, self.pads)
        counts = {len(x) for x in listed}
        if len(counts) != 1 or not 1 <= len(data) <= 3:
            raise spec_error("a window's axes differ in number", where, sorted(counts), "1, 2 or 3")
        positive = all(x >= 1 for x in (*self.kernel, *self.strides, *self.dilations))
        if not positive or math.prod(self.kernel) > MAX_TAPS:
            raise spec_error("a window's sizes are not sizes", where, self.kernel, "at least 1")

    def verify_reach(
        self, out: Sequence[Size], pads_end: Sequence[Size], at: Resolve, where: str
    ) -> None:
        """VerificationError where windows reach farther than any memory does.

        The kernels compare o * stride - pad + k * dilation with sizes of the data, in i64.
        """
        for axis, kernel in enumerate(self.kernel):
            reach = (kernel - 1) * self.dilations[axis] + 1
            slide = max(at(out[axis]) - 1, 0) * self.strides[axis]
            pads = abs(at(self.pads[axis])) + (abs(at(pads_end[axis])) if pads_end else 0)
            if (far := slide + reach + pads) > MAX_ELEMENTS:
                raise VerificationError(
                    "windows reach beyond any memory",
                    where=f"{where}, axis {axis}",
                    got=f"{far} elements: {self}"[:200],
                    expected=f"at most {MAX_ELEMENTS}",
                )


@dataclass(frozen=True)
class ConvSpec(Spec):
    """out[b, g, o, p...] = epilogue(sum over taps k and channels c of
    data[b, g, c, p * stride - pad + k * dilation] * weights[g, o, c, k], epilogue_operands...).

    `channels` and `outputs` count per group; data walks (batch, groups * channels, in_sizes...),
    epilogue operands and out (batch, groups * outputs, out_sizes...), weights the elements of their
    panels. Order of the sum: taps in row-major order, channels within a tap, one ascending chain in
    `acc`. Input 0 of `epilogue` is the accumulator, input 1 + i is epilogue operand i.
    `packed.depthwise` needs channels = outputs = 1, and a channel stride of 1; `packed.winograd`,
    which rounds differently (docs/numerics.md), f32, one group, 3 x 3 taps with strides and
    dilations of 1 along the last two of two or three axes, and a channel stride of 1; of bytes, of
    two axes, weights of i16, it gives the same bits where every sum is below WHOLE_SUM.

    compute_dtype: as GemmSpec's; a direct convolution then multiplies zeros by the taps that fall
    outside the data. Bytes: data is u8 or i8, weights are i8 or i16, acc is i32. zero (None: 0) is
    one element of data's type that is subtracted from the data. Buffers: data, weights, zero if
    there is one, epilogue_operands..., out.

    bf16x3: as GemmSpec's, of the product that `express_as_product` gives.
    """

    family: ClassVar[str] = "conv"
    product_name: ClassVar[str] = "convolutions"
    ranges: ClassVar[Mapping[str, Range]] = {
        "batch": COUNT,
        "groups": (1, MAX_CHANNELS),
        "channels": CHANNELS,
        "outputs": CHANNELS,
        "in_sizes": COUNT,
        "out_sizes": COUNT,
    }

    batch: Size
    groups: int
    channels: int
    outputs: int
    in_sizes: tuple[Size, ...]
    out_sizes: tuple[Size, ...]
    window: Window
    data: Operand
    weights: Operand
    out: Operand
    acc: DType
    packed: PackedConv
    epilogue: Program
    epilogue_operands: tuple[Operand, ...] = ()
    compute_dtype: DType | None = None
    zero_point: Operand | None = None
    bf16x3: bool = False

    # Operands -----------------------------------------------------------------------------------

    @property
    def zero_points(self) -> tuple[Operand, ...]:
        """The zero point, if there is one."""
        return () if self.zero_point is None else (self.zero_point,)

    def operands(self) -> tuple[Operand, ...]:
        inputs = (*self.zero_points, *self.epilogue_operands)
        return (self.data, self.weights, *inputs, self.out)

    @property
    def matrices(self) -> tuple[int, int, int]:
        """(matrices, K, N) of the packed weights."""
        k = self.packed.depth(self.channels, self.window.kernel)
        if self.packed.winograd:
            return self.packed.winograd_matrices, k, self.outputs
        if self.packed.depthwise:
            return 1, k, self.groups * self.outputs
        return self.groups, k, self.outputs

    def packed_operands(self) -> dict[int, PackedOperand]:
        count, k, n = self.matrices
        return {1: PackedOperand(self.packed, k, n, count)}

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        count, k, n = self.matrices
        data = (self.batch, self.groups * self.channels, *self.in_sizes)
        out = (self.batch, self.groups * self.outputs, *self.out_sizes)
        weights = (count * PackedLayout.of(self.packed, k, n).size,)
        zeros = [(1,) for _ in self.zero_points]
        return [data, weights, *zeros, *[out] * (len(self.epilogue_operands) + 1)]

    def factor_dtypes(self) -> tuple[DType, ...]:
        return self.data.dtype, self.weights.dtype

    # Verification -------------------------------------------------------------------------------

    def verify(self, target: Target) -> None:
        where = self.where
        if min(self.groups, self.channels, self.outputs) < 0 or self.groups < 1:
            raise spec_error("a convolution counts no channels", where, self.groups, "at least 1")
        if self.weights.strides != (1,) or self.weights.offset != 0:
            got = self.weights.strides
            raise spec_error("packed weights are not a plain array", where, got, (1,))
        if self.packed.winograd:
            self._verify_winograd(target)
        if self.packed.depthwise:
            got = (self.channels, self.outputs, self.data.strides[1])
            if got != (1, 1, 1):
                what = "a depthwise convolution's channels do not fit"
                raise spec_error(what, where, got, (1, 1, 1))
        self.window.verify(self.in_sizes, self.out_sizes, where)
        require_widening(self.factor_dtypes(), self.acc, where)
        self._verify_panels(target)
        self._verify_bytes()
        if self.compute_dtype is not None:
            self._verify_rounding(self.compute_dtype)
        if self.bf16x3:
            product = express_as_product(self)
            if product is None:
                what = "a convolution cannot be a product of windows"
                raise spec_error(what, where, self.window, "one group, f32, known sizes")
            product.verify(target)
        results = verify_program(
            self.epilogue, [self.acc, *types_of(self.epilogue_operands)], where
        )
        require_types(results, [self.out.dtype], where)

    def verify_sizes(self, at: Resolve, where: str) -> None:
        self.window.verify_reach(self.out_sizes, (), at, where)

    def _verify_winograd(self, target: Target) -> None:
        where, integers = self.where, self.acc is DType.i32
        plain = self.groups == 1 and not self.packed.grouped
        plain = plain and (integers or self.acc is DType.f32)
        w, axes = self.window, (2,) if integers else (2, 3)
        slides = (w.kernel, w.strides, w.dilations)
        fits = [s[-2:] for s in slides] == [(3, 3), (1, 1), (1, 1)]
        if not plain or not fits or len(w.kernel) not in axes or self.data.strides[1] != 1:
            what = "a convolution that Winograd's transform is not for"
            raise spec_error(what, where, slides, None)
        if self.packed.winograd not in ((4,) if integers else (2, 4)) or self.packed.depthwise:
            got = self.packed.winograd
            raise spec_error("no such Winograd transform", where, got, "2 or 4, of f32")
        require_one_of(self.data.dtype, BYTES if integers else (DType.f32,), where)
        require_one_of(self.weights.dtype, (DType.i16 if integers else DType.f32,), where)
        if integers and not multiplies_pairs(target):
            raise spec_error("no unit multiplies pairs of 16 bits", where, target.isa, None)

    def _verify_panels(self, target: Target) -> None:
        """Packed panels have the width, the cells and the column sums of the Target's units."""
        packed, where = self.packed, self.where
        widths = (target.lanes(self.acc.bits), panel_width(target, self.acc.bits))
        if packed.nr not in widths:
            raise spec_error("packed panels have another width", where, packed.nr, widths)
        kr, sums = conv_cells(target, self.weights.dtype, self.compute_dtype)
        if packed.depthwise:
            kr, sums = 1, False
        elif packed.winograd:
            kr, sums = (2 if self.acc is DType.i32 else 1), False
        runs = kr > 1 and not packed.winograd and self.window.dilations[-1] == 1
        wanted = (kr, runs, sums)
        if (packed.kr, packed.runs, packed.column_sums) != wanted:
            raise spec_error("packed panels have cells of another depth", where, packed, wanted)
        if packed != packed.with_tails(self.channels, self.window.kernel):
            raise spec_error("packed rows of taps end otherwise", where, packed.tails, None)

    def _verify_bytes(self) -> None:
        """Bytes are multiplied by i8 or i16 and summed in i32; only they have a zero point."""
        where, zero = self.where, self.zero_point
        if self.data.dtype not in BYTES and zero is None:
            return
        require_one_of(self.data.dtype, BYTES, where)
        require_one_of(self.weights.dtype, (DType.i8, DType.i16), where)
        if self.acc is not DType.i32 or self.compute_dtype is not None:
            raise spec_error("a convolution of bytes sums otherwise", where, self.acc, DType.i32)
        if zero is not None and (zero.dtype, zero.strides) != (self.data.dtype, (0,)):
            raise spec_error("a zero point is not one number of the data's type", where, zero, None)
        if not self.packed.depthwise and not self.window.copyable:
            raise spec_error("windows reach too far to be copied", where, self.window, "")

    def _verify_rounding(self, compute_dtype: DType) -> None:
        where = self.where
        require_bf16(compute_dtype, self.acc, where)
        require_one_of(self.data.dtype, (DType.bf16, DType.f32), where)
        require_one_of(self.weights.dtype, (DType.bf16,), where)
        if not self.window.copyable:
            raise spec_error("windows reach too far to be copied", where, self.window, "")
        if self.packed.winograd:
            raise spec_error("Winograd's transform rounds no factors", where, compute_dtype, None)

    # Cost ---------------------------------------------------------------------------------------

    def flops(self, dims: Sequence[int]) -> int:
        """As if it were computed directly, also where Winograd's transform saves products."""
        at = resolver(dims)
        elements = at(self.batch) * self.groups * self.outputs * math.prod(map(at, self.out_sizes))
        products = 2 * self.channels * math.prod(self.window.kernel)
        return elements * (products + count_instructions(self.epilogue))

    def compute_unit(self) -> str:
        if self.bf16x3:
            return "bf16x6"
        if self.compute_dtype is not None:
            return str(self.compute_dtype)
        factors = self.factor_dtypes()[: 1 if self.packed.winograd else 2]
        if self.acc is DType.i32 and all(t.bits == 8 for t in factors):
            return "int8"
        return "f64" if self.acc is DType.f64 else "f32"


def express_as_product(spec: ConvSpec) -> GemmSpec | None:
    """The product of matrices that a convolution of f32 is: rows of A are the windows of all output
    pixels, tap by tap and channel by channel, with zeros outside of the data. None where its sizes
    are dynamic, but for the batch, which is then that of the product; where channels are grouped,
    or no whole steps of tiles; where windows have more than 1024 taps; where pixels of a result or
    of an epilogue operand are not a fixed distance apart.

    A's strides say nothing: A is not in memory.
    """
    if spec.groups != 1 or spec.packed.grouped or spec.packed.depthwise or spec.packed.winograd:
        return None
    if spec.channels < 1 or spec.channels % BF16_STEP_VALUES != 0:
        return None
    if math.prod(spec.window.kernel) > _REACH:
        return None
    if spec.acc is not DType.f32 or spec.data.dtype is not DType.f32 or spec.data.strides[1] != 1:
        return None
    walked = [*spec.epilogue_operands, spec.out]
    sizes = [d for d in (*spec.in_sizes, *spec.out_sizes, *spec.window.pads) if isinstance(d, int)]
    strides = [s for o in (spec.data, *walked) for s in o.strides[1:] if isinstance(s, int)]
    rank = len(spec.out_sizes)
    if len(sizes) != 3 * rank or len(strides) != (rank + 1) * (1 + len(walked)):
        return None
    batch: tuple[Size, ...] = (spec.batch,)
    axes: tuple[Size, ...] = spec.out_sizes
    apart = [_find_distance(axes, o.strides[2:]) for o in walked]
    together = [_find_distance((*batch, *axes), (o.strides[0], *o.strides[2:])) for o in walked]
    if isinstance(spec.batch, int) and None not in together:
        batch, axes, apart = (), (*batch, *axes), together
    if None in apart:
        return None
    operands = [
        Operand(o.dtype, (*o.strides[: len(batch)], distance or 0, o.strides[1]), o.offset)
        for o, distance in zip(walked, apart, strict=True)
    ]
    none = (0,) * len(batch)
    return GemmSpec(
        batch=batch,
        m=math.prod(d for d in axes if isinstance(d, int)),
        n=spec.outputs,
        k=spec.matrices[1],
        a=Operand(spec.data.dtype, (*spec.data.strides[: len(batch)], 0, 1), spec.data.offset),
        b=Operand(spec.weights.dtype, (*none, 0, 0)),
        out=operands[-1],
        acc=spec.acc,
        packed=PackedB(spec.packed.nr, spec.packed.kr),
        epilogue=spec.epilogue,
        epilogue_operands=tuple(operands[:-1]),
        bf16x3=spec.bf16x3,
    )


def _find_distance(sizes: Sequence[Size], strides: Sequence[Size]) -> int | None:
    """How far apart neighbours are that axes of `sizes`, walked by `strides`, count as one; None if
    that varies."""
    found: int | None = None
    count = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size == 1:
            continue
        if not isinstance(size, int) or not isinstance(stride, int):
            return None
        if found is None:
            found = stride
        elif stride != found * count:
            return None
        count *= size
    return found or 0
