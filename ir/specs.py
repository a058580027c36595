"""Kernel specs: what a step computes, as frozen data that lowering makes and runtime compiles.

Nothing here depends on a machine. A spec holds no buffer number, no address and no position in a
plan, so equal work has equal specs and is compiled once; a step maps a spec's local argument
positions to the plan's buffers and sizes. Sizes are `int | DimArg`: an int is baked into the
code, a DimArg is read at run time, so that a new shape needs no new code.

Operands stand in the order of the kernel's `buffers`: inputs first, outputs last.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, cast

from .dtype import DType
from .errors import VerificationError


@dataclass(frozen=True, order=True)
class DimArg:
    """A size read at run time from position `index` of the step's `dims`."""

    index: int


Size: TypeAlias = int | DimArg
# An axis in blocks: how many, and the size of each.
Split: TypeAlias = tuple[Size, Size]


@dataclass(frozen=True)
class Operand:
    """How a kernel walks one buffer: element (i0, i1, ...) of the iteration space lies at
    `offset + sum(i * stride)`, counted in elements of `dtype`. Stride 0 broadcasts."""

    dtype: DType
    strides: tuple[Size, ...]
    offset: Size = 0


@dataclass(frozen=True)
class Instr:
    """One instruction of a scalar program; its result has type `dtype`.

    `op` is one of SCALAR_OPS. `args` are indices of earlier instructions, except for "input",
    whose single argument is the number of an operand. `value` belongs to "const". Equal ones are
    computed once, so a value is compared by its spelling: 0.0 is not -0.0, and NaN is NaN.
    """

    op: str
    args: tuple[int, ...]
    dtype: DType
    value: float | int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instr) and self._spelling == other._spelling

    def __hash__(self) -> int:
        return hash(self._spelling)

    @property
    def _spelling(self) -> tuple[object, ...]:
        return (self.op, self.args, self.dtype, repr(self.value))


@dataclass(frozen=True)
class Program:
    """A straight-line scalar program applied to every element: an elementwise group, or a Gemm's
    epilogue. `results` are the instructions whose values are stored, one per output operand."""

    instrs: tuple[Instr, ...]
    results: tuple[int, ...]


# Operations of scalar programs and how many arguments they take. Comparisons and logic give
# `boolean`; arithmetic gives its arguments' type (all arguments of one instruction agree, except
# for "select", whose first is boolean, and "cast"). Meaning: docs/numerics.md; "max"/"min" hand
# on NaN, integer arithmetic wraps, "cast" saturates from float to integer, "div" of integers
# truncates toward zero and "floormod"/"mod" are Python's and C's remainder. "flush" of f32 makes
# denormals zeros of their sign, as units do that multiply bf16.
SCALAR_OPS: dict[str, int] = {
    **dict.fromkeys(["input", "const"], 0),
    **dict.fromkeys(
        "cast neg abs sign sqrt rsqrt recip exp expm1 log log1p tanh erf sigmoid sin cos tan asin "
        "acos atan sinh cosh asinh acosh atanh ceil floor round_even round_away trunc not isnan "
        "isinf softplus bitnot flush".split(),
        1,
    ),
    **dict.fromkeys(
        "add sub mul div max min pow mod floormod eq ne lt le gt ge and or xor shl shr atan2 "
        "bitand bitor bitxor".split(),
        2,
    ),
    **dict.fromkeys(["select", "fma", "clip"], 3),
}


@dataclass(frozen=True)
class Spec:
    """Base of all kernel specs."""

    family: ClassVar[str] = ""

    def operands(self) -> tuple[Operand, ...]:
        """Operands in the order of the kernel's buffers: inputs, then outputs."""
        raise TypeError(f"{type(self).__name__} does not list its operands")

    def output_count(self) -> int:
        """How many of the operands, counted from the end, are written."""
        return 1

    def phases(self, at: Callable[[Size], int], parts: int) -> int:
        """Phases that `parts` threads go through together, or 0; `at` gives a size's value."""
        return 0

    @functools.cached_property
    def dim_args(self) -> int:
        """How many run-time sizes the spec reads."""
        found = [d.index for d in _dim_args(self)]
        return max(found) + 1 if found else 0


@dataclass(frozen=True)
class PackedB:
    """Layout of a constant right operand: panels of `nr` columns, each K x nr row after row, the
    last panel padded with zeros; one block of panels per matrix of the batch. It depends on
    shape, type, precision and Target, never on M or the threads, so a weight is packed once.

    kr: rows that are interleaved: element (k, n) of a panel lies at (k // kr * nr + n) * kr + k %
    kr, and K is padded with zeros to a multiple of kr. Units that multiply pairs want 2, those that
    multiply four bytes want 4. Elements of 4 bits lie two to a byte, the first in the lower half.

    sums: behind its rows a panel holds the sums of its columns as they are stored, nr numbers i32.
    Bytes that are multiplied as such have them. In cells of 4 these are i8: u8 is stored less 128.
    """

    nr: int
    kr: int = 1
    sums: bool = False


@dataclass(frozen=True)
class Compressed:
    """A right operand of small integers q, which stands for floats that are expanded as they are
    multiplied: b[k, n] = (q[k, n] - zero[k // group, n]) * scale[k // group, n], computed in f32
    and rounded once to the scale's type.

    scale and zero walk (batch..., ceil(K / group), n) and are packed with panels as wide as q's
    (kr 1); zeros are u8 or i8. A zero that is a number serves all of q.

    normal: scales are f16 or bf16, none so small or large that a weight may leave the type's normal
    numbers (ir/tiles.py, normal_scales): kernels then round by arithmetic.
    """

    group: int
    scale: Operand
    zero: Operand | int = 0
    normal: bool = False

    def __post_init__(self) -> None:
        if self.group < 1:
            raise VerificationError("a group of compressed weights is empty", got=self.group)


@dataclass(frozen=True)
class GemmSpec(Spec):
    """out[b, m, n] = epilogue(sum over k of a[b, m, k] * b[b, k, n], extras[b, m, n]...).

    Operands walk (batch..., m, k), (batch..., k, n), and (batch..., m, n) for extras and out. Any
    stride is allowed. The right operand's last two strides are ignored where `packed` is set.
    The sum is accumulated in `acc`; input 0 of `epilogue` is the accumulator, input 1 + i is
    extra i. Order over K: docs/numerics.md. Buffers: a, b, zeros..., extras..., out; a compressed
    right operand's scales and zeros stand before out.

    Bytes: a and b are u8 or i8, each for itself, and acc is i32: sums are exact modulo 2^32. Then
    zero points are subtracted from the factors: a_zero, of a's type, walks (batch..., m); b_zero,
    of b's type, walks (batch..., n).

    a_cast, b_cast: a float type that elements are converted to ("cast" of scalar programs) before
    they are multiplied; only an operand that is no packed constant has one.

    a_rows, a_depth, out_rows, out_columns: m, k, m or n as that operand walks it, by two strides
    in place of one; a product with n = 1 has none for a.

    factors: bf16 rounds every element of a and b to bf16 before it is multiplied (nearest even,
    denormals become zeros; acc is f32); a packed right operand is stored in it. None: as they are.
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
    extras: tuple[Operand, ...] = ()
    factors: DType | None = None
    compressed: Compressed | None = None
    a_zero: Operand | None = None
    b_zero: Operand | None = None
    a_cast: DType | None = None
    b_cast: DType | None = None
    a_rows: Split | None = None
    a_depth: Split | None = None
    out_rows: Split | None = None
    out_columns: Split | None = None

    def __post_init__(self) -> None:
        fixed = self.packed is not None and isinstance(self.k, int) and isinstance(self.n, int)
        if self.compressed is not None and not fixed:
            raise VerificationError("compressed weights are no packed constant")

    def operands(self) -> tuple[Operand, ...]:
        return (self.a, self.b, *self.zeros, *self.extras, *self.scaling(), self.out)

    @property
    def zeros(self) -> tuple[Operand, ...]:
        """The zero points of bytes that there are."""
        return tuple(z for z in (self.a_zero, self.b_zero) if z is not None)

    def walks(self) -> list[tuple[Size, ...]]:
        """The iteration space of each operand, in their order."""
        batch, rows, columns = self.batch, (*self.batch, self.m), (*self.batch, self.n)
        a = (*batch, *(self.a_rows or (self.m,)), *(self.a_depth or (self.k,)))
        out = (*batch, *(self.out_rows or (self.m,)), *(self.out_columns or (self.n,)))
        zeros = [rows] * (self.a_zero is not None) + [columns] * (self.b_zero is not None)
        scaling = [(*self.batch, self.groups(), self.n) for _ in self.scaling()]
        extras = [(*rows, self.n)] * len(self.extras)
        return [a, (*batch, self.k, self.n), *zeros, *extras, *scaling, out]

    def splits(self) -> list[tuple[Size, Split]]:
        """The axes that are split, and their parts."""
        rows = [(self.m, self.a_rows), (self.m, self.out_rows)]
        found = [*rows, (self.k, self.a_depth), (self.n, self.out_columns)]
        return [(size, split) for size, split in found if split is not None]

    def scaling(self) -> tuple[Operand, ...]:
        """The scales, and zeros, of a compressed right operand."""
        c = self.compressed
        if c is None:
            return ()
        return (c.scale, c.zero) if isinstance(c.zero, Operand) else (c.scale,)

    def groups(self) -> int:
        """Groups of K that a compressed right operand has."""
        assert self.compressed is not None and isinstance(self.k, int)
        return -(-self.k // self.compressed.group)

    def panelled(self) -> dict[int, tuple[PackedB, Size, Size]]:
        """Layout, K and N of the operands (by number) that are packed constants."""
        if self.packed is None:
            return {}
        found: dict[int, tuple[PackedB, Size, Size]] = {1: (self.packed, self.k, self.n)}
        for i, _ in enumerate(self.scaling()):
            at = 2 + len(self.zeros) + len(self.extras) + i
            found[at] = PackedB(self.packed.nr), self.groups(), self.n
        return found


@dataclass(frozen=True)
class ElementwiseSpec(Spec):
    """Every output element from the input elements at the same place of the iteration space.

    With a program of one "input" and one result this is a strided copy: a transpose, a slice, a
    broadcast, a piece of a concatenation.
    """

    family: ClassVar[str] = "elementwise"

    axes: tuple[Size, ...]
    inputs: tuple[Operand, ...]
    outs: tuple[Operand, ...]
    program: Program

    def operands(self) -> tuple[Operand, ...]:
        return (*self.inputs, *self.outs)

    def output_count(self) -> int:
        return len(self.outs)


@dataclass(frozen=True)
class ReduceSpec(Spec):
    """out[kept] = epilogue(kind over reduced axes of prologue(inputs[kept + reduced])).

    `kind`: sum, max, min, prod, any, all (max and min hand on NaN; the accumulator's type is the
    prologue's result type). An empty reduction gives the kind's neutral element; `epilogue` sees
    the reduced value as input 0 and the number of reduced elements, as a value of the same type,
    as input 1 (a mean divides by it). Input operands walk (kept..., reduced...), `out` (kept...).
    """

    family: ClassVar[str] = "reduce"

    kind: str
    kept: tuple[Size, ...]
    reduced: tuple[Size, ...]
    inputs: tuple[Operand, ...]
    out: Operand
    prologue: Program
    epilogue: Program

    def operands(self) -> tuple[Operand, ...]:
        return (*self.inputs, self.out)


@dataclass(frozen=True)
class SoftmaxSpec(Spec):
    """Softmax (or its logarithm) along the last axis of `axes` of prologue(inputs).

    x = prologue(inputs); out = exp(x - max x) / sum exp(x - max x), or x - max - log sum. The
    prologue carries what precedes a softmax: a scale, an added mask.
    """

    family: ClassVar[str] = "softmax"

    axes: tuple[Size, ...]
    inputs: tuple[Operand, ...]
    out: Operand
    prologue: Program
    log: bool = False

    def operands(self) -> tuple[Operand, ...]:
        return (*self.inputs, self.out)


@dataclass(frozen=True)
class NormSpec(Spec):
    """Normalisation along the last axis of `axes` of x = prologue(inputs).

    With centre: y = (x - mean x) / sqrt(var x + eps), the variance taken about the mean (two
    passes); without: y = x / sqrt(mean x^2 + eps) (RMS). eps_outside: 1 / (sqrt(var) + eps).
    `scale_variance` false leaves y = x - mean. out = epilogue(y, extras...), where input 0 is y.
    If `outs` has two operands, the second receives x itself (a residual sum that others read).
    Buffers: inputs..., extras..., outs....
    """

    family: ClassVar[str] = "norm"

    axes: tuple[Size, ...]
    inputs: tuple[Operand, ...]
    extras: tuple[Operand, ...]
    outs: tuple[Operand, ...]
    prologue: Program
    epilogue: Program
    eps: float
    centre: bool = True
    scale_variance: bool = True
    eps_outside: bool = False

    def operands(self) -> tuple[Operand, ...]:
        return (*self.inputs, *self.extras, *self.outs)

    def output_count(self) -> int:
        return len(self.outs)


# Status codes of kernels; the first 8 bytes of scratch then hold the offending element as i64.
OK = 0
GATHER_OUT_OF_RANGE = 1
DIVISION_BY_ZERO = 2
EMPTY_AXIS = 3
STATUS_TEXT: dict[int, str] = {
    GATHER_OUT_OF_RANGE: "an index lies outside the axis it picks from",
    DIVISION_BY_ZERO: "an integer is divided by zero",
    EMPTY_AXIS: "an empty axis has no element to take",
}


def _dim_args(value: object) -> list[DimArg]:
    """Every DimArg inside a spec."""
    if isinstance(value, DimArg):
        return [value]
    if isinstance(value, tuple):
        return [d for item in cast("tuple[object, ...]", value) for d in _dim_args(item)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Program):
        return [d for f in dataclasses.fields(value) for d in _dim_args(getattr(value, f.name))]
    return []
