"""Copies of the rows that a convolution's windows see, in the form that register tiles read.

A copy has the paddings written out, channels side by side, and its values as factors: cells for a
unit (bf16, bytes), else numbers of the accumulator's type. A value is copied once for each block of
output rows that sees it, and multiplied by every output channel: copying is a few per cent.
"""

from __future__ import annotations

from typing import Literal

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.packing.panel_params import BYTES
from ....plan.specs.convolution import ConvSpec
from ....plan.target import Target
from ...llvmir.builder import Function
from ...llvmir.values import ELEMENT, I8, I16, I32, I64, Value, bits_of, vec
from ..emit.dot_units import xor_0x80
from ..emit.strided_loops import masked_load
from ..emit.tail_mask import tail_mask
from ..gemm.bf16_rounding import neighbours, round_to_bf16, single_cell
from .addressing import ConvContext
from .tile_partition import ConvTiling

# How a row is in memory: one run of pixels and channels; pixels whose channels are neighbours;
# channels whose pixels are neighbours (few of them); anything else, value by value.
RowLayout = Literal["run", "pixels", "planes", "values"]
_MAX_PLANAR_CHANNELS = 8

# Cells of a register, where rows below each other are put into them.
_CELLS_PER_REGISTER = 16


@dataclass(frozen=True)
class RowCopies:
    """Copies for blocks of `down` x `across` output pixels: `depth` x `height` rows of `width`
    pixels, `pitch` values apart; row r is `step` data rows below row 0.

    value_type: the LLVM type of a value; kr of them make one factor, of type `cell`; a register
    holds `lanes` values.
    """

    value_type: str
    cell: str
    kr: int
    lanes: int
    layout: RowLayout
    across: int
    down: int
    depth: int
    height: int
    step: int
    width: int
    pitch: int
    tails: bool = False

    @property
    def bytes(self) -> int:
        """Of one copy, with what its last stores write beyond it."""
        return self.tails_at + self.depth * self.height * self.tail_pitch

    @property
    def tails_at(self) -> int:
        """Where the cells of rows below each other begin (PackedConv.tails), in bytes."""
        slack = self.lanes * (_MAX_PLANAR_CHANNELS + 1)
        return (self.depth * self.height * self.pitch + slack) * bits_of(self.value_type) // 8

    @property
    def tail_pitch(self) -> int:
        """Bytes of a row of these cells; row r has values of the rows from r on."""
        return (
            -(-self.width // _CELLS_PER_REGISTER) * _CELLS_PER_REGISTER * self.kr
            if self.tails
            else 0
        )


def choose_rows(
    spec: ConvSpec, target: Target, cut: ConvTiling, tall: int, packed: int = 0
) -> RowCopies:
    """The copies of a convolution of three spatial axes whose tiles are `tall` rows high. Rows of
    `packed` pixels, where that is given, follow one another without a gap."""
    w, kr = spec.window, spec.packed.kr
    acc = ELEMENT[spec.acc.value]
    value_type, cell = {1: (acc, acc), 2: (I16, I32), 4: (I8, I32)}[kr]
    h = target.heuristics
    room = max(target.l2, 256 << 10) // h.conv_copy_l2_divisor
    # Rows further apart than a window is high are copied for one row of pixels at a time.
    apart = w.dilations[1] > 1 or w.strides[1] > w.kernel[1]
    height, width = spec.out_sizes[1:]

    def make_rows(down: int, across: int) -> RowCopies:
        wide = (across - 1) * w.strides[2] + (w.kernel[2] - 1) * w.dilations[2] + 1
        line = 64 * 8 // bits_of(value_type)
        pitch = -(-(wide * spec.channels + kr) // line) * line
        return RowCopies(
            value_type,
            cell,
            kr,
            cut.lanes * kr,
            _choose_layout(spec),
            across,
            down,
            w.kernel[0],
            w.kernel[1] if apart else (down - 1) * w.strides[1] + w.kernel[1],
            w.dilations[1],
            wide,
            packed * spec.channels or pitch,
            spec.packed.tails,
        )

    across = width if isinstance(width, int) else 8 * cut.most
    while across > cut.most and not packed and make_rows(tall, across).bytes > room:
        across = max(cut.most, across // 2 // cut.most * cut.most)
    down = tall
    if not apart:
        most = h.conv_max_copied_rows // 2
        if isinstance(height, int):
            # Blocks as even as possible, so that workers' shares are.
            most = -(-height // max(1, -(-height // h.conv_max_copied_rows)))
        down = max(tall, -(-most // tall) * tall)
        while down > tall and make_rows(down, across).bytes > room:
            down -= tall
    return make_rows(down, max(1, across))


def _choose_layout(spec: ConvSpec) -> RowLayout:
    channel, pixel = spec.data.strides[1], spec.data.strides[4]
    if channel == 1 or spec.channels == 1:
        return "run" if pixel == spec.channels else "pixels"
    return "planes" if pixel == 1 and spec.channels <= _MAX_PLANAR_CHANNELS else "values"


def copy_function(g: ConvContext, rows: RowCopies) -> Function:
    """copy(frame, data, to, z, y, x): the rows that begin at pixel (z, y, x) of the image whose
    first value is at `data`; pixels outside of it are zeros, bytes the zero point."""
    f = g.module.function(
        "copy_rows",
        [("ptr noalias", "frame"), ("ptr noalias readonly", "data"), ("ptr noalias", "to")]
        + [(I64, n) for n in "zyx"],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, spec = f.params, g.spec
    deep, high, wide = (g.factor_of(f, f"copy.data{i}", s) for i, s in enumerate(spec.in_sizes))
    strides = [g.factor_of(f, f"copy.{i}", s) for i, s in enumerate(spec.data.strides[2:])]
    element = ELEMENT[spec.data.dtype.value]
    channels, pitch, width, height = (
        g.number(f, f"copy.{name}", x)
        for name, x in (
            ("channels", spec.channels),
            ("pitch", rows.pitch),
            ("width", rows.width),
            ("height", rows.height),
        )
    )
    left = f.smin(f.smax(f.sub(0, p["x"]), 0), width)
    right = f.smin(f.smax(f.sub(wide, p["x"]), left), width)
    column = f.mul(f.add(p["x"], left), strides[2])
    copier = _Copier(g, rows, f, channels)
    with f.range(0, rows.depth, unroll=1) as d, f.range(0, height, unroll=1) as r:
        z = f.add(p["z"], f.mul(d, spec.window.dilations[0]))
        y = f.add(p["y"], f.mul(r, rows.step))
        to = f.at(p["to"], f.mul(f.add(f.mul(d, height), r), pitch), rows.value_type)
        inside = f.and_(f.icmp("ult", z, deep), f.icmp("ult", y, high))
        with f.if_(inside) as branch:
            at = f.add(f.add(f.mul(z, strides[0]), f.mul(y, strides[1])), column)
            # Each piece may write beyond its end: what follows is written after it.
            copier.fill(to, f.mul(left, channels))
            middle = f.at(to, f.mul(left, channels), rows.value_type)
            copier.copy(f.at(p["data"], at, element), middle, f.sub(right, left))
            end = f.mul(right, channels)
            copier.fill(f.at(to, end, rows.value_type), f.sub(pitch, end))
            branch.else_()
            copier.fill(to, pitch)
    if rows.tails:
        _copy_tails(g, rows, f)
    return f


def _copy_tails(g: ConvContext, rows: RowCopies, f: Function) -> None:
    """The last channel of `kr` rows below each other, as cells, from the copied rows. Weights of
    rows below the last one are zeros: any values do."""
    channels, lanes, copy = g.spec.channels, _CELLS_PER_REGISTER * rows.kr, f.params["to"]
    # Lane i of a cell is row i's: those of two rows side by side, then of both pairs.
    pick = [i // rows.kr * channels + i % 2 * lanes for i in range(lanes)]
    join = [i + i % rows.kr // 2 * lanes for i in range(lanes)]
    with f.range(0, rows.depth, unroll=1) as d, f.range(0, rows.height, unroll=1) as r:
        first = f.mul(d, rows.height)
        below = [f.smin(f.add(r, i), rows.height - 1) for i in range(rows.kr)]
        addresses = [f.offset(copy, f.mul(f.add(first, row), rows.pitch)) for row in below]
        to = f.offset(copy, f.add(f.mul(f.add(first, r), rows.tail_pitch), rows.tails_at))
        with f.range(0, rows.width, _CELLS_PER_REGISTER, unroll=1) as x:
            at = f.add(f.mul(x, channels), channels - 1)
            a, b, c, e = (f.load(vec(I8, lanes), f.offset(address, at)) for address in addresses)
            cells = f.shuffle(f.shuffle(a, b, pick), f.shuffle(c, e, pick), join)
            f.store(cells, f.offset(to, f.mul(x, rows.kr)))


class _Copier:
    """Writes the copying of pieces of one row."""

    def __init__(self, g: ConvContext, rows: RowCopies, f: Function, channels: Value) -> None:
        self.g, self.rows, self.f, self.channels = g, rows, f, channels
        self.dtype = g.spec.data.dtype
        self.element = ELEMENT[self.dtype.value]
        frame = f.params["frame"]
        self.channel = g.factor_of(f, "copy.channel", g.spec.data.strides[1])
        self.pixel_stride = g.factor_of(f, "copy.2", g.spec.data.strides[4])
        self.zero = g.zero_number(f, frame)
        self.nothing = f.as_value(0, vec(rows.value_type, rows.lanes))
        if rows.value_type == I8:
            self.nothing = f.splat(g.zero_byte(f, frame), rows.lanes)

    def fill(self, to: Value, count: Value) -> None:
        f, rows = self.f, self.rows
        with f.range(0, count, rows.lanes, unroll=1) as i:
            f.store(self.nothing, f.at(to, i, rows.value_type))

    def copy(self, source: Value, to: Value, pixels: Value) -> None:
        f, rows, channels = self.f, self.rows, self.channels
        if rows.layout == "run":
            self.run(source, to, f.mul(pixels, channels))
        elif rows.layout == "pixels":
            with f.range(0, pixels, unroll=1) as i:
                at = f.at(source, f.mul(i, self.pixel_stride), self.element)
                self.run(at, f.at(to, f.mul(i, channels), rows.value_type), channels)
        elif rows.layout == "planes":
            self.planes(source, to, pixels)
        else:
            with f.range(0, pixels, unroll=1) as i, f.range(0, channels, unroll=1) as c:
                at = f.add(f.mul(i, self.pixel_stride), f.mul(c, self.channel))
                value = self.value(f.load(self.element, f.at(source, at, self.element)))
                f.store(value, f.at(to, f.add(f.mul(i, channels), c), rows.value_type))

    def run(self, source: Value, to: Value, count: Value) -> None:
        """Values that are neighbours."""
        f, rows = self.f, self.rows
        full = f.mul(f.udiv(count, rows.lanes), rows.lanes)
        with f.range(0, full, rows.lanes, unroll=2) as i:
            x = self.factors(f.at(source, i, self.element), None)
            f.store(x, f.at(to, i, rows.value_type))
        if self.g.spec.channels % rows.lanes == 0:
            return  # counts are multiples of the channels
        left = f.sub(count, full)
        with f.if_(f.icmp("sgt", left, 0)):
            x = self.factors(f.at(source, full, self.element), left)
            f.store(x, f.at(to, full, rows.value_type))

    def planes(self, source: Value, to: Value, pixels: Value) -> None:
        """A few rows, one per channel, whose values take turns."""
        f, rows, channels = self.f, self.rows, self.g.spec.channels

        def copy_some(i: Value, left: Value | None) -> None:
            address = f.at(source, i, self.element)
            planes = [
                self.factors(f.at(address, f.mul(self.channel, c), self.element), left)
                for c in range(channels)
            ]
            for n in range(channels):
                at = f.add(f.mul(i, channels), n * rows.lanes)
                f.store(taking_turns(f, planes, n), f.at(to, at, rows.value_type))

        full = f.mul(f.udiv(pixels, rows.lanes), rows.lanes)
        with f.range(0, full, rows.lanes, unroll=1) as i:
            copy_some(i, None)
        left = f.sub(pixels, full)
        with f.if_(f.icmp("sgt", left, 0)):
            copy_some(full, left)

    def factors(self, address: Value, left: Value | None) -> Value:
        """A register of neighbouring values as factors; those beyond `left` are not read."""
        f, g = self.f, self.g

        def load(first: int, lanes: int) -> Value:
            tail = None if left is None else tail_mask(f, lanes, f.sub(left, first))
            kind = vec(self.element, lanes)
            return masked_load(f, kind, f.at(address, first, self.element), tail)

        if self.dtype in BYTES:
            return self.byte(load(0, self.rows.lanes))
        kind = vec(self.rows.value_type, self.rows.lanes)
        if g.unit is None:
            return round_to_bf16(f, f.cast(load(0, g.lanes), g.acc))
        if self.dtype is DType.bf16:
            return f.bitcast(load(0, self.rows.lanes), kind)
        halves = [f.cast(load(n, g.lanes), g.acc) for n in (0, g.lanes)]
        return f.bitcast(neighbours(f, *halves), kind)

    def byte(self, x: Value) -> Value:
        """Bytes as the unit takes them, or wider numbers less the zero point."""
        f, rows = self.f, self.rows
        if rows.value_type == I8:
            return xor_0x80(f, x, self.g.shift)
        wide = f.cast(x, rows.value_type, signed_=self.dtype.is_signed)
        zero = f.splat(f.cast(self.zero, rows.value_type), x.lanes)
        return f.sub(wide, zero) if self.g.zeros else wide

    def value(self, x: Value) -> Value:
        """One value as a factor."""
        f, g = self.f, self.g
        if self.dtype in BYTES:
            return self.byte(x)
        if g.unit is None:
            return round_to_bf16(f, f.cast(x, g.acc))
        x = f.cast(x, g.acc)
        return f.cast(single_cell(f, x, f.as_value(0, x.type)), I16)


def taking_turns(f: Function, planes: list[Value], number: int) -> Value:
    """Register `number` of the sequence in which the first lanes of all planes come first, then
    the second ones, and so on."""
    lanes, count = planes[0].lanes, len(planes)
    first = number * lanes
    found = planes[0]
    order = [(first + lane) // count for lane in range(lanes)]
    if count == 1:
        return found
    for c, plane in enumerate(planes[1:], 1):
        picks: list[int] = []
        for lane in range(lanes):
            register = (first + lane) % count
            own = order[lane] if c == 1 and register == 0 else lane
            picks.append(lanes + order[lane] if register == c else own)
        found = f.shuffle(found, plane, picks)
    return found
