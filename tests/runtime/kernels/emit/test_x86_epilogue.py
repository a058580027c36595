"""Epilogues in assembly: the bits of LLVM's own code, and the programs and sizes that fit."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.builder import Builder
from irc_compiler.ir.scalar.program import Program
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.jit.image_loader import load_objects
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.kernels.emit.scalar_program import emit_program
from irc_compiler.runtime.kernels.emit.x86_epilogue import (
    EpilogueAssembly,
    TileOperand,
    plan_epilogue,
)
from irc_compiler.runtime.llvmir.builder import Function, Module
from irc_compiler.runtime.llvmir.values import ELEMENT, PTR, Value, vec
from support.kernels.harness import ISAS, target_of

FORCED = [isa for isa in ISAS if isa in ("avx2", "avx512")]
SUMS = 3
TYPES = [DType.f32, DType.f64]
# Each writes the result of a sum and two operands; the second one is broadcast.
PROGRAMS: dict[str, Callable[[Builder, int, int, int, DType], int]] = {
    "sum alone": lambda b, x, y, z, t: x,
    "bias": lambda b, x, y, z, t: b.op("add", x, y),
    "bias first": lambda b, x, y, z, t: b.op("add", y, x),
    "difference": lambda b, x, y, z, t: b.op("sub", y, x),
    "relu": lambda b, x, y, z, t: b.op("max", b.op("add", x, y), b.const(0.0, t)),
    "upper limit": lambda b, x, y, z, t: b.op("min", b.const(-0.0, t), b.op("mul", x, z)),
    "clip": lambda b, x, y, z, t: b.op("clip", x, b.const(0.0, t), b.const(6.0, t)),
    "residuals": lambda b, x, y, z, t: b.op(
        "max", b.op("add", b.op("add", y, z), x), b.const(0.0, t)
    ),
    "square": lambda b, x, y, z, t: b.op("mul", x, x),
    "hard swish": lambda b, x, y, z, t: b.op(
        "mul",
        b.op("mul", x, b.const(1 / 6, t)),
        b.op("clip", b.op("add", x, b.const(3.0, t)), b.const(0.0, t), b.const(6.0, t)),
    ),
    "three values at once": lambda b, x, y, z, t: b.op(
        "sub", b.op("mul", b.op("sub", y, z), x), b.op("mul", b.op("add", z, y), b.op("mul", x, x))
    ),
    "negative zero": lambda b, x, y, z, t: b.op("mul", x, b.const(-0.0, t)),
    "operand is limited": lambda b, x, y, z, t: b.op("add", x, b.op("max", y, b.const(1.0, t))),
}


def program_of(name: str, dtype: DType) -> Program:
    b = Builder()
    x, y, z = (b.input(i, dtype) for i in range(3))
    return b.finish(PROGRAMS[name](b, x, y, z, dtype))


def plan_of(program: Program, dtype: DType = DType.f32) -> EpilogueAssembly | None:
    return plan_epilogue(program, [False, True], ELEMENT[dtype.value])


def write_with_llvm(
    f: Function, program: Program, sums: Sequence[Value], operands: Sequence[TileOperand]
) -> None:
    vector, lanes = sums[0].type, sums[0].lanes
    for i, x in enumerate(sums):
        y, z, out = (f.offset(o.pointers[o.offsets[i][0]], o.offsets[i][1]) for o in operands)
        inputs = [x, f.load(vector, y), f.splat(f.load(sums[0].element, z), lanes)]
        (result,) = emit_program(f, program, inputs, lanes=lanes)
        f.store(result, out)


def run_tile(
    isa: str, program: Program, dtype: DType, data: Sequence[np.ndarray], *, assembly: bool
) -> np.ndarray:
    """The results of SUMS registers; rows of the operands are apart, the output has gaps."""
    target = target_of(isa)
    lanes, size = target.lanes(dtype.bits), dtype.bits // 8
    vector = vec(ELEMENT[dtype.value], lanes)
    module = Module(target)
    f = module.function("tile", [(PTR, n) for n in ("x", "y", "z", "out")])
    p, row = f.params, lanes * size
    sums = [f.load(vector, f.offset(p["x"], i * row)) for i in range(SUMS)]
    operands = [
        TileOperand((p["y"],), tuple((0, i * row) for i in range(SUMS))),
        TileOperand((p["z"],), tuple((0, i * size) for i in range(SUMS)), broadcast=True),
        # Two addresses, from the second of which offsets are negative.
        TileOperand(
            (p["out"], f.offset(p["out"], 6 * row)),
            ((0, 0), (1, -4 * row), (0, 4 * row)),
        ),
    ]
    if assembly:
        planned = plan_of(program, dtype)
        assert planned is not None and planned.finish(f, sums, operands)
    else:
        write_with_llvm(f, program, sums, operands)
    f.ret()
    library = load_objects([emit_object(module.text(), target)], ["tile"], target)
    out = np.full((5, lanes), 77, dtype.numpy)
    given = [np.ascontiguousarray(d[:, :lanes]) for d in data[:2]] + [data[2][:, 0].copy(), out]
    library.function("tile", *[ctypes.c_void_p] * 4, returns=None)(*(d.ctypes.data for d in given))
    return out


@pytest.mark.parametrize("isa", FORCED)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_epilogue_in_assembly_gives_the_bits_of_llvm(name: str, dtype: DType, isa: str) -> None:
    rng = np.random.default_rng(0)
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 6.0, -3.0]
    data = [rng.standard_normal((SUMS, 16)).astype(dtype.numpy) * 8 for _ in range(3)]
    data[0][:, :2] = rng.choice(special, (SUMS, 2))
    data[0][0, :2], data[1][1, :2] = special[:2], special[3:5]
    program = program_of(name, dtype)
    found, wanted = (
        run_tile(isa, program, dtype, data, assembly=assembly) for assembly in (True, False)
    )
    assert found.tobytes() == wanted.tobytes()
    assert np.all(found[[1, 3]] == 77), "a store between the results"


@pytest.mark.parametrize(
    "name, temporaries, constants",
    [
        ("sum alone", 0, 0),
        ("relu", 0, 1),
        ("clip", 0, 2),
        ("residuals", 2, 1),
        ("square", 0, 0),
        ("hard swish", 1, 4),
    ],
)
def test_results_take_the_registers_of_values_that_are_read_last(
    name: str, temporaries: int, constants: int
) -> None:
    planned = plan_of(program_of(name, DType.f32))
    assert planned is not None
    assert (planned.temporaries, len(planned.constants)) == (temporaries, constants)


def make_program(write: Callable[[Builder, int], int]) -> Program:
    b = Builder()
    return b.finish(write(b, b.input(0, DType.f32)))


@pytest.mark.parametrize(
    "write",
    [
        lambda b, x: b.op("exp", x),
        lambda b, x: b.op("max", x, b.input(1, DType.f32)),
        lambda b, x: b.op("max", x, b.const(np.nan, DType.f32)),
        lambda b, x: b.op("clip", x, b.input(1, DType.f32), b.const(6.0, DType.f32)),
        lambda b, x: b.cast(x, DType.f64),
        lambda b, x: b.op("select", b.op("gt", x, b.const(0.0, DType.f32)), x, x),
        lambda b, x: b.input(1, DType.f32),
        lambda b, x: b.const(1.0, DType.f32),
    ],
)
def test_other_programs_have_no_plan(write: Callable[[Builder, int], int]) -> None:
    assert plan_of(make_program(write)) is None


def test_integers_and_two_results_have_no_plan() -> None:
    b = Builder()
    x = b.input(0, DType.f32)
    assert plan_of(b.finish(x, b.op("mul", x, x))) is None
    b = Builder()
    assert plan_of(b.finish(b.input(0, DType.i32)), DType.i32) is None


@pytest.mark.parametrize(
    "isa, sums, offset, fits",
    [
        ("avx2", 15, 0, True),
        ("avx2", 16, 0, False),
        ("avx2", 1, 2**31, False),
        ("avx512", 31, 0, True),
        ("avx512", 32, 0, False),
        ("plain", 1, 0, False),
        ("neon", 1, 0, False),
    ],
)
def test_epilogue_fits_the_registers_and_displacements_of_a_target(
    isa: str, sums: int, offset: int, fits: bool
) -> None:
    target = generic_target(isa)  # type: ignore[arg-type]
    lanes = 16 if isa == "avx512" else 8
    values = [Value(vec("float", lanes), f"%x{i}") for i in range(sums)]
    operand = TileOperand((Value(PTR, "%p"),), ((0, offset),) * sums)
    planned = plan_of(program_of("relu", DType.f32))
    assert planned is not None
    assert planned.fits(values, [operand], target) is fits
    narrow = [Value("<4 x float>", "%x")]
    assert not planned.fits(narrow, [operand], generic_target("avx2"))
    assert not planned.fits(values[:1], [operand] * 11, target)


@pytest.mark.parametrize("dtype", [DType.f16, DType.bf16, DType.i32], ids=str)
def test_programs_of_other_types_have_no_plan(dtype: DType) -> None:
    b = Builder()
    program = b.finish(b.op("add", b.input(0, dtype), b.input(1, dtype)))
    assert plan_epilogue(program, [False], ELEMENT[dtype.value]) is None
