"""Attention in bf16 on tiles of AMX: sizes around registers, steps and blocks. Where the machine
has none, those instructions of the machine code are caught and emulated (amx_trap.py)."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.target import Target
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.attention import generate
from support.kernels.harness import (
    ISAS,
    TILED,
    Compiled,
    guard_copy,
    same_bits,
    target_of,
    unwritten,
)

from tests.runtime.kernels.attention.test_block import Case, build, check, expected, found
from tests.runtime.kernels.gemm.test_amx import sapphire_rapids

BF16 = DType.bf16
INF = float("inf")
tiled = pytest.mark.skipif(
    not TILED, reason="not run: packing for tiles needs AVX512-BF16 and VNNI, not on this machine"
)
ISA = "avx512 + amx"


def close(case: Case) -> None:
    """The answer to bf16's precision, bits that workers and run-time sizes do not change, and the
    answer of vectors but for the order of sums (an exponential may round the other way)."""
    case = replace(case, compute_dtype=BF16)
    check(case, ISA, 2e-2)
    _, data, _ = build(case)
    on_tiles, on_vectors = (found(case, isa, data).astype(np.float64) for isa in (ISA, "avx512"))
    limit = 2**-8 if case.dtype is DType.bf16 else 2**-9
    np.testing.assert_allclose(on_tiles, on_vectors, rtol=limit, atol=limit)


@pytest.mark.slow
@tiled
@pytest.mark.parametrize(
    ("queries", "keys"), [(1, 1), (1, 34), (15, 31), (17, 2), (33, 32), (70, 34)]
)
def test_queries_and_keys_around_a_register(queries: int, keys: int) -> None:
    close(Case(queries, keys, size=20, width=18))


@pytest.mark.slow
@tiled
@pytest.mark.parametrize("keys", [127, 128, 130, 161])
def test_keys_around_a_block(keys: int) -> None:
    close(Case(20, keys, heads=1))


@pytest.mark.slow
@tiled
@pytest.mark.parametrize(
    ("size", "width"), [(1, 16), (31, 33), (32, 1), (33, 32), (65, 49), (64, 17)]
)
def test_heads_around_a_step(size: int, width: int) -> None:
    close(Case(9, 37, size, width, heads=1))


@pytest.mark.slow
@tiled
@pytest.mark.parametrize("mask", ["keys", "full", "turned", "bool", "row", ""])
@pytest.mark.parametrize("causal", [None, 10])
def test_masks(mask: str, causal: int | None) -> None:
    close(Case(37, 45, mask=mask, causal=causal, fill=-3.0))


@pytest.mark.slow
@tiled
@pytest.mark.parametrize(
    "case",
    [
        Case(70, 150, causal=80, heads=1),
        Case(40, 20, causal=-30, heads=1),
        Case(40, 20, causal=-30, heads=1, zeros=True),
        Case(33, 50, shared=True, heads=3),
        Case(19, 70, 24, 20, dtype=DType.f16),
        Case(19, 70, 24, 20, dtype=BF16),
    ],
    ids=str,
)
def test_causal_rows_shared_heads_and_f16(case: Case) -> None:
    close(case)


@tiled
def test_empty_sizes() -> None:
    for case in (Case(5, 0), Case(0, 5), Case(5, 5, heads=0), Case(40, 0)):
        for dynamic in (False, True):
            made = replace(case, dynamic=dynamic, compute_dtype=BF16)
            assert not found(made, ISA, build(made)[1], 2).any()


@tiled
def test_special_values() -> None:
    """What is not finite spoils the rows that see it; nothing that fills up a register or a step
    reaches a result."""
    case = Case(20, 45, 12, 10, mask="full", compute_dtype=BF16)
    _, data, _ = build(case)
    mask = data[3]
    mask[:, 0] = -INF
    mask[:, 1, :31] = -INF
    mask[:, 2, 7] = np.nan
    mask[:, 3, 44] = INF
    mask[:, 6] = -1e30
    data[0][5, 0, 11] = np.nan
    got, want = found(case, ISA, data), expected(case, data)
    want[6] = data[2].mean(0)
    assert np.isnan(got[[0, 2, 3]]).all() and np.isnan(got[5, 0]).all()
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=4e-2)
    zeros = found(replace(case, zeros=True), ISA, data)
    assert not zeros[0].any() and np.isnan(zeros[2]).all()
    data[1][44, 1], data[2][44, 0, 9] = INF, INF
    got = found(case, ISA, data)
    assert np.isposinf(got[7:, 0, 9]).all() and np.isfinite(got[7:, 0, :9]).all()


@tiled
def test_rows_among_fewer_are_the_rows_among_others() -> None:
    case = Case(50, 140, 16, 16, heads=2, compute_dtype=BF16)
    _, data, _ = build(case)
    all_rows = found(case, ISA, data)
    for row in (0, 31, 41):
        picked = [data[0][row : row + 9, 1:], data[1][:, 1:], data[2][:, 1:]]
        fewer = found(Case(9, 140, 16, 16, heads=1, compute_dtype=BF16), ISA, picked)
        assert same_bits(fewer[:, 0], all_rows[row : row + 9, 1])


@tiled
@pytest.mark.parametrize("dynamic", [False, True])
def test_few_queries_are_not_rounded(dynamic: bool) -> None:
    case = Case(8, 140, 16, 16, heads=2, compute_dtype=BF16, dynamic=dynamic)
    exact = replace(case, compute_dtype=None)
    _, data, _ = build(case)
    assert same_bits(found(case, ISA, data), found(exact, ISA, data))


def assembly_of(case: Case, target: Target) -> str:
    return emit_assembly(generate(build(case)[0], target, "k").text, target)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("queries", [9, 128])
def test_code_for_a_machine_with_tiles(queries: int, dynamic: bool) -> None:
    """Tiles are configured once; every factor loaded serves all its products."""
    case = Case(queries, 128, 64, 64, compute_dtype=BF16, dynamic=dynamic)
    text = assembly_of(case, sapphire_rapids())
    assert text.count("ldtilecfg") == text.count("tilerelease") == 1
    assert "dpbf16ps\t%z" not in text
    bodies = re.findall(r"^amx_\w+_(\d)x(\d)\w*:\n(.*?)retq", text, re.S | re.M)
    assert bodies
    for down, across, body in bodies:
        sums = int(down) * int(across)
        assert body.count("tilestored") == sums
        loop = body[body.index("Loop Header") if "Loop Header" in body else 0 :]
        assert loop.count("tdpbf16ps") == sums


@pytest.mark.skipif("avx512" not in ISAS, reason="not run: this machine has no AVX-512")
def test_machines_without_tiles_and_other_types_use_none() -> None:
    case = Case(32, 64, 64, 64, compute_dtype=BF16)
    target = sapphire_rapids()
    for feature in ("amx-tile", "amx-bf16"):
        left = tuple(f for f in target.cpu_features if f != feature)
        assert "tmm" not in assembly_of(case, replace(target, cpu_features=left))
    assert "tmm" not in assembly_of(replace(case, compute_dtype=None), target)


@tiled
@pytest.mark.parametrize("case", [Case(1, 45, 33, 20), Case(70, 300, 64, 64)], ids=str)
def test_tiles_themselves(case: Case) -> None:
    """What the machine code gives (caught where there is no AMX) is what the text with calls of the
    emulation gives, in bits."""
    spec, data, dims = build(replace(case, compute_dtype=BF16))
    outs = []
    for emulates in (False, True):
        out = unwritten((case.queries, case.heads, case.width), np.float32)
        kernel = Compiled(spec, target_of(ISA), emulates=emulates)
        assert kernel([*map(guard_copy, data), out], dims, workers=2) == (0, 0)
        outs.append(out.copy())
    assert same_bits(*outs)
