"""What the parts of a convolution kernel share: frame, addresses, the taps inside the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.specs.base import RuntimeDim, Size
from ....plan.specs.convolution import ConvSpec
from ....plan.target import Target
from ...llvmir.builder import AssemblyFunction, Function, Module
from ...llvmir.kernel_entry import INPLACE, READ, READ_SHARED, WRITE, BufferAssumptions
from ...llvmir.values import ELEMENT, I8, Value, bits_of, integer, vec
from ..emit.casts import from_memory, to_memory
from ..emit.code_record import CodeRecord, Constants, RecordConstants
from ..emit.dot_units import left_shift, xor_0x80
from ..emit.gather_lanes import gather, scatter
from ..emit.register_tile import KernelContext
from ..emit.scalar_program import emit_program
from ..emit.strided_loops import masked_load, masked_store
from ..emit.tail_mask import TailMask, tail_mask
from ..emit.x86_epilogue import TileOperand, plan_epilogue
from ..gemm.bf16_rounding import round_to_bf16
from .tile_partition import find_conv_unit, flushes_sums


def buffers_of(spec: ConvSpec) -> list[BufferAssumptions]:
    """What a kernel may assume of its buffers."""
    out = INPLACE if spec.epilogue_operands else WRITE
    return [
        READ,
        READ,
        *[READ] * len(spec.zero_points),
        *[READ_SHARED] * len(spec.epilogue_operands),
        out,
    ]


@dataclass(frozen=True, eq=False)
class ConvContext(KernelContext):
    """The spec (of three spatial axes), and the frame of a tile's first pixel and channel."""

    spec: ConvSpec
    shares: bool = False

    @staticmethod
    def of(
        spec: ConvSpec, target: Target, module: Module, lanes: int, *, shares: bool = False
    ) -> ConvContext:
        """shares: whether functions read the layer's numbers from a record, so that other layers'
        kernels share them."""
        unit = find_conv_unit(spec, target, lanes)
        return ConvContext(spec, target, module, lanes, unit, shares=shares)

    @property
    def frame_bytes(self) -> int:
        """With the strides of `set_strides` behind the sizes."""
        return super().frame_bytes + 16 * len(self.walked_operands)

    def set_strides(self, f: Function, frame: Value) -> None:
        """Store the operands' strides along rows and columns in the frame, where functions that
        kernels share read them."""
        for i, o in enumerate(self.walked_operands):
            for axis in (3, 4):
                stride = o.strides[axis]
                if isinstance(stride, int) and stride not in (0, 1):
                    self.set_dim(f, frame, self._stride_number(i, axis), integer(stride))

    def load_stride(self, f: Function, frame: Value, operand: int, axis: int) -> Value:
        """A stride from the frame, but for 0 and 1 and strides of channels, which are in the
        text."""
        stride = self.walked_operands[operand].strides[axis]
        if not isinstance(stride, int) or stride in (0, 1) or axis < 3:
            return self.size(f, frame, stride)
        return self.size(f, frame, RuntimeDim(self._stride_number(operand, axis)))

    def _stride_number(self, operand: int, axis: int) -> int:
        return self._dims + 2 * operand + axis - 3

    @cached_property
    def _dims(self) -> int:
        return self.spec.runtime_dims

    @cached_property
    def record(self) -> CodeRecord | None:
        """What functions that kernels share read."""
        return CodeRecord(self.module) if self.shares else None

    def number(self, f: Function, key: str, x: int) -> Value:
        """The number x, in the text or, by its key, in the record."""
        return integer(x) if self.record is None else self.record.integer(f, key, x)

    def factor_of(self, f: Function, key: str, size: Size) -> Value:
        """A size or a stride. Zero and one are in the text, which they make shorter; sizes that are
        known at run time are in the frame."""
        if not isinstance(size, int):
            return self.size(f, f.params["frame"], size)
        return integer(size) if size in (0, 1) else self.number(f, key, size)

    def call(self, f: Function, callee: Function | AssemblyFunction, *args: Value | int) -> None:
        """Call a function that other kernels may share, or that this function does not name."""
        if self.record is None:
            f.call_function(callee, *args)
        else:
            self.record.call(f, callee, *args)

    @cached_property
    def shift(self) -> int:
        """What is added to bytes, and to their zero point, for the unit's sake."""
        return left_shift(self.unit, self.spec.data.dtype)

    @cached_property
    def flushes(self) -> bool:
        """Whether a mode flushes denormals in sums: the epilogue runs outside of it."""
        return flushes_sums(self.spec, self.unit)

    def address(self, f: Function, table: Value) -> Value:
        """A constant table, which functions that kernels share find in the record."""
        return table if self.record is None else self.record.address(f, table.text)

    def factor(self, f: Function, value: Value, dtype: DType) -> Value:
        """A value of an operand's type as a factor of the accumulator's type."""
        wide = f.cast(value, self.acc, signed_=dtype.is_signed)
        done = self.spec.compute_dtype in (None, dtype)
        return wide if done else round_to_bf16(f, wide)

    def zero_byte(self, f: Function, frame: Value) -> Value:
        """The zero point as copies of bytes hold it."""
        if not self.zeros:
            return integer(self.shift, I8)
        zero = f.load(I8, self.zero_base(f, frame, left=True))
        return xor_0x80(f, zero, self.shift)

    def zero_number(self, f: Function, frame: Value) -> Value:
        """The zero point as a number of the accumulator's type."""
        if not self.zeros:
            return integer(0, self.acc)
        zero = f.load(I8, self.zero_base(f, frame, left=True))
        return f.cast(zero, self.acc, signed_=self.spec.data.dtype.is_signed)

    def tails(self, f: Function, channels: int) -> list[TailMask | None]:
        """The vectors that hold so many channels, the last one perhaps in part."""
        lanes = self.lanes
        found: list[TailMask | None] = [None] * (channels // lanes)
        if channels % lanes:
            found.append(tail_mask(f, lanes, integer(channels % lanes)))
        return found


@dataclass(frozen=True)
class TilePosition:
    """Position (row, column) in a tile, and a vector of its channels."""

    row: Value
    column: Value
    channel: int
    tail: TailMask | None


class ConvEpilogue:
    """Loads extras, applies the program and stores, at pixels of the tile that the frame names."""

    def __init__(self, g: ConvContext, f: Function, frame: Value, *, shares: bool = False) -> None:
        """shares: whether the function reads numbers from the kernel's record, or from the
        frame, if there is no record."""
        self.g, self.f, self.shares = g, f, shares
        self.record = g.record if shares else None
        self.bases = [g.base(f, frame, i) for i in range(len(g.walked_operands))]
        self.steps = [
            [self._step(frame, i, axis) for axis in (1, 3, 4)]
            for i in range(len(g.walked_operands))
        ]
        self._shared: dict[tuple[int, int], Value] = {}

    def _step(self, frame: Value, operand: int, axis: int) -> Value:
        stride = self.g.walked_operands[operand].strides[axis]
        if not self.shares:
            return self.g.size(self.f, frame, stride)
        if self.record is None:
            return self.g.load_stride(self.f, frame, operand, axis)
        return self.g.factor_of(self.f, f"epilogue.{operand}.{axis}", stride)

    def _constants(self) -> Constants | None:
        """How the program's constants are read from the record."""
        return None if self.record is None else RecordConstants(self.f, self.record, "epilogue")

    def finish_tile(self, sums: Sequence[Value], positions: Sequence[TilePosition]) -> None:
        """Store what the program makes of all accumulators of a tile."""
        if self._finish_in_assembly(sums, positions):
            return
        self.share(list(dict.fromkeys((p.channel, p.tail) for p in positions)))
        for value, position in zip(sums, positions, strict=True):
            self.finish(value, position)

    def _finish_in_assembly(self, sums: Sequence[Value], positions: Sequence[TilePosition]) -> bool:
        """The same by instructions in assembly, if the program and the strides allow it."""
        g = self.g
        strides = [tuple(s.known for s in steps) for steps in self.steps]
        if {o.dtype for o in g.walked_operands} != {g.spec.acc} or any(p.tail for p in positions):
            return False
        if strides[-1][0] != 1 or any(channel not in (0, 1) for channel, _, _ in strides):
            return False
        broadcast = [channel == 0 for channel, _, _ in strides]
        planned = plan_epilogue(g.spec.epilogue, broadcast[:-1], g.acc)
        if planned is None:
            return False
        operands: list[TileOperand] = []
        for base, (channel, row, column), same in zip(self.bases, strides, broadcast, strict=True):
            if channel is None or row is None or column is None:
                return False
            offsets: list[tuple[int, int]] = []
            for p in positions:
                if p.row.known is None or p.column.known is None:
                    return False
                at = p.row.known * row + p.column.known * column + p.channel * channel
                offsets.append((0, at * g.bytes))
            operands.append(TileOperand((base,), tuple(offsets), same))
        return planned.finish(self.f, sums, operands)

    def share(self, channels: Sequence[tuple[int, TailMask | None]]) -> None:
        """Load what all pixels of the tile read alike (a bias), once per vector of channels."""
        zero = integer(0)
        for i, (_, row, column) in enumerate(self.steps[:-1]):
            if row.known == 0 and column.known == 0:
                for c, tail in channels:
                    self._shared[i, c] = self._load(i, TilePosition(zero, zero, c, tail))

    def finish(self, value: Value, position: TilePosition) -> None:
        """Store what the program makes of an accumulator and the extras there."""
        f, g, last = self.f, self.g, len(self.bases) - 1
        inputs: list[Value | None] = [value]
        for i in range(last):
            shared = self._shared.get((i, position.channel))
            bits = shared if shared is not None else self._load(i, position)
            dtype = g.walked_operands[i].dtype
            read = f.bitcast(bits, vec(ELEMENT[dtype.value], g.lanes))
            inputs.append(from_memory(f, read, dtype))
        program = g.spec.epilogue
        (result,) = emit_program(f, program, inputs, lanes=g.lanes, constants=self._constants())
        result = to_memory(f, result, g.walked_operands[last].dtype)
        address, step = self._address(last, position), self.steps[last][0]
        if step.known == 1 or g.lanes == 1:
            masked_store(f, result, address, position.tail)
        else:
            scatter(f, result, address, step, position.tail)

    def _load(self, index: int, position: TilePosition) -> Value:
        """As integers: f16 values that are live across blocks would pass through library calls on
        instruction sets that have none."""
        f, g, dtype = self.f, self.g, self.g.walked_operands[index].dtype
        bits = f"i{bits_of(ELEMENT[dtype.value])}"
        address, step = self._address(index, position), self.steps[index][0]
        if step.known == 0:
            return f.splat(f.load(bits, address), g.lanes)
        if step.known == 1 or g.lanes == 1:
            return masked_load(f, vec(bits, g.lanes), address, position.tail)
        return gather(f, bits, g.lanes, address, step, position.tail)

    def _address(self, index: int, position: TilePosition) -> Value:
        f, (channel, row, column) = self.f, self.steps[index]
        at = f.add(f.mul(position.row, row), f.mul(position.column, column))
        at = f.add(at, f.mul(channel, position.channel))
        return f.at(self.bases[index], at, ELEMENT[self.g.walked_operands[index].dtype.value])


def taps_inside(
    f: Function, start: Value, data: Value, kernel: int, dilation: int
) -> tuple[Value, Value]:
    """[lo, hi) of the taps k for which start + k * dilation is in [0, data)."""
    lo = f.ceil_div(f.smax(f.sub(0, start), 0), dilation)
    hi = f.ceil_div(f.smax(f.sub(data, start), 0), dilation)
    return lo, f.smin(hi, kernel)


def places_inside(
    f: Function, out: Value, data: Value, pad: Value, reach: int, stride: int
) -> tuple[Value, Value]:
    """[lo, hi) of the output positions all of whose taps lie inside the data (lo = hi: none).

    `reach` is how far the last tap lies beyond the first.
    """
    lo = f.smin(f.ceil_div(f.smax(pad, 0), stride), out)
    room = f.sub(f.add(data, pad), reach)
    hi = f.smin(f.ceil_div(f.smax(room, 0), stride), out)
    return lo, f.smax(hi, lo)


def widths(f: Function, panel: Value, channels: int, width: int) -> Iterator[int]:
    """Write what follows for panels of `width` channels, and for the last one that holds fewer."""
    full, tail = divmod(channels, width)
    if full:
        with f.if_(f.icmp("slt", panel, full) if tail else True):
            yield width
    if tail:
        with f.if_(f.icmp("eq", panel, full) if full else True):
            yield tail
