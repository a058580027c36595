"""Products on tiles of AMX: sizes around the tile, how the code looks, and the machine itself.

The tests of bf16 and byte products run on tiles as well. Where the machine has none, the same
machine code runs, and its tile instructions are caught and emulated (amx_trap.py).
"""

from __future__ import annotations

import ctypes
import dataclasses
import re

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.gemm.kernel import generate
from irc_compiler.runtime.kernels.gemm.schedule import AmxSchedule, VectorSchedule
from irc_compiler.runtime.kernels.gemm.tiling import choose_schedule
from support.kernels import amx_emulation, amx_trap
from support.kernels.amx_emulation import sapphire_rapids
from support.kernels.harness import (
    AMX,
    HAS_AMX,
    ISAS,
    TILED,
    Compiled,
    guard_copy,
    same_bits,
    target_of,
    unwritten,
)
from support.kernels.products import Case, check, make, product

BF16, U8, I8 = DType.bf16, DType.u8, DType.i8
KINDS = {
    "f32": {"compute_dtype": BF16},
    "bf16": {"dtype": BF16, "compute_dtype": BF16},
    "u8": {"dtype": U8, "b_dtype": I8},
    "i8": {"dtype": I8, "b_dtype": U8, "a_zero_point": "each", "b_zero_point": "each"},
}
tiled = pytest.mark.skipif(
    not TILED, reason="not run: packing for tiles needs AVX512-BF16 and VNNI, not on this machine"
)
each_kind = pytest.mark.parametrize("kind", KINDS)
copied = pytest.mark.parametrize("kind", ["f32", "i8"])
ISA = "avx512" + AMX


@pytest.mark.slow
@tiled
@each_kind
@pytest.mark.parametrize("m", [1, 16, 17, 31, 33, 37, 65])
def test_amx_gemm_of_rows_around_the_tile(kind: str, m: int) -> None:
    """Static and dynamic; full steps of K are read in place, others are copied."""
    for n in (17, 70) if m < 64 else (33,):
        for k in (128, 131):
            case = Case(m, k, n, epilogue="relu" if m % 2 else "none", **KINDS[kind])
            check(case, ISA, workers=1 + m % 4)
            if n == 70:
                check(dataclasses.replace(case, dynamic="m"), ISA, at="start")


@pytest.mark.slow
@tiled
@copied
@pytest.mark.parametrize("n", [2, 16, 17, 31, 33, 48, 64, 65, 101])
def test_amx_gemm_of_columns_around_the_tile(kind: str, n: int) -> None:
    for m in (5, 20):
        check(Case(m, 67, n, b="packed" if n % 2 else "rows", **KINDS[kind]), ISA, workers=2)


@tiled
@copied
@pytest.mark.parametrize("k", [0, 1, 3, 31, 32, 33, 63, 64, 65, 129])
def test_amx_gemm_of_depths_around_a_step(kind: str, k: int) -> None:
    layouts = ["packed", "rows", "columns", "gaps"]
    check(Case(18, k, 40, b=layouts[k % 4], a=["rows", "columns"][k % 2], **KINDS[kind]), ISA)


@pytest.mark.slow
@tiled
@pytest.mark.parametrize("left", ["rows", "columns", "gaps"])
@pytest.mark.parametrize("right", ["packed", "rows", "columns"])
@copied
def test_amx_gemm_of_layouts_and_batches(kind: str, left: str, right: str) -> None:
    for dynamic in ("", "mnkqabc"):
        case = Case(19, 70, 35, batch=(2, 3), a=left, b=right, dynamic=dynamic, **KINDS[kind])
        check(dataclasses.replace(case, b_once=right == "packed"), ISA, workers=3)


@tiled
@pytest.mark.parametrize("m, k, dynamic", [(64, 128, ""), (64, 128, "m"), (80, 1024, "")])
def test_amx_gemm_copies_rows_that_do_not_begin_with_a_line(m: int, k: int, dynamic: str) -> None:
    """To scratch, first of all; those that do are read where they lie. The numbers are the same."""
    spec, (a, b), dims, _, expected = make(
        Case(m, k, 96, dtype=U8, b_dtype=I8, dynamic=dynamic), ISA
    )
    kernel = Compiled(spec, target_of(ISA))
    for skip in (0, 16):
        memory, out = (
            unwritten((a.nbytes + 128,), np.uint8),
            unwritten(expected.shape, expected.dtype),
        )
        start = -memory.ctypes.data % 64 + skip
        given = memory[start : start + a.nbytes]
        given[:] = a.reshape(-1)
        scratch = unwritten((kernel.scratch + 64,), np.uint8)
        place = scratch.ctypes.data + -scratch.ctypes.data % 64
        table = (ctypes.c_void_p * 3)(given.ctypes.data, b.ctypes.data, out.ctypes.data)
        kernel.entry(table, (ctypes.c_int64 * 4)(*dims), 0, 1, place)
        copied = ctypes.string_at(place, 128) == a[0, :128].tobytes()
        assert copied is (skip != 0) and same_bits(out, expected)


@tiled
def test_amx_gemm_bits_depend_on_neither_threads_nor_rows_nor_kind_of_kernel() -> None:
    """numerics.md, for sizes that end within a step of K and within a block."""
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((70, 403)), rng.standard_normal((403, 75))
    expected = product(a, b, ISA, compute_dtype=BF16)
    for workers in (2, 3, 4):
        assert same_bits(product(a, b, ISA, compute_dtype=BF16, workers=workers), expected)
    for dynamic in ("m", "mnkabc"):
        assert same_bits(product(a, b, ISA, compute_dtype=BF16, dynamic=dynamic), expected)
    for m in (1, 2, 16, 17, 40):
        assert same_bits(product(a[9 : 9 + m], b, ISA, compute_dtype=BF16), expected[9 : 9 + m])


@tiled
def test_amx_gemm_keeps_nan_and_infinity_in_their_row() -> None:
    """Neither rows of one tile nor the padding of K and of rows mix."""
    a, b = np.ones((21, 37)), np.ones((37, 40))
    a[3, 36], a[20, 0] = np.nan, np.inf
    for dynamic in ("", "m", "mnkabc"):
        found = product(a, b, ISA, compute_dtype=BF16, dynamic=dynamic)
        np.testing.assert_array_equal(found, (a @ b).astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize(
    "case, instruction",
    [
        (Case(64, 768, 96, compute_dtype=BF16), "tdpbf16ps"),
        (Case(80, 768, 96, compute_dtype=BF16), "tdpbf16ps"),
        (Case(1, 768, 96, compute_dtype=BF16), "tdpbf16ps"),
        (Case(64, 301, 96, compute_dtype=BF16, dynamic="m"), "tdpbf16ps"),
        (Case(64, 768, 96, dtype=U8, b_dtype=I8), "tdpbusd"),
        (Case(64, 768, 96, dtype=I8, b="columns", dynamic="mnkabc"), "tdpbusd"),
    ],
    ids=str,
)
def test_amx_gemm_assembly_uses_tiles(case: Case, instruction: str) -> None:
    """Tile registers are named and never spilled; every factor loaded serves all its products, or,
    of six sums, two are loaded again."""
    target = sapphire_rapids()
    spec = make(case, "plain", target)[0]
    tiling = choose_schedule(spec, target)
    assembly = emit_assembly(generate(spec, target, "k").text, target)
    assert assembly.count("ldtilecfg") == assembly.count("tilerelease") == 1
    assert re.search(rf"{instruction}\s+%tmm\d, %tmm\d, %tmm\d", assembly)
    for body in re.findall(r"^amx_\d+x\w+:\n(.*?)retq", assembly, re.S | re.M):
        stores = len(re.findall(r"tilestored\s+%tmm[0-5],", body))
        assert body.count("tilestored") == stores <= (6 if case.m == 80 else 4)
        sums = len(set(re.findall(rf"{instruction}\s+%tmm\d, %tmm\d, (%tmm\d)", body)))
        assert sums == stores
        pattern = rf"^(\.LBB\w+:[^:]*?{instruction}[^:]*?\tj\w+\t\.LBB)"
        loop, *_ = re.findall(pattern, body, re.S | re.M)  # another one is the last step's
        # Within the loop, and behind it, rows of the tile before are finished.
        assert [body.count("callq\tfinish"), loop.count("callq")] == [2, 0]
        assert loop.count(instruction) == sums
        loads = {6: (7,), 4: (4, 5), 2: (3,), 1: (2,)}
        assert loop.count("tileloadd") in loads[sums]
        assert "tilezero" not in loop and "tilestored" not in loop
    wide = tiling.panels * tiling.vectors
    assert (tiling.mr, wide) == {1: (1, 4), 80: (48, 2)}.get(case.m, (32, 2))


@pytest.mark.skipif("avx512" not in ISAS, reason="not run: this machine has no AVX-512")
def test_choose_schedule_uses_no_tiles_without_amx() -> None:
    for feature in ("amx-tile", "amx-bf16"):
        target = sapphire_rapids()
        left = tuple(f for f in target.cpu_features if f != feature)
        target = dataclasses.replace(target, cpu_features=left)
        spec = make(Case(32, 64, 64, compute_dtype=BF16), "plain", target)[0]
        assert isinstance(choose_schedule(spec, target), VectorSchedule)
    spec = make(Case(32, 64, 64, dtype=U8, b_dtype=I8), "plain", target)[0]
    assert isinstance(choose_schedule(spec, target), AmxSchedule)


@tiled
def test_choose_amx_schedule_keeps_blocks_in_their_caches() -> None:
    """A block of A in half of L2; sums wait for another block of K only where it would not fit."""
    target = sapphire_rapids()
    for m, k, n in ((64, 768, 3072), (1024, 1024, 1024), (2048, 2048, 2048), (256, 9000, 64)):
        t = choose_schedule(make(Case(m, k, n, compute_dtype=BF16), "plain", target)[0], target)
        assert t.blocked == (k == 9000) and (k == 9000 or t.kc == k // 2)
        assert t.kc % 16 == 0 and t.mc * t.strip * 4 <= target.l2 // 2 + (64 << 10) and t.mc <= 8
    assert (
        choose_schedule(
            make(Case(256, 1024, 64, compute_dtype=BF16), "plain", target)[0], target
        ).mc
        == 6
    )


@pytest.mark.slow
@tiled
@each_kind
@pytest.mark.parametrize("m", [48, 64, 80, 96, 112, 128, 160])
def test_amx_gemm_of_rows_of_three_registers(kind: str, m: int) -> None:
    """Where rows are whole registers and K is too deep for L1: tiles of three, and one or two of
    two. Read where they lie, copied, on parts of them."""
    cells = 2 if kind in ("f32", "bf16") else 4
    for k in (208 * cells, 200 * cells + 1):
        case = Case(m, k, 70, epilogue="relu" if m % 3 else "none", **KINDS[kind])
        t = choose_schedule(make(case, ISA)[0], target_of(ISA))
        twos = {48: 0, 64: 2, 80: 1, 96: 0, 112: 2, 128: 1, 160: 2}[m]
        assert t.heights == ((48,) if not twos else (32,) if m == 64 else (48, 32))
        assert t.in_place == (kind in ("bf16", "u8") and k % 2 == 0)
        check(case, ISA, workers=1 + m // 16 % 4)
        check(dataclasses.replace(case, m=m + 1), ISA, at="start")
    short = make(Case(96, 192 * cells, 70, **KINDS[kind]), ISA)[0]
    shallow = choose_schedule(short, target_of(ISA))
    assert shallow.heights == (32,)


@tiled
@pytest.mark.parametrize("k, n, tiles", [(64, 256, 4), (128, 512, 2), (64, 64, 8), (256, 512, 8)])
def test_choose_amx_schedule_shortens_blocks_of_little_depth(k: int, n: int, tiles: int) -> None:
    """So that what an epilogue reads and writes is near: 64 KiB of it, in two tiles at least."""
    target = sapphire_rapids()
    spec = make(Case(32 * 96, k, n, compute_dtype=BF16), "plain", target)[0]
    narrow = dataclasses.replace(spec, out=dataclasses.replace(spec.out, dtype=BF16))
    assert choose_schedule(narrow, target).mc == tiles
    streamed = dataclasses.replace(narrow, epilogue_operands=(narrow.out,))
    assert choose_schedule(streamed, target).mc == (max(2, tiles // 2) if k < 256 and n > 64 else 8)


@pytest.mark.slow
@tiled
@copied
@pytest.mark.parametrize("k", [600, 9000])
def test_amx_gemm_of_blocks_of_depth(kind: str, k: int) -> None:
    """One block and several, whose sums wait; the last step of the last one is not whole."""
    for m, n, b in ((70, 70, "packed"), (37, 33, "rows")):
        case = Case(m, k + 1, n, b=b, epilogue="relu", **KINDS[kind])
        t = choose_schedule(make(case, ISA)[0], target_of(ISA))
        assert t.blocked == (k == 9000)
        for dynamic in ("", "mnkabc") if m == 70 else ("", "m"):
            check(dataclasses.replace(case, dynamic=dynamic), ISA, workers=2)


def test_amx_emulation_finds_faults() -> None:
    """It would be worth nothing if it took everything."""
    area = np.zeros(64, np.uint8)
    wrong = {
        "before": lambda: amx_emulation.tilezero(0),
        "palette": lambda: amx_emulation.ldtilecfg(area.ctypes.data),
    }
    for message, call in wrong.items():
        with pytest.raises(ValueError, match=message):
            call()
    area[0], area[16:48:2], area[48:56] = 1, 0, 16
    area[16:32:2] = 64
    area[52] = 15
    amx_emulation.ldtilecfg(area.ctypes.data)
    with pytest.raises(ValueError, match="do not fit"):
        amx_emulation.tdpbf16ps(0, 4, 6)
    with pytest.raises(AssertionError, match="without releasing"):
        amx_emulation.check()


@pytest.mark.slow
@tiled
@each_kind
@pytest.mark.parametrize("m, k, n", [(1, 768, 96), (37, 301, 75), (64, 1024, 200), (112, 1024, 75)])
def test_amx_tiles_are_caught_and_emulated(kind: str, m: int, k: int, n: int) -> None:
    """What the machine code gives (caught where there is no AMX) is what the text with calls of the
    emulation gives, in bits."""
    caught = sum(amx_trap.counted.values())
    case = Case(m, k, n, **KINDS[kind])
    spec, inputs, dims, out, expected = make(case, ISA)
    if case.compute_dtype is BF16:
        rng = np.random.default_rng(1)
        inputs[0] = rng.standard_normal(inputs[0].shape).astype(inputs[0].dtype)
    found = []
    for emulates in (False, True):
        result = unwritten(out.shape, expected.dtype)
        kernel = Compiled(spec, target_of(ISA), emulates=emulates)
        assert kernel([*map(guard_copy, inputs), result], dims, workers=2) == (0, 0)
        found.append(result.copy())
    assert same_bits(*found)
    assert HAS_AMX or sum(amx_trap.counted.values()) > caught
    if case.compute_dtype is None:
        np.testing.assert_array_equal(found[0], expected)
