"""Every scalar operation on every type against ir.scalar's meaning, on each instruction set."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import ExecutionError, UnsupportedOperationError
from irc_compiler.ir.scalar.builder import Builder, Ref, evaluate_program
from irc_compiler.ir.scalar.program import Program
from irc_compiler.plan.specs.base import DIVISION_BY_ZERO, Operand
from irc_compiler.plan.specs.elementwise import ElementwiseSpec
from irc_compiler.runtime.kernels.emit.scalar_program import find_rounded_to_bf16
from irc_compiler.runtime.vecmath.bf16_results import BF16_RESULTS
from support.kernels.harness import ISAS, run

F32, F64, F16, BF16 = DType.f32, DType.f64, DType.f16, DType.bf16
FLOATS = [F32, F64, F16, BF16]
INTS = [getattr(DType, name) for name in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")]
COUNT = 77


def spec_of(program: Program, inputs: list[DType], count: int = COUNT) -> ElementwiseSpec:
    outs = tuple(Operand(program.instrs[r].dtype, (1,)) for r in program.results)
    return ElementwiseSpec((count,), tuple(Operand(t, (1,)) for t in inputs), outs, program)


def check(
    program: Program, arrays: list[np.ndarray], isa: str, ulps: float = 0, where: str = ""
) -> None:
    """Kernel and oracle agree: bit for bit (NaNs alike), or to `ulps`."""
    spec = spec_of(program, [DType.from_numpy(a.dtype) for a in arrays], arrays[0].size)
    got = run(spec, arrays, [a.shape for _ in program.results for a in arrays[:1]], isa=isa)
    assert got.status == 0
    for k, (found, want) in enumerate(
        zip(got.outs, evaluate_program(program, arrays), strict=True)
    ):
        error = ulp_error(found, want)
        worst = int(np.argmax(error))
        name = program.instrs[program.results[k]].op
        assert error[worst] <= ulps, (
            f"{name}{where} on {isa}: {[a[worst] for a in arrays]} gave {found[worst]}, "
            f"wanted {want[worst]} ({error[worst]:.2f} ulp)"
        )


def ulp_error(found: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Distance in units of the last place; zeros of either sign are equal, NaN equals NaN."""
    if want.dtype.kind in "iub":
        return (found != want).astype(np.float64) * 1e9
    info = np.finfo(want.dtype) if want.dtype.kind == "f" else None
    a, b = found.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        if info is None:  # bfloat16
            step = np.maximum(np.exp2(np.floor(np.log2(np.maximum(np.abs(b), 2.0**-126))) - 7), 0)
        else:
            step = np.spacing(np.maximum(np.abs(want), info.tiny)).astype(np.float64)
        error = np.abs(a - b) / np.where(np.isfinite(step), step, 1)
    error = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, error)
    return np.where(np.isnan(error), np.inf, error)


def float_data(dtype: DType, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    special = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, -1.5, 2.5, np.inf, -np.inf, np.nan]
    special += [1e-3, 65504, -300.7, 255.5, 2.0**31, -(2.0**31), 2.0**63, 1e-7, -3e-5]
    values = np.concatenate([special, rng.standard_normal(40) * 3, rng.standard_normal(16) * 1e4])
    with np.errstate(all="ignore"):
        return values[rng.permutation(len(values))].astype(np.float32).astype(dtype.numpy)


def int_data(dtype: DType, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    low, high = int(dtype.min), int(dtype.max)
    special = [low, high, 0, 1, 2, 3, high - 1, low + 1, high // 2, 7]
    special += [-1, -2, -3] if low < 0 else [4, 5, 6]
    words = rng.integers(0, 256, 64 * dtype.bits // 8, dtype=np.uint8).view(dtype.numpy)
    small = rng.integers(-5 if low < 0 else 0, 9, 20).astype(dtype.numpy)
    return np.concatenate([np.array(special, dtype=dtype.numpy), words, small])


def data(dtype: DType, seed: int = 0) -> np.ndarray:
    if dtype is DType.boolean:
        return np.random.default_rng(seed).integers(0, 2, COUNT).astype(bool)
    return float_data(dtype, seed) if dtype.is_float else int_data(dtype, seed)


def build(ops: list[str], arity: int, dtype: DType) -> Program:
    b = Builder()
    inputs = [b.input(i, dtype) for i in range(arity)]
    return b.finish(*(b.op(op, *inputs) for op in ops))


@pytest.mark.aarch64
@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_arithmetic_is_exact(dtype: DType, isa: str) -> None:
    one = "neg abs sign sqrt recip ceil floor round_even round_away trunc isnan isinf".split()
    check(build(one, 1, dtype), [data(dtype)], isa)
    x, y = data(dtype, 1), data(dtype, 2)
    y[:20] = x[:20]
    two = "add sub mul div max min eq ne lt le gt ge".split()
    check(build(two, 2, dtype), [x, y], isa)
    check(build(["clip"], 3, dtype), [x, np.minimum(y, 1), np.maximum(y, 1)], isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fma_rounds_at_most_twice(dtype: DType, isa: str) -> None:
    x, y = data(dtype, 1), data(dtype, 2)
    x, y = x[np.isfinite(x) & (np.abs(x) < 1e4)][:30], y[np.isfinite(y)][:30]
    with np.errstate(all="ignore"):
        z = np.abs(x * y)  # no cancellation
    check(build(["fma"], 3, dtype), [np.abs(x), np.abs(y), z], isa, ulps=1)


@pytest.mark.aarch64
@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integer_arithmetic_is_exact(dtype: DType, isa: str) -> None:
    check(build("neg abs sign bitnot".split(), 1, dtype), [data(dtype)], isa)
    x, y = data(dtype, 1), data(dtype, 2)
    two = "add sub mul max min pow eq ne lt le gt ge shl shr bitand bitor bitxor".split()
    check(build(two, 2, dtype), [x, y], isa)
    y[y == 0] = 3
    x[:3], y[:3] = dtype.min, (-1 if dtype.is_signed else 1)
    check(build("div mod floormod".split(), 2, dtype), [x, y], isa)
    check(build(["clip", "fma"], 3, dtype), [x, np.minimum(y, 5), np.maximum(y, 5)], isa)


@pytest.mark.aarch64
@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("source", [*FLOATS, *INTS, DType.boolean], ids=str)
def test_casts_are_exact(source: DType, isa: str) -> None:
    b = Builder()
    x = b.input(0, source)
    targets = [t for t in [*FLOATS, *INTS, DType.boolean] if t is not source]
    for group in (targets[:6], targets[6:]):
        check(b.finish(*(b.cast(x, t) for t in group)), [data(source)], isa, where=f" of {source}")


@pytest.mark.parametrize("isa", ISAS)
def test_halfway_casts_round_once_to_even(isa: str) -> None:
    b = Builder()
    x = b.input(0, F64)
    values = np.array([1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 3 * 2.0**-11, 2.0**-25, 65520])
    values = np.concatenate([values, -values, 1 + 2.0**-8 + values * 2.0**-45, values * 2.0**-24])
    check(b.finish(b.cast(x, F16), b.cast(x, BF16)), [values], isa)


@pytest.mark.parametrize("isa", ISAS)
def test_factors_are_stored_without_denormals(isa: str) -> None:
    b = Builder()
    x = b.input(0, F32)
    stored = b.finish(b.op("flush", x), b.cast_stored(x, BF16), b.cast(x, BF16))
    # The last one below the least normal number, and what a plain cast rounds up to that.
    bits = [0x007FFFFF, 0x807FFFFF, 0x00000001, 0x80000001, 0x00800000, 0x7F7FFFFF, 0x7FC12345]
    data = np.concatenate([np.array(bits, np.uint32).view(np.float32), float_data(F32)])
    found = run(spec_of(stored, [F32], data.size), [data], [data.shape] * 3, isa=isa).outs
    want = evaluate_program(stored, [data])
    for got, right in zip(found, want, strict=True):
        assert np.array_equal(np.isnan(got), np.isnan(right))
        word = np.dtype(f"u{got.itemsize}")
        same = (got.view(word) == right.view(word)) | np.isnan(right.astype(np.float32))
        assert same.all(), data[~same]
    assert [float(v) for v in want[1][:4]] == [0, 0, 0, 0] != float(want[2][0])


@pytest.mark.parametrize("isa", ISAS)
def test_booleans_and_mixed_types(isa: str) -> None:
    b = Builder()
    i, j = b.input(0, DType.i64), b.input(1, DType.i64)
    p, x = b.input(2, DType.boolean), b.input(3, F32)
    less = b.op("lt", i, j)
    both = b.op("and", less, p)
    chosen = b.op("select", both, x, b.op("mul", x, b.const(2.0, F32)))
    logic = [b.op(o, less, p) for o in ("or", "xor", "eq", "ne")]
    program = b.finish(chosen, b.op("not", both), *logic, b.cast(both, F32), b.cast(i, F32))
    arrays = [data(DType.i64, 1)[:50], data(DType.i64, 2)[:50], data(DType.boolean)[:50]]
    check(program, [*arrays, data(F32)[:50]], isa)


FUNCTIONS = {
    # op: (lowest, highest argument, bound in ulp)
    "exp": (-100, 89, 1.1),
    "expm1": (-100, 89, 2),
    "log": (0, 1e6, 2),
    "log1p": (-1, 1e6, 2),
    "tanh": (-12, 12, 3),
    "erf": (-5, 5, 2.5),
    "gelu": (-14, 14, 5),
    "sigmoid": (-90, 90, 3),
    "softplus": (-90, 90, 2.5),
    "rsqrt": (0, 1e6, 1.6),
    "sin": (-1e4, 1e4, 2),
    "cos": (-1e4, 1e4, 2),
    "tan": (-1e4, 1e4, 3.5),
    "asin": (-1, 1, 4.5),
    "acos": (-1, 1, 4.5),
    "atan": (-1e3, 1e3, 2),
    "sinh": (-80, 80, 3),
    "cosh": (-80, 80, 3),
    "asinh": (-1e6, 1e6, 4),
    "acosh": (1, 1e6, 4),
    "atanh": (-1, 1, 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions_stay_in_their_bound(dtype: DType, isa: str) -> None:
    rng = np.random.default_rng(3)
    for op, (low, high, bound) in FUNCTIONS.items():
        if dtype.bits == 16 and op not in ("exp", "erf", "rsqrt", "sin"):
            continue  # computed in f32: the way there and back is what differs
        limit = min(high, float(dtype.max))
        small = rng.standard_normal(300) * 0.01 + (1 if low == 1 else 0)
        values = np.concatenate([rng.uniform(low, limit, 500), np.maximum(small, low)])
        if low == 0:
            values = np.abs(values) + 1e-6
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0]
        x = np.concatenate([values, special]).astype(dtype.numpy)
        check(build([op], 1, dtype), [x], isa, ulps=bound, where=f" of {dtype}")


def _read_alone(b: Builder, x: Ref, y: Ref) -> list[Ref]:
    return [b.cast_stored(y, BF16)]


def _read_by_gate(b: Builder, x: Ref, y: Ref) -> list[Ref]:
    closed = b.op("eq", y, b.const(0.0, F32))
    return [b.cast(b.op("select", closed, y, b.op("mul", x, y)), BF16)]


def _read_by_sum(b: Builder, x: Ref, y: Ref) -> list[Ref]:
    return [b.cast(b.op("add", x, y), BF16)]


def _read_by_comparison(b: Builder, x: Ref, y: Ref) -> list[Ref]:
    large = b.op("gt", y, b.const(0.0, F32))
    return [b.cast(b.op("select", large, y, b.op("neg", y)), BF16)]


def _read_by_equality(b: Builder, x: Ref, y: Ref) -> list[Ref]:
    is_half = b.op("eq", y, b.const(0.5, F32))
    return [b.cast(b.op("select", is_half, x, y), BF16)]


def _read_twice(b: Builder, x: Ref, y: Ref) -> list[Ref]:
    return [b.cast(y, BF16), b.op("abs", y)]


def _read_as_f16(b: Builder, x: Ref, y: Ref) -> list[Ref]:
    return [b.cast(y, F16)]


@pytest.mark.parametrize("op", sorted(BF16_RESULTS))
@pytest.mark.parametrize(
    "read, is_short",
    [
        (_read_alone, True),
        (_read_by_gate, True),
        (_read_by_sum, False),
        (_read_by_comparison, False),
        (_read_by_equality, False),
        (_read_twice, False),
        (_read_as_f16, False),
    ],
)
def test_functions_that_are_rounded_to_bf16_are_shorter(
    read: Callable[[Builder, Ref, Ref], list[Ref]], is_short: bool, op: str
) -> None:
    b = Builder()
    x = b.input(0, F32)
    program = b.finish(*read(b, x, b.op(op, x)))
    found = [program.instrs[n].op for n in find_rounded_to_bf16(program)]
    assert found == ([op] if is_short else [])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("op", sorted(BF16_RESULTS))
def test_functions_rounded_to_bf16_are_within_their_bound(op: str, isa: str) -> None:
    """What is stored is within 0.52 units in the last place of the exact result."""
    x = np.linspace(-12, 12, 40001).astype(np.float32)
    b = Builder()
    y = b.op(op, b.input(0, F32))
    program = b.finish(b.cast_stored(y, BF16))
    (got,) = run(spec_of(program, [F32], x.size), [x], [x.shape], isa=isa).outs
    b = Builder()
    (want,) = evaluate_program(b.finish(b.op(op, b.input(0, F64))), [x.astype(np.float64)])
    unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(want), 2.0**-126))) - 7)
    assert np.max(np.abs(got.astype(np.float64) - want) / unit) < 0.52


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions_of_two_arguments(dtype: DType, isa: str) -> None:
    x, y = float_data(dtype, 1), float_data(dtype, 2)
    special = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, 2, 3], dtype.numpy)
    a, b = (g.reshape(-1) for g in np.meshgrid(special, special))
    x, y = np.concatenate([x, a]), np.concatenate([y, b])
    check(build(["mod", "floormod"], 2, dtype), [x, y], isa)
    check(build(["atan2"], 2, dtype), [x, y], isa, ulps=3)
    check(build(["pow"], 2, dtype), [x, y], isa, ulps=2)
    rng = np.random.default_rng(5)
    base = np.exp(rng.uniform(-5, 5, 400)).astype(dtype.numpy)
    check(build(["pow"], 2, dtype), [base, rng.uniform(-6, 6, 400).astype(dtype.numpy)], isa, 2)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_remainders_of_any_exponents_are_exact(dtype: DType, isa: str) -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 256, 200 * dtype.bits // 8, dtype=np.uint8)
    x, y = words.view(dtype.numpy)[:200], words[::-1].copy().view(dtype.numpy)[:200]
    y[:80] = x[:80] * dtype.numpy.type(1e-6)
    tiny = np.finfo(dtype.numpy).smallest_subnormal
    x[:4], y[:4] = [np.finfo(dtype.numpy).max, 7 * tiny, tiny, 1], [3 * tiny, 2 * tiny, 1, tiny]
    check(build(["mod"], 2, dtype), [x, y], isa)


def exact_sine_and_cosine(x: float, half_pi: Fraction) -> tuple[float, float]:
    """By a reduction in rationals: libraries are up to 7 ulp off where x is close to n pi/2."""
    turns = round(Fraction(x) / half_pi)
    r = float(Fraction(x) - turns * half_pi)
    s, c = math.sin(r), math.cos(r)
    return [(s, c), (c, -s), (-s, -c), (-c, s)][turns % 4]


@cache
def half_of_pi(bits: int = 1400) -> Fraction:
    """Machin's formula in integers."""

    def inverse_tangent(n: int) -> int:
        total, power, k = 0, (1 << bits) // n, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power, k = power // (n * n), k + 2
        return total

    return Fraction(2 * (4 * inverse_tangent(5) - inverse_tangent(239)), 1 << bits)


@pytest.mark.parametrize("isa", ISAS)
def test_large_angles_in_f64(isa: str) -> None:
    """Arguments whose reduction needs hundreds of bits of pi."""
    exponents = np.arange(18, 1023, 5)
    x = np.ldexp(np.random.default_rng(0).uniform(1, 2, len(exponents)), exponents)
    x = np.concatenate([x, -x, [6381956970095103 * 2.0**797, 1e22]])
    pairs = np.array([exact_sine_and_cosine(float(v), half_of_pi()) for v in x])
    wanted = {"sin": pairs[:, 0], "cos": pairs[:, 1], "tan": pairs[:, 0] / pairs[:, 1]}
    program = build(list(wanted), 1, F64)
    found = run(spec_of(program, [F64], x.size), [x], [x.shape] * 3, isa=isa).outs
    for got, want in zip(found, wanted.values(), strict=True):
        assert ulp_error(got, want).max() <= 3.5


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("workers", [1, 3])
def test_division_by_zero_names_the_element(dtype: DType, isa: str, workers: int) -> None:
    program = build(["floormod"], 2, dtype)
    for count, at in ((1, 0), (70, 69), (150, 66), (150, 3)):
        x, y = np.full(count, 7, dtype.numpy), np.full(count, 2, dtype.numpy)
        y[at] = 0
        spec = spec_of(program, [dtype, dtype], count)
        found = run(spec, [x, y], [(count,)], isa=isa, workers=workers)
        assert (found.status, found.element) == (DIVISION_BY_ZERO, at)
        with pytest.raises(ExecutionError, match="divided by zero"):
            evaluate_program(program, [x, y])


@pytest.mark.parametrize("isa", ISAS)
def test_small_powers_are_products(isa: str) -> None:
    b = Builder()
    x = b.input(0, F32)
    powers = [b.op("pow", x, b.const(float(n), F32)) for n in (0, 1, 2, 3, -1)]
    values = float_data(F32)
    check(b.finish(*powers), [values[np.abs(values) < 1e6]], isa, ulps=1)


def test_unknown_element_types_are_refused() -> None:
    spec = spec_of(build(["add"], 2, DType.f8e4m3), [DType.f8e4m3] * 2)
    with pytest.raises(UnsupportedOperationError, match="element type"):
        run(spec, [np.zeros(COUNT, DType.f8e4m3.numpy)] * 2, [(COUNT,)], isa=ISAS[0])


def test_builder_shares_folds_and_keeps_bits() -> None:
    b = Builder()
    x = b.input(0, F32)
    assert b.op("add", x, x) == b.op("add", x, x)
    assert b.op("mul", x, b.const(1.0, F32)) == x
    assert b.op("sub", x, b.const(0.0, F32)) == x
    assert b.op("add", x, b.const(-0.0, F32)) == x
    assert b.op("add", x, b.const(0.0, F32)) != x  # -0.0 + 0.0 is 0.0
    assert b.value(b.op("exp", b.const(0.0, F32))) == 1.0
    assert b.value(b.op("add", b.const(200, DType.u8), b.const(100, DType.u8))) == 44
    zero: Ref = b.op("div", b.const(1, DType.i32), b.const(0, DType.i32))
    assert b.value(zero) is None
    program = b.finish(b.op("neg", x))
    assert [i.op for i in program.instrs] == ["input", "neg"]
    c = Builder()
    (y,) = c.inline(program, c.op("abs", c.input(1, F32)))
    assert [i.op for i in c.finish(y).instrs] == ["input", "abs", "neg"]
