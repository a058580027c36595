"""What every scalar operation means, on NumPy arrays.

`evaluate_program` is the oracle of every kernel that runs a Program and what operations use for
their own `evaluate`. Numbers follow docs/numerics.md: an instruction computes in its own type and
rounds to it once; f16 and bf16 instructions compute in f32 first; functions such as exp are
computed in f64 for narrower types, so that the error seen in a test is the kernel's alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from ..dtype import DType
from ..errors import ExecutionError, VerificationError
from ..op import Array
from ..types import coerce_to_dtype, joined_shape
from .blocks import BLOCK_ELEMENTS, map_blocks
from .program import Instr, Program

COMPARISONS = frozenset("eq ne lt le gt ge".split())
LOGIC = frozenset("and or xor not".split())
PREDICATES = COMPARISONS | LOGIC | {"isnan", "isinf"}


def evaluate_program(program: Program, arrays: Sequence[Array]) -> list[Array]:
    """One array per result, of the shape that all `arrays` broadcast to.

    Raises ExecutionError where integers are divided by zero, VerificationError where an array's
    type is not the one its "input" instruction names.
    """
    given = [np.asarray(a) for a in arrays]
    shape = joined_shape(*(a.shape for a in given))
    with np.errstate(all="ignore"):
        return map_blocks(partial(_evaluate_block, program), given, shape)


def _evaluate_block(program: Program, arrays: Sequence[Array]) -> list[Array]:
    values: list[Array] = []
    for instr in program.instrs:
        if instr.op == "input":
            values.append(_input(instr, arrays))
        else:
            values.append(evaluate_instr(instr, [values[i] for i in instr.args]))
    return [values[r] for r in program.results]


def evaluate_instr(instr: Instr, args: Sequence[Array]) -> Array:
    """The value of one instruction other than "input"; errors as evaluate_program's."""
    with np.errstate(all="ignore"):
        if instr.op == "const":
            return constant_array(instr)
        if instr.op == "cast":
            return cast_array(args[0], instr.dtype)
        if instr.op == "select":
            return np.where(*args)
        if instr.op in LOGIC:
            return _LOGIC[instr.op](*args)
        dtype = DType.from_numpy(args[0].dtype)
        table = _FLOAT if dtype.is_float else _INTEGER
        function = table.get(instr.op) or _ANY.get(instr.op)
        if function is None:
            raise VerificationError(f"scalar operation {instr.op!r} is not defined on {dtype}")
        wide = _compute_type(dtype, instr.op)
        result = np.asarray(function(*(a.astype(wide, copy=False) for a in args)))
        if instr.op in PREDICATES:
            return result
        return cast_array(result, instr.dtype)


def _input(instr: Instr, arrays: Sequence[Array]) -> Array:
    array = np.asarray(arrays[instr.args[0]])
    if array.dtype != instr.dtype.numpy:
        raise VerificationError(
            f"input {instr.args[0]} of a scalar program has the wrong type",
            got=array.dtype,
            expected=instr.dtype,
        )
    return array


def constant_array(instr: Instr) -> Array:
    """A "const" as a scalar array: rounded (float) or wrapped (integer) to its type."""
    value: Any = instr.value
    if instr.dtype.is_int:
        low, span = int(instr.dtype.min), 1 << instr.dtype.bits
        value = (int(value) - low) % span + low
        return np.array(value, dtype=np.int64 if value < 1 << 63 else np.uint64).astype(
            instr.dtype.numpy
        )
    return cast_array(np.array(value, dtype=np.float64), instr.dtype)


def _compute_type(dtype: DType, op: str) -> np.dtype[Any]:
    """The NumPy type in which `op` is computed before its one rounding."""
    if dtype.is_int and dtype.bits < 8:  # ml_dtypes divides and shifts these wrongly
        return np.dtype(np.int8 if dtype.is_signed else np.uint8)
    if not dtype.is_float:
        return dtype.numpy
    if op in _FUNCTIONS or dtype is DType.f64:
        return np.dtype(np.float64)
    return np.dtype(np.float32)


# -- casts ----------------------------------------------------------------------------------------


# QLoRA's quantiles of the normal distribution (Dettmers and others, 2023), as f32.
_NF4_VALUES: Final[Array] = np.array(
    [
        -1.0,
        -0.6961928009986877,
        -0.5250730514526367,
        -0.39491748809814453,
        -0.28444138169288635,
        -0.18477343022823334,
        -0.09105003625154495,
        0.0,
        0.07958029955625534,
        0.16093020141124725,
        0.24611230194568634,
        0.33791524171829224,
        0.44070982933044434,
        0.5626170039176941,
        0.7229568362236023,
        1.0,
    ],
    np.float32,
)
# Halfway between neighbours.
_NF4_STEPS: Final[Array] = (_NF4_VALUES[1:].astype(np.float64) + _NF4_VALUES[:-1]) / 2


def cast_array(array: Array, to: DType) -> Array:
    """`array` as `to`: float to integer truncates, saturates and maps NaN to 0; integers wrap;
    to float rounds to nearest even; to float8 saturates at the largest finite value; to nf4 takes
    the nearest number of its table, the lower one of two, and 0 for NaN; to boolean: whether it
    differs from 0."""
    if array.dtype == to.numpy:
        return coerce_to_dtype(array, to)
    if array.size > BLOCK_ELEMENTS:
        (found,) = map_blocks(lambda block: [cast_array(block[0], to)], [array], array.shape)
        return found
    source = DType.from_numpy(array.dtype)
    if source is DType.nf4:
        return cast_array(_NF4_VALUES[array["nf4"] & 15], to)
    with np.errstate(all="ignore"):
        if to is DType.nf4:
            number = np.nan_to_num(array.astype(np.float64), nan=0.0)
            return np.searchsorted(_NF4_STEPS, number).astype(np.uint8).view(to.numpy)
        if to is DType.boolean:
            return array.astype(np.float32) != 0 if source.bits < 32 else array != 0
        if source.is_float and to.is_int:
            return _saturate(array, to)
        if to is DType.bf16 and array.dtype.itemsize > 2:
            return _round_to_odd(array).astype(to.numpy)
        if to.is_float and to.bits == 8:
            limit = float(to.max)
            return np.clip(array.astype(np.float32), -limit, limit).astype(to.numpy)
        return coerce_to_dtype(array.astype(to.numpy), to)


def _saturate(array: Array, to: DType) -> Array:
    wide = np.trunc(array.astype(np.float64))
    low, high = int(to.min), int(to.max)
    # Bounds as powers of two: the largest i64 has no f64.
    inside = (wide >= low) & (wide < float(high + 1))
    exact = np.uint64 if to is DType.u64 else np.int64
    result = np.where(inside, wide, 0).astype(exact).astype(to.numpy)
    result = np.where(wide >= float(high + 1), np.array(high, to.numpy), result)
    return np.where(wide < low, np.array(low, to.numpy), result)


def _round_to_odd(array: Array) -> Array:
    """f32 from which bf16 is rounded as if from `array` itself (no double rounding)."""
    if array.dtype == np.float32 or array.dtype.kind == "b":
        return array.astype(np.float32)
    exact = array.astype(np.float64)
    near = exact.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.int32) if near.ndim else near.reshape(1).view(np.int32).reshape(())
    fix = (back != exact) & ~np.isnan(exact) & (bits & 1 == 0)
    step = np.where(np.abs(back) > np.abs(exact), -1, 1).astype(np.int32)
    rounded_bits = np.asarray(np.where(fix, bits + step, bits))
    return rounded_bits.reshape(-1).view(np.float32).reshape(rounded_bits.shape)


_ROOT_HALF: Final = np.sqrt(np.longdouble(0.5))


# -- operations -----------------------------------------------------------------------------------


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), dtype=np.float64)


def _gelu(x: Array) -> Array:
    """x erfc(-x / sqrt 2) / 2; what -x / sqrt 2 lost in rounding counts in the tail."""
    clamped = np.clip(x, -40.0, 40.0)
    z = clamped * -math.sqrt(0.5)
    lost = (clamped.astype(np.longdouble) * -_ROOT_HALF - z).astype(np.float64)
    tail = np.asarray(np.frompyfunc(math.erfc, 1, 1)(z), dtype=np.float64)
    tail = tail - 2 / math.sqrt(math.pi) * np.exp(-z * z) * lost
    return np.where(np.isneginf(x), -0.0, 0.5 * x * tail)


def _round_away(x: Array) -> Array:
    truncated = np.trunc(x)  # of what is between -1 and 0 that is -0.0, which a sum with 0 is not
    return np.where(
        np.abs(x - truncated) >= 0.5, truncated + np.copysign(1, x).astype(x.dtype), truncated
    )


def _fma(a: Array, b: Array, c: Array) -> Array:
    return a * b + c


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _clip(x: Array, low: Array, high: Array) -> Array:
    return np.minimum(np.maximum(x, low), high)


def _refuse_zero(a: Array, b: Array) -> None:
    """ExecutionError if an element of a is divided by 0; there may be none."""
    if a.size and np.any(b == 0):
        raise ExecutionError("an integer is divided by zero", got="a divisor of 0")


def _integer_divide(a: Array, b: Array) -> Array:
    _refuse_zero(a, b)
    return np.floor_divide(a - np.fmod(a, b), b)


def _integer_mod(a: Array, b: Array) -> Array:
    _refuse_zero(a, b)
    return np.fmod(a, b)


def _integer_floormod(a: Array, b: Array) -> Array:
    _refuse_zero(a, b)
    return np.remainder(a, b)


def _integer_power(a: Array, b: Array) -> Array:
    """a ** b modulo 2**bits; a negative b gives 1 / a**-b truncated (0 for a = 0)."""
    shape = joined_shape(a.shape, b.shape)
    a, b = np.broadcast_to(a, shape), np.broadcast_to(b, shape)
    base, left = a.copy(), np.maximum(b, 0).astype(b.dtype)
    result = np.ones_like(a)
    while np.any(left):
        result = np.where(left & 1 == 1, result * base, result)
        base, left = base * base, left >> 1
    if a.dtype.kind == "u":
        return result
    one = np.where(b & 1 == 1, a, np.ones_like(a))  # for a = 1 and a = -1
    inverse = np.where((a == 1) | (a == -1), one, np.zeros_like(a))
    return np.where(b < 0, inverse, result)


def _power(a: Array, b: Array) -> Array:
    """C's pow. Of one exponent for all, 0.5, NumPy makes a square root, which is NaN for -infinity
    and -0 for -0."""
    shape = joined_shape(a.shape, b.shape)
    one_by_one = (np.array(np.broadcast_to(x, shape), ndmin=1) for x in (a, b))
    return np.power(*one_by_one).reshape(shape)


def _shift_left(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    return np.where(inside, np.left_shift(a, np.where(inside, b, 0).astype(a.dtype)), 0).astype(
        a.dtype
    )


def _shift_right(a: Array, b: Array) -> Array:
    """Signs are shifted in; a count that is negative or beyond the width shifts all out."""
    bits = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    count = np.where(inside, b, bits - 1).astype(a.dtype)
    shifted = np.right_shift(a, count)
    return shifted if a.dtype.kind == "i" else np.where(inside, shifted, 0).astype(a.dtype)


_ANY: dict[str, Callable[..., Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "clip": _clip,
}
_LOGIC: dict[str, Callable[..., Array]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
}
_INTEGER: dict[str, Callable[..., Any]] = {
    "div": _integer_divide,
    "mod": _integer_mod,
    "floormod": _integer_floormod,
    "pow": _integer_power,
    "fma": _fma,
    "shl": _shift_left,
    "shr": _shift_right,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
    "bitnot": np.invert,
}


def _flush_denormals(x: Array) -> Array:
    return np.where(np.abs(x) < 2.0**-126, np.copysign(np.zeros_like(x), x), x)


# Computed in f64 and rounded once; the rest of _FLOAT is exact or rounds once by itself.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "rsqrt": _rsqrt,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erf": _erf,
    "gelu": _gelu,
    "sigmoid": _sigmoid,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "softplus": _softplus,
    "pow": _power,
    "atan2": np.arctan2,
    "fma": _fma,
}
_FLOAT: dict[str, Callable[..., Any]] = {
    **_FUNCTIONS,
    "sqrt": np.sqrt,
    "recip": np.reciprocal,
    "div": np.divide,
    "mod": np.fmod,
    "floormod": np.remainder,
    "ceil": np.ceil,
    "floor": np.floor,
    "round_even": np.rint,
    "round_away": _round_away,
    "trunc": np.trunc,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "flush": _flush_denormals,
}
