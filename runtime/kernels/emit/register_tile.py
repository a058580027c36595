"""Shared code of kernels with register tiles: the frame, and a tile's step along K.

The frame is a record on the stack that holds the addresses of a tile's epilogue operands and
output, and the run-time sizes. Functions take it instead of a dozen arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.specs.base import Operand, Size
from ....plan.specs.convolution import ConvSpec
from ....plan.specs.gemm import GemmSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module, StackVariable
from ...llvmir.values import ELEMENT, F32, I16, I64, PTR, Value, bits_of, integer, is_float, vec
from .dot_units import DotUnit, widen_cells


@dataclass(frozen=True, eq=False)
class KernelContext:
    """What all parts of a kernel share: its spec, the module that it is written to, registers of
    `lanes` accumulators, and the unit that multiplies cells, if there is one."""

    spec: GemmSpec | ConvSpec
    target: Target
    module: Module
    lanes: int
    unit: DotUnit | None

    @cached_property
    def acc(self) -> str:
        """The LLVM type of an accumulator."""
        return ELEMENT[self.spec.acc.value]

    @cached_property
    def vector(self) -> str:
        """The LLVM type of a register of accumulators."""
        return vec(self.acc, self.lanes)

    @cached_property
    def bytes(self) -> int:
        """Of an accumulator."""
        return bits_of(self.acc) // 8

    @cached_property
    def walked_operands(self) -> tuple[Operand, ...]:
        """The operands whose addresses follow a tile."""
        return (*self.spec.epilogue_operands, self.spec.out)

    @cached_property
    def zeros(self) -> tuple[Operand, ...]:
        return self.spec.zero_points

    @property
    def frame_bytes(self) -> int:
        return 8 * (self.bases + self.spec.runtime_dims)

    @property
    def bases(self) -> int:
        """How many addresses precede the sizes."""
        return len(self.walked_operands) + len(self.zeros)

    def set_base(self, f: Function, frame: Value, index: int, pointer: Value) -> None:
        f.store(pointer, f.offset(frame, 8 * index))

    def base(self, f: Function, frame: Value, index: int) -> Value:
        """The address that set_base stored for extra `index` (then come out, and zero points)."""
        return f.load(PTR, f.offset(frame, 8 * index))

    def zero_base(self, f: Function, frame: Value, left: bool) -> Value:
        """The address of the left or right operand's zero points there."""
        return self.base(f, frame, len(self.walked_operands) + (0 if left else len(self.zeros) - 1))

    def set_dim(self, f: Function, frame: Value, index: int, value: Value) -> None:
        f.store(value, f.offset(frame, 8 * (self.bases + index)))

    def size(self, f: Function, frame: Value, size: Size) -> Value:
        if isinstance(size, int):
            return integer(size)
        return f.load(I64, f.offset(frame, 8 * (self.bases + size.index)))

    def widen(self, f: Function, value: Value, dtype: DType) -> Value:
        """What a tile loads, as it multiplies it: of the accumulator's type, or cells."""
        if self.unit and value.element == I16:
            return widen_cells(f, value, dtype)
        return value if self.unit else f.cast(value, self.acc, signed_=dtype.is_signed)

    def multiply_add(self, f: Function, a: Value, b: Value, c: Value) -> Value:
        """a * b + c; integers wrap. Of cells: the sum of their products, + c."""
        if self.unit:
            pair = [f.bitcast(x, self.unit.factors) for x in (a, b)]
            if self.unit.swaps:
                pair.reverse()
            if self.unit.adds:
                return f.call(self.unit.intrinsic, self.vector, c, *pair)
            return f.add(f.call(self.unit.intrinsic, self.vector, *pair), c)
        return f.fma(a, b, c) if is_float(self.acc) else f.add(f.mul(a, b), c)

    def add_products(
        self,
        f: Function,
        sums: Sequence[Sequence[StackVariable]],
        left: Callable[[int], Value],
        right: Sequence[Value],
    ) -> None:
        """One step of a register tile: the factor left(i), the same in all lanes, times each
        register of `right`, added to the sums of row i."""
        for i, row in enumerate(sums):
            x = self._broadcast(f, left(i))
            for y, s in zip(right, row, strict=True):
                s.set(self.multiply_add(f, x, y, s.get()))

    @cached_property
    def cell_in_vector_register(self) -> bool:
        """Whether a cell of the left factor is loaded to a vector register (as an f32), because the
        unit multiplies by one element of it; a general register would take a copy to all lanes."""
        return self.target.isa == "neon" and self.unit is not None

    def _broadcast(self, f: Function, x: Value) -> Value:
        """A factor in all lanes."""
        if x.type != F32 or not self.cell_in_vector_register:
            return f.splat(x, self.lanes)
        four = vec(F32, self.lanes)
        first = f.bitcast(f.op(four, f"insertelement {four} poison, {x}, i32 0"), self.vector)
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return f.op(self.vector, f"shufflevector {first}, {self.vector} poison, {zeros}")


def unrolled_loop(
    f: Function, depth: Value, unroll: int, step: Callable[[Value], None], *, loop: bool = True
) -> None:
    """Call step(k) for k in [0, depth), `unroll` of them in each turn of a loop; `loop` False: all
    written out, for a depth that is known."""
    unrolled_end = f.mul(f.udiv(depth, unroll), unroll) if loop else integer(0)
    with f.range(0, unrolled_end, unroll, unroll=1) as k:
        for u in range(unroll):
            step(f.add(k, u))
    if depth.known is not None and unrolled_end.known is not None:
        for k in range(unrolled_end.known, depth.known):
            step(integer(k))
    elif unroll > 1:
        with f.range(unrolled_end, depth, unroll=1) as k:
            step(k)
