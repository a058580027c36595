"""Rounding to bytes, and bytes as numbers again, against the programs' meaning, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.builder import Builder, Ref
from irc_compiler.ir.scalar.program import Program
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.emit.requantize import rounded_byte
from irc_compiler.runtime.kernels.kernel_table import generate
from support.kernels.harness import ISAS, target_of

from tests.runtime.kernels.emit.test_scalar_program import check, spec_of

F32, U8, I8 = DType.f32, DType.u8, DType.i8
each_isa = pytest.mark.parametrize("isa", ISAS)
EDGES = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -3e38, 3e38, 2.0**31, -(2.0**31), 2.0**24, 0.5]


def quantised(b: Builder, ratio: Ref, dtype: DType, zero: int | None) -> Ref:
    """As the operation Quantize writes it."""
    near = b.op("round_even", ratio)
    if zero is None:
        return b.cast(near, dtype)
    shift = b.const(zero, F32)
    shifted = b.op("add", near, shift)
    return b.cast(b.op("select", b.op("isnan", near), shift, shifted), dtype)


def program(dtype: DType, zero: int | None, by: float | None, *, opened: bool) -> Program:
    """x / by as a byte; or that byte less its zero point as a number, and the byte's number."""
    b = Builder()
    x = b.input(0, F32)
    byte = quantised(b, x if by is None else b.op("div", x, b.const(by, F32)), dtype, zero)
    if not opened:
        return b.finish(byte)
    wide = b.cast(byte, F32)
    return b.finish(b.op("sub", wide, b.const(zero or 0, F32)), b.op("mul", wide, wide))


def values(by: float) -> np.ndarray:
    """Edges, everything around ties of quotients by `by`, and noise."""
    ties = (np.arange(-300, 301) + 0.5).astype(np.float32) * np.float32(by)
    near = [ties]
    for step in range(1, 4):
        low, high = near[0], near[0]
        for _ in range(step):
            low, high = (
                np.nextafter(low, np.float32(-np.inf)),
                np.nextafter(high, np.float32("inf")),
            )
        near += [low, high]
    noise = np.random.default_rng(3).standard_normal(1000).astype(np.float32) * np.float32(by) * 90
    return np.concatenate([np.array(EDGES, np.float32), *near, noise])


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize(
    ("dtype", "zero"), [(U8, None), (U8, 0), (U8, 143), (U8, 255), (I8, None), (I8, -128), (I8, 7)]
)
def test_every_form(dtype: DType, zero: int | None, opened: bool, isa: str) -> None:
    for by in (None, 0.0372309498, 1e-30):
        made = program(dtype, zero, by, opened=opened)
        if zero != 0:  # the builder adds no zero
            assert any(rounded_byte(made, i) for i in range(len(made.instrs)))
        check(made, [values(by or 1.0)], isa)


@pytest.mark.slow
@each_isa
def test_quotients_round_as_divisions_do(isa: str) -> None:
    """Among them divisors whose reciprocals are the least exact, and ones next to powers of two."""
    rng = np.random.default_rng(9)
    divisors = [np.nextafter(np.float32(1), np.float32(s)) for s in (0, 2)]
    divisors += [np.float32(x) for x in (1 / 3, 0.1, 7 / 255, 1e-6, 3e9, -0.02)]
    divisors += list(np.exp(rng.uniform(-9, 2, 20)).astype(np.float32))
    for by in divisors:
        check(program(U8, 120, float(by), opened=False), [values(float(by))], isa)


def test_no_division_where_products_do() -> None:
    if "avx512" not in ISAS:
        pytest.skip("not run: no AVX-512")
    target = target_of("avx512")
    for by, divides in ((0.1, False), (1e-30, True)):
        spec = spec_of(program(U8, 3, by, opened=False), [F32])
        assembly = emit_assembly(generate(spec, target, "k").text, target)
        assert ("vdivps" in assembly) == divides
        assert "vcvtps2dq" in assembly and "vrndscaleps" not in assembly


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize(("dtype", "narrows"), [(U8, "vpmovusdb"), (I8, "vpmovsdb")], ids=str)
def test_bytes_that_nothing_reads_saturate_as_they_are_stored(
    dtype: DType, narrows: str, opened: bool
) -> None:
    if "avx512" not in ISAS:
        pytest.skip("not run: no AVX-512")
    target = target_of("avx512")
    spec = spec_of(program(dtype, None, 0.0372309498, opened=opened), [F32])
    text = emit_assembly(generate(spec, target, "k").text, target)
    assert (narrows in text) != opened
    assert ("vminps" in text and "vmaxps" in text) == opened


def test_what_is_no_rounding_to_bytes() -> None:
    """Other limits, other numbers at NaN, sums in another place: as they are written."""
    b = Builder()
    x, shift = b.input(0, F32), b.const(3, F32)
    near = b.op("round_even", x)
    total = b.op("add", near, shift)
    nan = b.op("isnan", near)
    made = [
        b.cast(total, U8),
        b.cast(b.op("select", nan, b.const(4, F32), total), U8),
        b.cast(b.op("select", b.op("isnan", total), shift, total), U8),
        b.cast(b.op("select", nan, shift, total), DType.i16),
        b.cast(b.op("round_even", b.input(1, DType.f64)), U8),
        b.cast(b.op("floor", x), U8),
    ]
    done = b.finish(*made)
    assert not any(rounded_byte(done, i) for i in range(len(done.instrs)))


@pytest.mark.parametrize("opened", [False, True])
def test_instructions_that_are_replaced_are_not_written(opened: bool) -> None:
    """Rounding and the sum of floats: a conversion to 32 bits and a sum of bytes replace them."""
    target = target_of("avx2")
    text = generate(spec_of(program(U8, 7, None, opened=opened), [F32]), target, "k").text
    assert "llvm.lrint" in text and "llvm.rint" not in text
    assert "fadd" not in text and "fsub" not in text
