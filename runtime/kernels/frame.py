"""What kernels that sum products in register tiles share: the frame and the multiply-add.

The frame is a record on the stack with the addresses of extras and out where a tile stands, and
with the run-time sizes: functions take it instead of a dozen arguments.
"""

from __future__ import annotations

from typing import Final

from ...ir.dtype import DType
from ...ir.specs import GemmSpec, Size
from ...ir.specs_conv import ConvSpec
from ...ir.target import Target
from ..codegen.emit import Function, Module
from ..codegen.values import BF16, ELEMENT, I64, PTR, Value, bits_of, integer, is_float, vec

# Units that multiply cells of several values and add the products to one lane: intrinsic and the
# type of its factors, by (type of the factors, accumulators per register).
_UNITS: Final[dict[tuple[DType, int], tuple[str, str]]] = {
    (DType.bf16, 16): ("llvm.x86.avx512bf16.dpbf16ps.512", vec(BF16, 32)),
}


class Frame:
    """A kernel of `lanes` accumulators per register, whose factors are cells of `kr` values."""

    def __init__(
        self, spec: GemmSpec | ConvSpec, target: Target, module: Module, lanes: int
    ) -> None:
        self.target, self.module, self.lanes = target, module, lanes
        self.acc = ELEMENT[spec.acc.value]
        self.vector = vec(self.acc, lanes)
        self.bytes = bits_of(self.acc) // 8
        self.walked = (*spec.extras, spec.out)
        self.unit: tuple[str, str] | None = None
        self._dims = spec.dim_args

    def choose_unit(self, factors: DType | None, kr: int) -> None:
        """Multiply cells of `kr` values of the type `factors`."""
        assert factors is not None or kr == 1
        self.unit = _UNITS[factors, self.lanes] if factors and kr > 1 else None

    @property
    def frame_bytes(self) -> int:
        return 8 * (len(self.walked) + self._dims)

    def set_base(self, f: Function, frame: Value, index: int, pointer: Value) -> None:
        f.store(pointer, f.offset(frame, 8 * index))

    def base(self, f: Function, frame: Value, index: int) -> Value:
        """The address that set_base stored for extra `index` (out comes last)."""
        return f.load(PTR, f.offset(frame, 8 * index))

    def set_dim(self, f: Function, frame: Value, index: int, value: Value) -> None:
        f.store(value, f.offset(frame, 8 * (len(self.walked) + index)))

    def size(self, f: Function, frame: Value, size: Size) -> Value:
        if isinstance(size, int):
            return integer(size)
        return f.load(I64, f.offset(frame, 8 * (len(self.walked) + size.index)))

    def widen(self, f: Function, value: Value, dtype: DType) -> Value:
        """What a tile loads, as it multiplies it: of the accumulator's type, or cells."""
        return value if self.unit else f.cast(value, self.acc, signed_=dtype.is_signed)

    def multiply_add(self, f: Function, a: Value, b: Value, c: Value) -> Value:
        """a * b + c; integers wrap. Of cells: the sum of their products, + c."""
        if self.unit:
            name, factors = self.unit
            return f.call(name, self.vector, c, f.bitcast(a, factors), f.bitcast(b, factors))
        return f.fma(a, b, c) if is_float(self.acc) else f.add(f.mul(a, b), c)
