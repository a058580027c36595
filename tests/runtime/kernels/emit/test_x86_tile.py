"""Functions of tiles in assembly: loops of known and other depths, operands, constants."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.builder import Builder
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.jit.image_loader import load_objects
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.kernels.emit.x86_epilogue import EpilogueAssembly, plan_epilogue
from irc_compiler.runtime.kernels.emit.x86_multiply_add_loop import MultiplyAddLoop
from irc_compiler.runtime.kernels.emit.x86_tile import (
    OperandAddress,
    TileLayout,
    TileWriter,
    argument,
    low_half,
)
from irc_compiler.runtime.llvmir.builder import Module
from irc_compiler.runtime.llvmir.values import ELEMENT, I64, PTR
from support.kernels.harness import ISAS, target_of

FORCED = [isa for isa in ISAS if isa in ("avx2", "avx512")]
ROWS, COLUMNS = 3, 2
PARAMETERS = [(PTR, "a"), (PTR, "b"), (PTR, "bias"), (PTR, "out"), (I64, "k"), (I64, "row")]


def planned(dtype: DType) -> EpilogueAssembly:
    """min(max((x + bias) * 0.1, -1), 1e30), the bias of each column."""
    b = Builder()
    x, bias = b.input(0, dtype), b.input(1, dtype)
    scaled = b.op("mul", b.op("add", x, bias), b.const(0.1, dtype))
    program = b.finish(b.op("clip", scaled, b.const(-1.0, dtype), b.const(1e30, dtype)))
    found = plan_epilogue(program, [False], ELEMENT[dtype.value])
    assert found is not None
    return found


def layout_of(dtype: DType, lanes: int) -> TileLayout:
    size, cells = dtype.bits // 8, [(r, c) for r in range(ROWS) for c in range(COLUMNS)]
    wide = COLUMNS * lanes * size
    bias = OperandAddress(f"0({argument(2)})", (), tuple(c * lanes * size for _, c in cells))
    out = OperandAddress(
        f"0({argument(3)})",
        ((argument(5), wide),),
        tuple(r * wide + c * lanes * size for r, c in cells),
    )
    return TileLayout(ELEMENT[dtype.value], lanes, len(cells), planned(dtype), (bias, out))


def loop_of(dtype: DType, lanes: int, unroll: int) -> MultiplyAddLoop:
    """A has rows of 64 elements, B of COLUMNS registers."""
    size = dtype.bits // 8
    return MultiplyAddLoop(
        element=ELEMENT[dtype.value],
        lanes=lanes,
        rows=tuple(64 * size * r for r in range(ROWS)),
        columns=tuple(lanes * size * c for c in range(COLUMNS)),
        a_step=size,
        b_step=COLUMNS * lanes * size,
        unroll=unroll,
    )


@pytest.mark.parametrize("isa", FORCED)
@pytest.mark.parametrize("dtype", [DType.f32, DType.f64], ids=str)
@pytest.mark.parametrize("unroll", [1, 2, 3])
@pytest.mark.parametrize("known", [False, True])
def test_tile_multiplies_adds_and_finishes(
    known: bool, unroll: int, dtype: DType, isa: str
) -> None:
    target = target_of(isa)
    lanes = target.lanes(dtype.bits)
    layout, loop = layout_of(dtype, lanes), loop_of(dtype, lanes, unroll)
    assert layout.fits(4, target, [loop])
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (ROWS, 64)).astype(dtype.numpy)
    b = rng.integers(-3, 4, (64, COLUMNS * lanes)).astype(dtype.numpy)
    bias = rng.integers(-3, 4, COLUMNS * lanes).astype(dtype.numpy)
    for depth in (1, 2, 5, 6, 7, 64):
        module, w = Module(target), TileWriter(layout)
        w.zero_sums()
        if not known:
            w.add(f"movq {argument(4)}, %rax")
        registers = (argument(0), argument(1), "", "")
        moved = w.loop(loop, range(layout.sums), registers, "%rax", depth if known else None)
        assert moved == (0 if not known or depth < 2 * unroll else depth // unroll * unroll)
        w.finish(["%r10", "%r11"], "%rax")
        tile = module.assembly_function("tile", PARAMETERS, w.text())
        entry = module.function("entry", PARAMETERS)
        entry.call_function(tile, *entry.params.values())
        library = load_objects([emit_object(module.text(), target)], ["entry"], target)
        out = np.full((ROWS + 2, COLUMNS * lanes), 77, dtype.numpy)
        pointers = [np.array([x.ctypes.data], np.int64) for x in (bias, out)]
        given = [x.ctypes.data for x in (a, b, *pointers)]
        call = library.function("entry", *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 2)
        call(*given, depth, 1)
        scaled = (a[:, :depth] @ b[:depth] + bias) * dtype.numpy.type(0.1)
        np.testing.assert_array_equal(out[1:-1], np.maximum(scaled, dtype.numpy.type(-1)))
        assert np.all(out[[0, -1]] == 77)


def run_tile(w: TileWriter, isa: str, out: np.ndarray) -> None:
    """Run the end of a tile whose sums are zero, and whose bias is 0, 1, ..."""
    module, dtype = Module(target_of(isa)), out.dtype
    w.finish(["%r10", "%r11"], "%rax")
    tile = module.assembly_function("tile", PARAMETERS, w.text())
    entry = module.function("entry", PARAMETERS)
    entry.call_function(tile, *entry.params.values())
    library = load_objects([emit_object(module.text(), target_of(isa))], ["entry"], target_of(isa))
    bias = np.arange(out.shape[1]).astype(dtype)
    pointers = [np.array([x.ctypes.data], np.int64) for x in (bias, out)]
    call = library.function("entry", *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 2)
    call(0, 0, *(x.ctypes.data for x in pointers), 0, 0)


@pytest.mark.skipif("avx512" not in ISAS, reason="not run: this machine has no AVX-512")
@pytest.mark.parametrize("dtype", [DType.f32, DType.f64], ids=str)
@pytest.mark.parametrize("parts", [(0, 5), (3, 1), (7, 7)])
def test_parts_of_vectors_are_read_and_written(parts: tuple[int, int], dtype: DType) -> None:
    lanes = 512 // dtype.bits
    layout = replace(layout_of(dtype, lanes), stored=tuple(n or lanes for n in parts) * ROWS)
    assert layout.fits(4, target_of("avx512")) and not layout.fits(4, target_of("avx2"))
    w = TileWriter(layout)
    w.load_masks("%rax")
    w.zero_sums()
    out = np.full((ROWS, COLUMNS * lanes), 77, dtype.numpy)
    run_tile(w, "avx512", out)
    wanted = np.full_like(out, 77)
    for c, n in enumerate(parts):
        columns = slice(c * lanes, c * lanes + (n or lanes))
        wanted[:, columns] = np.arange(COLUMNS * lanes, dtype=dtype.numpy)[
            columns
        ] * dtype.numpy.type(0.1)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("isa", FORCED)
@pytest.mark.parametrize("over", [0, 1, 3])
def test_sums_wait_where_the_epilogue_needs_their_registers(over: int, isa: str) -> None:
    target, dtype = target_of(isa), DType.f32
    lanes, program = target.lanes(32), planned(dtype)
    needed = program.temporaries + len(program.constants)
    sums = target.registers - needed + over
    offsets = tuple(i * lanes * 4 for i in range(sums))
    operands = tuple(OperandAddress(f"0({argument(i)})", (), offsets) for i in (2, 3))
    layout = TileLayout(ELEMENT["f32"], lanes, sums, program, operands)
    assert layout.count_moved(target.registers) == over and layout.fits(4, target)
    w = TileWriter(layout)
    w.zero_sums()
    out = np.full((1, sums * lanes), 77, np.float32)
    run_tile(w, isa, out)
    np.testing.assert_array_equal(
        out[0], np.arange(sums * lanes, dtype=np.float32) * np.float32(0.1)
    )


def test_sums_begin_with_those_in_memory() -> None:
    w = TileWriter(layout_of(DType.f64, 4))
    w.load_sums("%rdx", [0, 32, 64, 96, 128, 160])
    assert w.text()[:2] == ["vmovupd 0(%rdx), %ymm0", "vmovupd 32(%rdx), %ymm1"]


def test_arguments_and_lower_bits_of_registers() -> None:
    assert [argument(i) for i in (0, 5, 6, 8)] == ["%rdi", "%r9", "8(%rsp)", "24(%rsp)"]
    assert [low_half(r) for r in ("%rax", "%rdi", "%r8", "%r11")] == [
        "%eax",
        "%edi",
        "%r8d",
        "%r11d",
    ]


def test_layout_fits_registers_pointers_and_instructions() -> None:
    avx2, layout = generic_target("avx2"), layout_of(DType.f32, 8)
    loop = loop_of(DType.f32, 8, 2)
    assert layout.fits(2, avx2, [loop]) and layout.fits(2, avx2, spare=10)
    assert not layout.fits(1, avx2, [loop])
    assert not layout.fits(2, avx2, [loop], spare=11)
    assert not layout.fits(2, generic_target("plain"), [loop])
    assert not layout_of(DType.f32, 4).fits(2, avx2, [loop])
