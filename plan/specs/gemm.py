"""Specs of matrix products, with packed and weight-only quantized right operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from ...ir.dtype import DType
from ...ir.errors import VerificationError
from ...ir.lazy_dataclass import dataclass
from ...ir.scalar.program import Program
from ...ir.scalar.verify import verify_program
from ..packing.layouts import PackedB
from ..packing.panel_params import (
    BYTES,
    CONVERTIBLE,
    bf16x3_group,
    cell_depth,
    compressed_layout,
    dot_factor_dtype,
    dot_group,
    multiplies_bf16,
    product_panel_width,
)
from ..ranges import COUNT, MAX_ELEMENTS, Range
from ..target import Target
from .base import (
    Operand,
    PackedOperand,
    Size,
    Spec,
    Split,
    count_instructions,
    describe_program,
    resolver,
)
from .checks import (
    require_bf16,
    require_one_of,
    require_types,
    require_widening,
    spec_error,
    types_of,
)

# Rows of a product by compressed weights that take as long with rounded factors as without, for the
# weights are then expanded by each tile (docs/dev/tuning/compressed-weights-few-rows.md).
MAX_FEW_ROWS: Final = 8
# Rows that are quantized to int8 and multiplied by compressed weights as fast by vector registers
# as by tiles of AMX, which have 16 rows (docs/dev/tuning/int8-activations-amx.md).
MAX_VECTOR_INT8_ROWS: Final = 16


@dataclass(frozen=True)
class Compressed:
    """A right operand of small integers q, which encode floats that are expanded as they are
    multiplied: b[k, n] = (q[k, n] - zero[k // group, n]) * scale[k // group, n], computed in f32
    and, where `rounded`, rounded once to the scale's type.

    scale and zero walk (batch..., ceil(K / group), n) and are packed with panels as wide as q's
    (kr 1); zeros are u8 or i8. A zero that is a number serves all of q.

    offset: walks and is packed as scale; b[k, n] = q[k, n] * scale + offset, in f32 with one
    rounding or two.

    normal: scales are f16 or bf16, none so small or large that a weight may leave the type's normal
    numbers (plan/packing/panel_params.py, normal_scales): kernels then round by arithmetic.

    dot_group: rows of K over which the left operand is quantized to int8 with one scale, row by
    row, and multiplied in integers; 0: it is multiplied as f32. Weights are then not `rounded`.

    bf16x3: the left operand is multiplied as three bf16 numbers per value whose sum it is, and
    `dot_group` are the rows of K whose products are added before they are scaled.
    """

    ranges: ClassVar[Mapping[str, Range]] = {
        "group": (1, MAX_ELEMENTS),
        "zero_point": (-255, 255),
        "dot_group": (0, MAX_ELEMENTS),
    }

    group: int
    scale: Operand
    zero_point: Operand | int = 0
    normal: bool = False
    offset: Operand | None = None
    rounded: bool = True
    dot_group: int = 0
    bf16x3: bool = False

    @property
    def uses_int8(self) -> bool:
        """Whether the left operand is quantized."""
        return self.dot_group != 0 and not self.bf16x3

    def __post_init__(self) -> None:
        if self.group < 1:
            raise VerificationError("a group of compressed weights is empty", got=self.group)


@dataclass(frozen=True)
class GemmSpec(Spec):
    """out[b, m, n] = epilogue(sum over k of a[b, m, k] * b[b, k, n], epilogue_operands[b, m,
    n]...).

    Operands walk (batch..., m, k), (batch..., k, n), and (batch..., m, n) for epilogue operands and
    out. Any stride is allowed. The right operand's last two strides are ignored where `packed` is
    set. The sum is accumulated in `acc`; input 0 of `epilogue` is the accumulator, input 1 + i is
    epilogue operand i. Order over K: docs/numerics.md. Buffers: a, b, zeros...,
    epilogue_operands..., out; a compressed right operand's scales and zeros come before out.

    Bytes: a and b are u8 or i8, each for itself, and acc is i32: sums are exact modulo 2^32. Then
    zero points are subtracted from the factors: a_zero_point, of a's type, walks (batch..., m);
    b_zero_point, of b's type, walks (batch..., n).

    a_cast, b_cast: a float type that elements are converted to ("cast" of scalar programs) before
    they are multiplied; only an operand that is not a packed constant has one.

    a_m_split, a_k_split, out_m_split, out_n_split: m, k, m or n as that operand walks it, by two
    strides in place of one; a product with n = 1 has none for a.

    bf16x3: a and b, of f32, are multiplied on tiles of AMX as three bf16 numbers per value whose
    sum it is: six products per pair of values, in place of one. b is a packed constant without
    infinities and NaN.

    compute_dtype: bf16 rounds every element of a and b to bf16 before it is multiplied (nearest
    even, denormals become zeros; acc is f32); a packed right operand is stored in it. f16 rounds
    them to f16 (denormals are kept, what exceeds 65504 becomes infinite), and sums of few products
    may be f16 numbers (plan/packing/panel_params.py, adds_in_f16). None: as they are. Where m is
    dynamic, products of MAX_FEW_ROWS rows or less by a compressed right operand do not round.
    """

    family: ClassVar[str] = "gemm"
    product_name: ClassVar[str] = "matrix products"
    ranges: ClassVar[Mapping[str, Range]] = dict.fromkeys(
        "batch m n k a_m_split a_k_split out_m_split out_n_split".split(), COUNT
    )

    batch: tuple[Size, ...]
    m: Size
    n: Size
    k: Size
    a: Operand
    b: Operand
    out: Operand
    acc: DType
    packed: PackedB | None
    epilogue: Program
    epilogue_operands: tuple[Operand, ...] = ()
    compute_dtype: DType | None = None
    compressed: Compressed | None = None
    a_zero_point: Operand | None = None
    b_zero_point: Operand | None = None
    a_cast: DType | None = None
    b_cast: DType | None = None
    bf16x3: bool = False
    a_m_split: Split | None = None
    a_k_split: Split | None = None
    out_m_split: Split | None = None
    out_n_split: Split | None = None

    def __post_init__(self) -> None:
        fixed = self.packed is not None and isinstance(self.k, int) and isinstance(self.n, int)
        if self.compressed is not None and not fixed:
            raise VerificationError("compressed weights are not packed constant")

    # Operands -----------------------------------------------------------------------------------

    def operands(self) -> tuple[Operand, ...]:
        inputs = (*self.zero_points, *self.epilogue_operands, *self.scaling())
        return (self.a, self.b, *inputs, self.out)

    @property
    def zero_points(self) -> tuple[Operand, ...]:
        """The zero points of bytes that there are."""
        return tuple(z for z in (self.a_zero_point, self.b_zero_point) if z is not None)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        batch, rows, columns = self.batch, (*self.batch, self.m), (*self.batch, self.n)
        a = (*batch, *(self.a_m_split or (self.m,)), *(self.a_k_split or (self.k,)))
        out = (*batch, *(self.out_m_split or (self.m,)), *(self.out_n_split or (self.n,)))
        zeros = [rows] if self.a_zero_point is not None else []
        zeros += [columns] if self.b_zero_point is not None else []
        scaling = [(*self.batch, self.groups(), self.n) for _ in self.scaling()]
        others = [(*rows, self.n)] * len(self.epilogue_operands)
        return [a, (*batch, self.k, self.n), *zeros, *others, *scaling, out]

    def split_axes(self) -> list[tuple[Size, Split]]:
        rows = [(self.m, self.a_m_split), (self.m, self.out_m_split)]
        found = [*rows, (self.k, self.a_k_split), (self.n, self.out_n_split)]
        return [(size, split) for size, split in found if split is not None]

    def reduced_axes(self) -> tuple[Size, ...]:
        return (self.k,)

    def scaling(self) -> tuple[Operand, ...]:
        """The scales, and zero points or offsets, of a compressed right operand."""
        c = self.compressed
        if c is None:
            return ()
        return tuple(o for o in (c.scale, c.zero_point, c.offset) if isinstance(o, Operand))

    def groups(self) -> int:
        """Groups of K that a compressed right operand has."""
        assert self.compressed is not None and isinstance(self.k, int)
        return -(-self.k // self.compressed.group)

    def packed_operands(self) -> dict[int, PackedOperand]:
        if self.packed is None:
            return {}
        first = 2 + len(self.zero_points) + len(self.epilogue_operands)
        found = {1: PackedOperand(self.packed, self.k, self.n)}
        for i, _ in enumerate(self.scaling()):
            found[first + i] = PackedOperand(PackedB(self.packed.nr), self.groups(), self.n)
        return found

    def compressed_operands(self) -> tuple[int, ...]:
        return (1,) if self.compressed or self.widens_weights else ()

    @property
    def has_half_weights(self) -> bool:
        """Whether the right operand is a constant of halves that are multiplied as f32."""
        known = self.packed is not None and self.compressed is None and self.compute_dtype is None
        return known and self.b.dtype in (DType.f16, DType.bf16) and self.acc is DType.f32

    @property
    def widens_weights(self) -> bool:
        """The same, of rows of f32: weights are stored in fewer bits than their factors."""
        return self.has_half_weights and self.factor_dtypes()[0] is DType.f32

    def may_alias_output(self, operand: int) -> bool:
        return 0 <= operand - 2 - len(self.zero_points) < len(self.epilogue_operands)

    def factor_dtypes(self) -> tuple[DType, ...]:
        return self.a_cast or self.a.dtype, self.b_cast or self.b.dtype

    def cell_dtype(self) -> DType | None:
        """The type of the factors in cells (packing/panel_params.py); compressed weights become
        floats first."""
        if self.compressed:
            return self.compute_dtype
        return dot_factor_dtype(self.factor_dtypes()[1], self.compute_dtype)

    # Verification -------------------------------------------------------------------------------

    def verify(self, target: Target) -> None:
        self._verify_splits()
        self._verify_casts()
        if self.compressed is not None:
            self._verify_compressed(self.compressed, target)
        else:
            self._verify_panels(target)
            self._verify_factors()
        if self.bf16x3:
            self._verify_bf16x3(target)
        results = verify_program(
            self.epilogue, [self.acc, *types_of(self.epilogue_operands)], self.where
        )
        require_types(results, [self.out.dtype], self.where)

    def _verify_splits(self) -> None:
        """Sizes of blocks divide; RegionLayoutTables compares their product with the axis."""
        for size, split in self.split_axes():
            if any(isinstance(x, int) and x < 1 for x in split):
                raise spec_error("an axis is split into nothing", self.where, split, size)
        apart = self.a_m_split is not None or self.a_k_split is not None
        if apart and not (isinstance(self.n, int) and self.n > 1):
            what = "a product with one column walks its rows by two strides"
            raise spec_error(what, self.where, self.n, None)

    def _verify_casts(self) -> None:
        """Integers and floats of whole bytes are converted, to floats, and no packed constant."""
        for of, cast in ((self.a, self.a_cast), (self.b, self.b_cast)):
            if cast is not None and not (cast.is_float and of.dtype in CONVERTIBLE):
                what = "a product converts what no kernel converts"
                raise spec_error(what, self.where, of.dtype, cast)
        if self.b_cast is not None and self.packed is not None:
            raise spec_error("a product converts a packed constant", self.where, self.b_cast, None)

    def _verify_compressed(self, c: Compressed, target: Target) -> None:
        """Integers of at most 8 bits in the panels that kernels expand; sums of f32."""
        where = self.where
        if self.zero_points:
            got = len(self.zero_points)
            raise spec_error("zero points of bytes besides compressed weights", where, got, 0)
        assert isinstance(self.k, int) and isinstance(self.n, int)
        layout = compressed_layout(self.k, self.n, self.b.dtype, c.group, target)
        if layout is None or self.packed != layout:
            raise spec_error("compressed weights have another layout", where, self.packed, layout)
        for o in (self.b, *self.scaling()):
            if any(o.strides) or o.offset != 0:
                raise spec_error("compressed weights are not a single matrix", where, o.strides, 0)
        self._verify_scales(c)
        if c.dot_group not in (0, dot_group(self.k, c.group, self.b.dtype)) or (
            c.dot_group and (c.rounded or self.compute_dtype is not None)
        ):
            raise spec_error("int8 activations have other groups", where, c.dot_group, 0)
        if c.bf16x3:
            zero = c.zero_point if isinstance(c.zero_point, int) else 0
            group = bf16x3_group(self.k, c.group, self.b.dtype, zero, target)
            if group == 0 or c.dot_group != group:
                raise spec_error("tiles of bf16 have other groups", where, c.dot_group, group)
        if self.acc is not DType.f32 or self.compute_dtype not in (None, DType.bf16):
            raise spec_error("compressed weights are multiplied as f32", where, self.acc, DType.f32)
        left = self.factor_dtypes()[0]
        require_widening([left], self.acc, where)
        if self.compute_dtype is not None and left is DType.f16:
            raise spec_error("a product's types do not fit", where, left, "bf16 or f32")

    def _verify_scales(self, c: Compressed) -> None:
        where, scale = self.where, c.scale.dtype
        if scale not in (DType.f32, DType.f16, DType.bf16):
            raise spec_error("scales of another type", where, scale, "f32, f16 or bf16")
        if c.offset is not None:
            if c.offset.dtype not in (DType.f32, DType.f16):
                raise spec_error("offsets of another type", where, c.offset.dtype, "f32 or f16")
            if c.zero_point != 0:
                raise spec_error("offsets besides zeros", where, c.zero_point, 0)
            if c.rounded and scale is not DType.f32:
                raise spec_error("weights with offsets are rounded", where, scale, DType.f32)
        if c.normal and scale is DType.f32:
            raise spec_error("f32 scales are called normal", where, scale, "f16 or bf16")
        if isinstance(c.zero_point, Operand):
            if c.zero_point.dtype not in (DType.u8, DType.i8):
                raise spec_error("zeros of another type", where, c.zero_point.dtype, "u8 or i8")
        elif not -256 < c.zero_point < 256:
            what = "a zero that is not a value of the weights"
            raise spec_error(what, where, c.zero_point, "-255..255")

    def _verify_panels(self, target: Target) -> None:
        """Packed panels have the width, the cells and the column sums of the Target's units."""
        packed, where = self.packed, self.where
        if packed is None:
            return
        nr, kind = product_panel_width(target, self.acc, self.compute_dtype), self.cell_dtype()
        if packed.nr != nr:
            raise spec_error("packed panels have another width", where, packed.nr, nr)
        kr = cell_depth(target, kind)
        if packed.kr != kr:
            raise spec_error("packed panels have cells of another depth", where, packed.kr, kr)
        if packed.column_sums != (kind is DType.i8):
            raise spec_error("packed panels have sums, or lack them", where, packed, self.b.dtype)

    def _verify_factors(self) -> None:
        """Factors widen to the accumulator. Bytes are multiplied by bytes, summed in i32, and only
        they have zero points."""
        where, (left, right) = self.where, self.factor_dtypes()
        require_widening((left, right), self.acc, where)
        if left in BYTES or right in BYTES or self.zero_points:
            both = left in BYTES and right in BYTES
            if not both or self.acc is not DType.i32 or self.compute_dtype is not None:
                got = f"{left} by {right} in {self.acc}"
                raise spec_error("a product's types do not fit", where, got, "u8 or i8, in i32")
        for zero, of in ((self.a_zero_point, self.a), (self.b_zero_point, self.b)):
            if zero is not None and zero.dtype is not of.dtype:
                what = "a zero point is not of its operand's type"
                raise spec_error(what, where, zero.dtype, of.dtype)
        if self.compute_dtype is not None:
            half = self.compute_dtype
            if half is not DType.f16:
                require_bf16(half, self.acc, where)
            require_one_of(self.acc, (DType.f32,), where)
            require_one_of(left, (half, DType.f32), where)
            packed = self.packed is not None
            require_one_of(right, (half,) if packed else (half, DType.f32), where)

    def _verify_bf16x3(self, target: Target) -> None:
        """f32 times a packed constant of f32, on a Target with tiles of bf16."""
        what, where, types = "no product of tiles of bf16", self.where, self.factor_dtypes()
        if not isinstance(self.n, int) or not isinstance(self.k, int) or self.packed is None:
            raise spec_error(what, where, (self.n, self.k), "a packed constant")
        if {*types, self.acc} != {DType.f32} or self.compressed or self.compute_dtype is not None:
            raise spec_error(what, where, f"{types[0]} by {types[1]} in {self.acc}", "f32")
        if not multiplies_bf16(target):
            raise spec_error(what, where, target.isa, "AMX")

    # Cost and text ------------------------------------------------------------------------------

    def flops(self, dims: Sequence[int]) -> int:
        at = resolver(dims)
        elements = math.prod(map(at, self.batch)) * at(self.m) * at(self.n)
        return elements * (2 * at(self.k) + count_instructions(self.epilogue))

    def compute_unit(self) -> str:
        if self.bf16x3:
            return "bf16x6"
        if self.compute_dtype is not None:
            return str(self.compute_dtype)
        if self.compressed is not None and self.compressed.dot_group:
            return "bf16x3" if self.compressed.bf16x3 else "int8"
        if self.acc is DType.i32 and self.a.dtype.bits == self.b.dtype.bits == 8:
            return "int8"
        return "f64" if self.acc is DType.f64 else "f32"

    def describe(self, size: Callable[[Size], str]) -> str:
        batch = "".join(f"{size(b)} x " for b in self.batch)
        program = describe_program(self.epilogue)
        text = f" {batch}{size(self.m)} x {size(self.n)} x {size(self.k)}"
        text += f" of {self.compute_dtype} factors" if self.compute_dtype else ""
        text += f" of {self.b.dtype} weights" if self.widens_weights else ""
        if self.compressed is not None:
            text += f" of {self.b.dtype} weights in groups of {self.compressed.group}"
            rows = self.compressed.dot_group
            text += f" by int8 activations in groups of {rows}" if self.compressed.uses_int8 else ""
            text += " by three bf16 numbers per value" if self.compressed.bf16x3 else ""
        text += " of three bf16 numbers per factor" if self.bf16x3 else ""
        for name, of, cast in (("a", self.a, self.a_cast), ("b", self.b, self.b_cast)):
            text += f" with {name} from {of.dtype} to {cast}" if cast else ""
        splits = (self.a_m_split, self.a_k_split), (self.out_m_split, self.out_n_split)
        for name, pair in zip(("a", "out"), splits, strict=True):
            blocks = [f"{size(s[0])} x {size(s[1])}" for s in pair if s is not None]
            text += f" with {name} in blocks {', '.join(blocks)}" if blocks else ""
        return text + (f" then {program}" if program else "")
