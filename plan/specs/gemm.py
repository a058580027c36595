"""Specs of matrix products, with packed and weight-only quantized right operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...ir.dtype import DType
from ...ir.errors import VerificationError
from ...ir.scalar.program import Program
from .base import Operand, Size, Spec, Split


@dataclass(frozen=True)
class PackedB:
    """Layout of a constant right operand: panels of `nr` columns, each K x nr row after row, the
    last panel padded with zeros; one block of panels per matrix of the batch. It depends on
    shape, type, precision and Target, never on M or the threads, so a weight is packed once.

    kr: rows that are interleaved: element (k, n) of a panel is at (k // kr * nr + n) * kr + k %
    kr, and K is padded with zeros to a multiple of kr. Units that multiply pairs want 2, those that
    multiply four bytes want 4. Elements of 4 bits lie two to a byte, the first in the lower half.

    column_sums: behind its rows a panel holds the sums of its columns as they are stored, nr
    numbers i32. Bytes that are multiplied as such have them. In cells of 4 these are i8: u8 is
    stored less 128.
    """

    nr: int
    kr: int = 1
    column_sums: bool = False


@dataclass(frozen=True)
class Compressed:
    """A right operand of small integers q, which stands for floats that are expanded as they are
    multiplied: b[k, n] = (q[k, n] - zero[k // group, n]) * scale[k // group, n], computed in f32
    and rounded once to the scale's type.

    scale and zero walk (batch..., ceil(K / group), n) and are packed with panels as wide as q's
    (kr 1); zeros are u8 or i8. A zero that is a number serves all of q.

    normal: scales are f16 or bf16, none so small or large that a weight may leave the type's normal
    numbers (plan/packing/panel_params.py, normal_scales): kernels then round by arithmetic.
    """

    group: int
    scale: Operand
    zero_point: Operand | int = 0
    normal: bool = False

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
    epilogue_operands..., out; a compressed right operand's scales and zeros stand before out.

    Bytes: a and b are u8 or i8, each for itself, and acc is i32: sums are exact modulo 2^32. Then
    zero points are subtracted from the factors: a_zero_point, of a's type, walks (batch..., m);
    b_zero_point, of b's type, walks (batch..., n).

    a_cast, b_cast: a float type that elements are converted to ("cast" of scalar programs) before
    they are multiplied; only an operand that is not a packed constant has one.

    a_m_split, a_k_split, out_m_split, out_n_split: m, k, m or n as that operand walks it, by two
    strides in place of one; a product with n = 1 has none for a.

    compute_dtype: bf16 rounds every element of a and b to bf16 before it is multiplied (nearest
    even, denormals become zeros; acc is f32); a packed right operand is stored in it. None: as they
    are.
    """

    family: ClassVar[str] = "gemm"

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
    a_m_split: Split | None = None
    a_k_split: Split | None = None
    out_m_split: Split | None = None
    out_n_split: Split | None = None

    def __post_init__(self) -> None:
        fixed = self.packed is not None and isinstance(self.k, int) and isinstance(self.n, int)
        if self.compressed is not None and not fixed:
            raise VerificationError("compressed weights are not packed constant")

    def operands(self) -> tuple[Operand, ...]:
        return (
            self.a,
            self.b,
            *self.zero_points,
            *self.epilogue_operands,
            *self.scaling(),
            self.out,
        )

    @property
    def zero_points(self) -> tuple[Operand, ...]:
        """The zero points of bytes that there are."""
        return tuple(z for z in (self.a_zero_point, self.b_zero_point) if z is not None)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        """The iteration space of each operand, in their order."""
        batch, rows, columns = self.batch, (*self.batch, self.m), (*self.batch, self.n)
        a = (*batch, *(self.a_m_split or (self.m,)), *(self.a_k_split or (self.k,)))
        out = (*batch, *(self.out_m_split or (self.m,)), *(self.out_n_split or (self.n,)))
        zeros = [rows] * (self.a_zero_point is not None) + [columns] * (
            self.b_zero_point is not None
        )
        scaling = [(*self.batch, self.groups(), self.n) for _ in self.scaling()]
        extras = [(*rows, self.n)] * len(self.epilogue_operands)
        return [a, (*batch, self.k, self.n), *zeros, *extras, *scaling, out]

    def splits(self) -> list[tuple[Size, Split]]:
        """The axes that are split, and their parts."""
        rows = [(self.m, self.a_m_split), (self.m, self.out_m_split)]
        found = [*rows, (self.k, self.a_k_split), (self.n, self.out_n_split)]
        return [(size, split) for size, split in found if split is not None]

    def scaling(self) -> tuple[Operand, ...]:
        """The scales, and zeros, of a compressed right operand."""
        c = self.compressed
        if c is None:
            return ()
        return (c.scale, c.zero_point) if isinstance(c.zero_point, Operand) else (c.scale,)

    def groups(self) -> int:
        """Groups of K that a compressed right operand has."""
        assert self.compressed is not None and isinstance(self.k, int)
        return -(-self.k // self.compressed.group)

    def packed_operands(self) -> dict[int, tuple[PackedB, Size, Size]]:
        """Layout, K and N of the operands (by number) that are packed constants."""
        if self.packed is None:
            return {}
        found: dict[int, tuple[PackedB, Size, Size]] = {1: (self.packed, self.k, self.n)}
        for i, _ in enumerate(self.scaling()):
            at = 2 + len(self.zero_points) + len(self.epilogue_operands) + i
            found[at] = PackedB(self.packed.nr), self.groups(), self.n
        return found
