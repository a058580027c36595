"""Kernel specs: what a step computes, as frozen data that lowering makes and runtime compiles.

Nothing here depends on a machine. A spec holds no buffer number, no address and no position in a
plan, so equal work has equal specs and is compiled once; a step maps a spec's local argument
positions to the plan's buffers and sizes. Sizes are `int | RuntimeDim`: an int is baked into the
code, a RuntimeDim is read at run time, so that a new shape needs no new code.

A family of kernels is a subclass of Spec in a file of its own. Whatever verifier, printer, report,
profile and lowering have to know of it they read from the methods of the class.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias, cast

from ...ir.dtype import DType
from ...ir.errors import VerificationError
from ...ir.lazy_dataclass import dataclass
from ...ir.scalar.program import Program
from ..packing.layouts import Layout, PackedLayout
from ..ranges import NUMBER, STRIDE, Range
from ..target import Target


@dataclass(frozen=True, order=True)
class RuntimeDim:
    """A size read at run time from position `index` of the step's `dims`."""

    ranges: ClassVar[Mapping[str, Range]] = {"index": NUMBER}

    index: int


Size: TypeAlias = int | RuntimeDim
# An axis in blocks: how many, and the size of each.
Split: TypeAlias = tuple[Size, Size]
# The value of a size, where run-time sizes are known.
Resolve: TypeAlias = Callable[[Size], int]


@dataclass(frozen=True)
class Operand:
    """How a kernel walks one buffer: element (i0, i1, ...) of the iteration space is at
    `offset + sum(i * stride)`, counted in elements of `dtype`. Stride 0 broadcasts."""

    ranges: ClassVar[Mapping[str, Range]] = {"strides": STRIDE, "offset": STRIDE}

    dtype: DType
    strides: tuple[Size, ...]
    offset: Size = 0


@dataclass(frozen=True)
class PackedOperand:
    """A packed constant that a kernel reads: matrices of k x n in `layout`.

    matrices: how many; None where the operand's leading axes count them, and its last two are k
    and n, whose strides are ignored.
    """

    layout: Layout
    k: Size
    n: Size
    matrices: int | None = None

    def block_size(self) -> int:
        """Elements of one matrix in its panels."""
        if not isinstance(self.k, int) or not isinstance(self.n, int):
            raise VerificationError("a packed operand's sizes are not fixed")
        return PackedLayout.of(self.layout, self.k, self.n).size


@dataclass(frozen=True)
class Spec:
    """Base of all kernel specs: what a family answers about itself.

    family: the name in printed plans, reports and profiles. ranges: least and largest value of
    every integer field (plan/ranges.py); dataclasses inside have tables of their own.
    product_name: what reports call the steps of a family that multiplies matrices, in the plural.
    """

    family: ClassVar[str] = ""
    ranges: ClassVar[Mapping[str, Range]] = {}
    product_name: ClassVar[str] = ""

    # Operands -----------------------------------------------------------------------------------

    def operands(self) -> tuple[Operand, ...]:
        """Operands in the order of the kernel's buffers: inputs, then outputs."""
        raise TypeError(f"{type(self).__name__} does not list its operands")

    def output_count(self) -> int:
        """How many of the operands, counted from the end, are written."""
        return 1

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        """The sizes that each operand's strides go with, operand by operand."""
        raise TypeError(f"{type(self).__name__} does not list its iteration spaces")

    def packed_operands(self) -> dict[int, PackedOperand]:
        """The operands, by number, that are packed constants."""
        return {}

    def compressed_operands(self) -> tuple[int, ...]:
        """The packed operands that are expanded to floats as they are multiplied."""
        return ()

    def split_axes(self) -> list[tuple[Size, Split]]:
        """Axes that some operand walks in blocks, with the blocks, whose product is the axis."""
        return []

    def reduced_axes(self) -> tuple[Size, ...]:
        """Axes that are walked for every element that is written, beyond those of the output."""
        return ()

    def may_alias_output(self, operand: int) -> bool:
        """Whether the output may be the memory of this operand, where both have the same strides:
        an element is read before it is written, and no other worker reads it."""
        return False

    def computes_in_place(self) -> bool:
        """Whether lowering gives the last output the memory of an input that no later step reads,
        where `may_alias_output` allows it."""
        return False

    # Verification -------------------------------------------------------------------------------

    def verify(self, target: Target) -> None:
        """VerificationError where types, layouts or programs mislead the generator for `target`.

        A spec may come from a file. Numbers are in their ranges here, operands and iteration spaces
        agree, and other checks keep operands inside their buffers.
        """

    def verify_sizes(self, at: Resolve, where: str) -> None:
        """VerificationError where sizes mislead the generated code. `at` gives the values of sizes;
        0 for those that are not known yet."""

    def scatters(self) -> bool:
        """Whether data chooses which elements are written: some twice, others never."""
        return False

    def writes_all(self, at: Resolve) -> bool:
        """Whether every element that the outputs walk is written."""
        return not self.scatters()

    # Execution and cost -------------------------------------------------------------------------

    def phases(self, at: Resolve, parts: int) -> int:
        """Phases that `parts` threads go through together, or 0; `at` gives a size's value."""
        return 0

    def distinguishes_denormals(self) -> bool:
        """Does a result differ between a denormal operand and zero, as that of a comparison does?
        Such a step never runs with denormals flushed."""
        return False

    def flops(self, dims: Sequence[int]) -> int | None:
        """Arithmetic operations of one run; None where the work is moving data.

        dims: values of run-time sizes, by RuntimeDim.index. A multiply-add counts as two, every
        other instruction of a scalar program as one.
        """
        return None

    def nbytes(self, dims: Sequence[int]) -> int:
        """Bytes of the elements that a run reads and writes, each counted once per operand."""
        at, total = resolver(dims), 0
        for operand, (sizes, strides, _) in zip(self.operands(), access_terms(self), strict=True):
            walked = (at(n) for n, s in zip(sizes, strides, strict=True) if at(s) != 0)
            total += operand.dtype.nbytes(math.prod(walked))
        return total

    def compute_unit(self) -> str:
        """The unit of a core whose peak bounds the kernel: f32, f64, f16, bf16 or int8."""
        return "f64" if any(o.dtype is DType.f64 for o in self.operands()) else "f32"

    def factor_dtypes(self) -> tuple[DType, ...]:
        """Types of the two factors of a product, once they are converted; () for other families."""
        return ()

    # Text ---------------------------------------------------------------------------------------

    def describe(self, size: Callable[[Size], str]) -> str:
        """Sizes and options as printed plans show them behind the family's name."""
        return ""

    @property
    def where(self) -> str:
        """What errors of `verify` name."""
        return f"{self.family} kernel"

    def overrides(self, method: str) -> bool:
        """Whether the family has its own `method`, so that callers may skip the others' steps."""
        return getattr(type(self), method) is not getattr(Spec, method)

    @staticmethod
    def find_subclass(name: str) -> type[Spec] | None:
        """The loaded family whose class has this name: what a stored plan may hold for a Spec."""
        return next((c for c in Spec.__subclasses__() if c.__name__ == name), None)

    @functools.cached_property
    def runtime_dims(self) -> int:
        """How many run-time sizes the spec reads."""
        found = [d.index for d in _runtime_dims(self)]
        return max(found) + 1 if found else 0


# Status codes of kernels; the first 8 bytes of scratch then hold the offending element as i64.
GATHER_OUT_OF_RANGE = 1
DIVISION_BY_ZERO = 2
EMPTY_AXIS = 3
LENGTH_OUT_OF_RANGE = 4
STATUS_TEXT: dict[int, str] = {
    GATHER_OUT_OF_RANGE: "an index lies outside the axis it picks from",
    DIVISION_BY_ZERO: "an integer is divided by zero",
    EMPTY_AXIS: "an empty axis has no element to take",
    LENGTH_OUT_OF_RANGE: "a sequence is longer than its data, or its length is negative",
}


def resolver(dims: Sequence[int]) -> Resolve:
    """The values of sizes, where run-time sizes are `dims`."""
    return lambda size: int(dims[size.index]) if isinstance(size, RuntimeDim) else size


def has_same_access(a: Operand, b: Operand) -> bool:
    """Whether two operands of one iteration space walk memory alike."""
    return (a.dtype.bits, a.strides, a.offset) == (b.dtype.bits, b.strides, b.offset)


def count_instructions(program: Program) -> int:
    """Arithmetic operations of a scalar program for one element."""
    return sum(i.op not in ("input", "const", "cast", "flush") for i in program.instrs)


def describe_sizes(axes: Sequence[Size], size: Callable[[Size], str]) -> str:
    """Axes as printed plans show them."""
    return f" [{', '.join(map(size, axes))}]" if axes else ""


def describe_program(program: Program) -> str:
    """The operations of a program in order, without inputs and constants."""
    return " ".join(i.op for i in program.instrs if i.op not in ("input", "const"))


def verified_spaces(spec: Spec) -> list[tuple[Size, ...]]:
    """The iteration spaces of a spec. VerificationError where they and the operands disagree."""
    spaces, operands = spec.iteration_spaces(), spec.operands()
    if len(spaces) != len(operands):
        raise VerificationError(
            "a kernel's operands and iteration spaces differ in number", got=type(spec).__name__
        )
    for space, operand in zip(spaces, operands, strict=True):
        if len(space) != len(operand.strides):
            raise VerificationError(
                "an operand has not one stride per axis",
                where=type(spec).__name__,
                got=len(operand.strides),
                expected=len(space),
            )
    return spaces


def access_terms(spec: Spec) -> list[tuple[list[Size], list[Size], Size]]:
    """(sizes, strides, offset) per operand; packed matrices are blocks of contiguous elements."""
    found: list[tuple[list[Size], list[Size], Size]] = []
    packed = spec.packed_operands()
    for n, (space, operand) in enumerate(zip(verified_spaces(spec), spec.operands(), strict=True)):
        sizes, strides = list(space), list(operand.strides)
        if n in packed and packed[n].matrices is None:
            sizes, strides = [*sizes[:-2], packed[n].block_size()], [*strides[:-2], 1]
        found.append((sizes, strides, operand.offset))
    return found


def _runtime_dims(value: object) -> list[RuntimeDim]:
    """Every RuntimeDim inside a spec."""
    if isinstance(value, RuntimeDim):
        return [value]
    if isinstance(value, tuple):
        return [d for item in cast("tuple[object, ...]", value) for d in _runtime_dims(item)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Program):
        return [d for f in dataclasses.fields(value) for d in _runtime_dims(getattr(value, f.name))]
    return []
