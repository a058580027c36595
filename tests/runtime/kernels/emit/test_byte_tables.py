"""Functions of one byte by tables: which are, and that they are what the programs mean, to the
bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.builder import Builder, Ref
from irc_compiler.ir.scalar.program import Program
from irc_compiler.runtime.kernels.emit.requantize import find_byte_functions, reads_tables
from irc_compiler.runtime.kernels.kernel_table import generate
from support.kernels.harness import ISAS, target_of

from tests.runtime.kernels.emit.test_requantize import quantised
from tests.runtime.kernels.emit.test_scalar_program import check, spec_of

F32, U8, I8 = DType.f32, DType.u8, DType.i8
READS = "llvm.x86.avx512.vpermi2var.", "llvm.x86.avx2.permd"
TABLES = [i for i in ("avx512", "avx512 - avx512vbmi", "avx2") if i.split()[0] in ISAS]
_NONE = pytest.mark.skip(reason="not run: neither AVX-512 nor AVX2")
each_isa = pytest.mark.parametrize("isa", TABLES or [pytest.param("none", marks=_NONE)])


def opened(b: Builder, byte: Ref, zero: int, scale: float) -> Ref:
    wide = b.op("sub", b.cast(byte, F32), b.const(zero, F32))
    return b.op("mul", wide, b.const(scale, F32))


def silu(b: Builder, x: Ref) -> Ref:
    """As quantisers write it: the sigmoid is a byte as well."""
    gate = quantised(b, b.op("div", b.op("sigmoid", x), b.const(1 / 255, F32)), U8, None)
    return b.op("mul", x, opened(b, gate, 0, 1 / 255))


def gelu(b: Builder, x: Ref) -> Ref:
    return b.op("gelu", x)


def logarithm(b: Builder, x: Ref) -> Ref:
    """NaN below 0."""
    return b.op("log", x)


def program(
    function: Callable[[Builder, Ref], Ref], dtype: DType, zero: int, *, given: DType = F32
) -> Program:
    """A value rounded to a byte, or a byte; the function of what that means as another byte, and
    that byte as a number."""
    b = Builder()
    x = b.input(0, given)
    byte = quantised(b, b.op("mul", x, b.const(20.0, F32)), dtype, zero) if given is F32 else x
    result = b.op("div", function(b, opened(b, byte, zero, 0.05)), b.const(0.03, F32))
    last = quantised(b, result, dtype, 7)
    return b.finish(last, opened(b, last, 7, 0.03))


@each_isa
@pytest.mark.parametrize("function", [silu, gelu, logarithm])
@pytest.mark.parametrize(("dtype", "zero"), [(U8, 131), (U8, 0), (I8, -3), (I8, -128)])
def test_functions_of_rounded_values(
    function: Callable[[Builder, Ref], Ref], dtype: DType, zero: int, isa: str
) -> None:
    made = program(function, dtype, zero)
    values = np.random.default_rng(0).standard_normal(1003).astype(np.float32) * 5
    values[:4] = np.nan, np.inf, -np.inf, -0.0
    check(made, [values], isa)
    text = generate(spec_of(made, [F32]), target_of(isa), "k").text
    assert any(r in text for r in READS) and "fdiv" not in text


@each_isa
@pytest.mark.parametrize(("dtype", "zero"), [(U8, 131), (I8, -3)])
def test_functions_of_stored_bytes(dtype: DType, zero: int, isa: str) -> None:
    made = program(silu, dtype, zero, given=dtype)
    codes = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    check(made, [np.concatenate([codes, codes[3:77]])], isa)


@each_isa
def test_values_between_the_bytes_are_still_computed(isa: str) -> None:
    b = Builder()
    byte = quantised(b, b.input(0, F32), U8, 100)
    x = opened(b, byte, 100, 0.1)
    y = silu(b, x)
    last = quantised(b, b.op("div", y, b.const(0.05, F32)), U8, 9)
    made = b.finish(last, x, byte)
    assert made.results[0] in find_byte_functions(made)
    check(made, [np.linspace(-200, 200, 999, dtype=np.float32)], isa)


@each_isa
def test_a_chain_of_functions_is_one_table(isa: str) -> None:
    b = Builder()
    byte = b.input(0, U8)
    for _ in range(3):
        byte = quantised(
            b, b.op("div", silu(b, opened(b, byte, 100, 0.1)), b.const(0.05, F32)), U8, 9
        )
    made = b.finish(byte)
    check(made, [np.arange(256, dtype=np.uint8)], isa)
    text = generate(spec_of(made, [U8]), target_of(isa), "k").text
    assert text.count(" = internal constant") == 1
    assert "sigmoid" not in text and "fmul" not in text


@pytest.mark.parametrize("isa", ["plain", "neon"])
def test_other_instruction_sets_read_no_tables(isa: str) -> None:
    text = generate(spec_of(program(silu, U8, 3), [F32]), target_of(isa), "k").text
    assert not any(r in text for r in READS)


def test_tables_are_for_vectors_of_one_size() -> None:
    target = target_of("skylake-avx512")
    assert reads_tables(target, 16) and not reads_tables(target, 8)
    assert reads_tables(target_of("znver3"), 8) and not reads_tables(target_of("neon"), 4)


def test_what_is_no_function_of_one_byte() -> None:
    b = Builder()
    first, second, number = b.input(0, U8), b.input(1, U8), b.input(2, F32)
    x = opened(b, first, 3, 0.1)
    sums = (b.op("add", silu(b, x), other) for other in (opened(b, second, 3, 0.1), number))
    results = [quantised(b, s, U8, 5) for s in sums]
    short = quantised(b, opened(b, first, 3, 0.1), U8, None)
    whole = quantised(b, silu(b, number), U8, 5)
    made = b.finish(*results, short, whole, silu(b, x))
    assert not find_byte_functions(made).keys() & set(made.results)


def test_functions_before_a_byte_of_several_values_are_found() -> None:
    b = Builder()
    first, second = (
        quantised(
            b, b.op("div", gelu(b, opened(b, b.input(i, U8), 3, 0.1)), b.const(0.1, F32)), U8, 5
        )
        for i in range(2)
    )
    total = b.op("add", opened(b, first, 5, 0.1), opened(b, second, 5, 0.1))
    joined = quantised(b, b.op("div", total, b.const(0.2, F32)), U8, 9)
    last = b.op("div", gelu(b, opened(b, joined, 9, 0.2)), b.const(0.1, F32))
    made = b.finish(quantised(b, last, U8, 5))
    functions = find_byte_functions(made)
    assert len(functions) == 3 and functions[made.results[0]][0] not in functions


def test_a_division_by_zero_is_found_where_it_runs() -> None:
    for divisor, found in ((3, False), (0, True)):
        b = Builder()
        byte = b.input(0, U8)
        below = (
            b.op("bitor", byte, b.const(1, U8))
            if not found
            else b.op("sub", byte, b.const(divisor, U8))
        )
        for _ in range(8):
            byte = b.op("add", b.op("bitxor", byte, b.const(85, U8)), byte)
        made = b.finish(b.op("div", byte, below))
        assert (made.results[0] not in find_byte_functions(made)) == found


def test_the_table_of_a_function() -> None:
    b = Builder()
    near = b.op("max", opened(b, b.input(0, I8), 0, 1.0), b.const(-5.0, F32))
    for _ in range(6):
        near = b.op("abs", b.op("sub", near, b.const(1.0, F32)))
    made = b.finish(quantised(b, near, U8, None))
    source, words = find_byte_functions(made)[made.results[0]]
    found = np.array(words, "<i8").view(np.uint8)
    assert source == 0 and made.instrs[0].op == "input" and len(found) == 256
    codes = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.int64)
    wanted = np.maximum(codes, -5)
    for _ in range(6):
        wanted = abs(wanted - 1)
    np.testing.assert_array_equal(found, wanted)
