"""Scalar programs: straight-line code in SSA form that computes one element of each result."""

from __future__ import annotations

from ..dtype import DType
from ..lazy_dataclass import dataclass


@dataclass(frozen=True)
class Instr:
    """One instruction of a scalar program; its result has type `dtype`.

    `op` is one of SCALAR_OPS. `args` are indices of earlier instructions, except for "input",
    whose single argument is the number of an operand. `value` belongs to "const". Equal ones are
    computed once, so a value is compared by its text: 0.0 is not -0.0, and NaN is NaN.
    """

    op: str
    args: tuple[int, ...]
    dtype: DType
    value: float | int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instr) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return (self.op, self.args, self.dtype, repr(self.value))


@dataclass(frozen=True)
class Program:
    """A straight-line scalar program applied to every element: an elementwise group, or a Gemm's
    epilogue. `results` are the instructions whose values are stored, one per output operand."""

    instrs: tuple[Instr, ...]
    results: tuple[int, ...]


_COMPARISONS = frozenset("eq ne lt le gt ge".split())


def compares_floats(program: Program) -> bool:
    """Does the program compare floating-point values, or cast one to boolean?"""
    instrs = program.instrs
    return any(
        instrs[argument].dtype.is_float
        for instr in instrs
        if instr.op in _COMPARISONS or (instr.op == "cast" and instr.dtype is DType.boolean)
        for argument in instr.args
    )


# Operations of scalar programs and how many arguments they take. Comparisons and logic give
# `boolean`; arithmetic gives its arguments' type (all arguments of one instruction agree, except
# for "select", whose first is boolean, and "cast"). Meaning: docs/numerics.md; "max"/"min"
# propagate NaN, integer arithmetic wraps, "cast" saturates from float to integer, "div" of integers
# truncates toward zero and "floormod"/"mod" are Python's and C's remainder. "flush" of f32 makes
# denormals zeros of their sign, as units do that multiply bf16.
SCALAR_OPS: dict[str, int] = {
    **dict.fromkeys(["input", "const"], 0),
    **dict.fromkeys(
        "cast neg abs sign sqrt rsqrt recip exp expm1 log log1p tanh erf sigmoid sin cos tan asin "
        "acos atan sinh cosh asinh acosh atanh ceil floor round_even round_away trunc not isnan "
        "isinf softplus gelu bitnot flush".split(),
        1,
    ),
    **dict.fromkeys(
        "add sub mul div max min pow mod floormod eq ne lt le gt ge and or xor shl shr atan2 "
        "bitand bitor bitxor".split(),
        2,
    ),
    **dict.fromkeys(["select", "fma", "clip"], 3),
}
