"""What a product's tiling decides, seen in its code; and that no choice changes a bit."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.gemm.kernel import generate
from irc_compiler.runtime.kernels.gemm.tiling import choose_schedule
from support.kernels.harness import ISAS, same_bits, target_of
from support.kernels.products import Case, check, make, product

WIDE = generic_target("avx512")
# A product, and how its left operand reaches the tiles.
COPIES = {
    "rows that lie apart": (Case(64, 300, 128), "no"),
    "rows that share cache sets": (Case(64, 4096, 128), "rows"),
    "a single row": (Case(1, 4096, 128), "no"),
    "few columns": (Case(64, 4096, 60), "no"),
    "dynamic rows": (Case(64, 300, 128, dynamic="m"), "rows"),
    "columns that are contiguous": (Case(64, 300, 128, a="columns"), "columns"),
    "neither is contiguous": (Case(64, 300, 128, a="gaps"), "rows"),
    "what is rounded": (Case(64, 300, 128, compute_dtype=DType.bf16), "rows"),
    "what is rounded, a single row": (Case(1, 300, 128, compute_dtype=DType.bf16), "rows"),
    "halves": (Case(64, 300, 128, dtype=DType.f16), "rows"),
    "bytes that are not cells": (Case(64, 301, 128, dtype=DType.u8, b_dtype=DType.i8), "rows"),
}


@pytest.mark.parametrize("name", COPIES)
def test_choose_schedule_copies_the_left_operand_where_that_is_faster(name: str) -> None:
    case, copied = COPIES[name]
    assert choose_schedule(make(case, "plain", WIDE)[0], WIDE).pack_a == copied


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_copied_left_operand_changes_no_bit(isa: str) -> None:
    """The same rows by a machine whose first cache has few ways, and by one that has many."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((37, 1024)), rng.standard_normal((1024, 150))
    spec, found = make(Case(37, 1024, 150), isa)[0], []
    for l1, copied in ((8 << 10, "rows"), (1 << 20, "no")):
        machine = dataclasses.replace(target_of(isa), l1=l1)
        assert choose_schedule(spec, machine).pack_a == copied
        found.append(product(a, b, isa, target=machine))
    assert same_bits(*found)


def code(case: Case) -> str:
    return generate(make(case, "plain", WIDE)[0], WIDE, "k").text


def prefetches(case: Case) -> int:
    return len(re.findall(r"call void @llvm.prefetch|prefetcht\d", code(case)))


def test_gemm_tiles_prefetch_the_next_panel_of_constants() -> None:
    """A line a step where several tiles share a panel, all of it where one alone reads it."""
    tall = choose_schedule(make(Case(64, 300, 128), "plain", WIDE)[0], WIDE)
    assert tall.fetch == 1 and not tall.streams
    flat = choose_schedule(make(Case(1, 300, 128), "plain", WIDE)[0], WIDE)
    assert flat.fetch == 2 and flat.streams
    assert prefetches(Case(64, 300, 128)) > 0 and prefetches(Case(1, 300, 128)) > 0
    assert prefetches(Case(64, 300, 128, b="rows")) == 0
    # Several tiles: a place in the next panel, or, where one worker has one tile, in its own.
    choices = r"select i1 \S+, ptr \S+, ptr \S+"
    assert len(re.findall(choices, code(Case(64, 300, 128)))) == 2  # tall and low tiles
    assert not re.findall(choices, code(Case(1, 300, 128)))


@pytest.mark.parametrize(
    "isa, dtype, word",
    [
        ("avx512", DType.i32, r"vpmulld\s.*zmm"), ("avx512", DType.u32, r"vpmulld\s.*zmm"),
        ("avx512", DType.i64, r"vpmullq\s.*zmm"), ("avx512", DType.u64, r"vpmullq\s.*zmm"),
        ("avx2", DType.i32, r"vpmulld\s.*ymm"), ("avx2", DType.i64, r"vpmuludq\s.*ymm"),
        ("avx2", DType.u64, r"vpmuludq\s.*ymm"), ("neon", DType.i32, r"\bmla\s+v\d+\.4s"),
    ],
)  # fmt: skip
def test_gemm_assembly_multiplies_integers_by_vectors(isa: str, dtype: DType, word: str) -> None:
    target = generic_target(isa)  # type: ignore[arg-type]
    spec = make(Case(12, 32, 64, dtype=dtype, b="rows"), "plain", target)[0]
    assembly = emit_assembly(generate(spec, target, "k").text, target)
    assert len(re.findall(word, assembly)) >= 12


def test_gemm_assembly_masks_edges() -> None:
    """The last columns by masks, of a right operand that is not padded as well; whole vectors by
    none."""
    masks = r"call .*?@llvm\.masked\.(?:load|store)|\{%k1\}"
    found = {
        (n, b): {x.rpartition(".")[2] for x in re.findall(masks, code(Case(13, 300, n, b=b)))}
        for n in (64, 40)
        for b in ("packed", "rows")
    }
    assert found == {
        (64, "packed"): set(), (64, "rows"): set(), (40, "packed"): {"{%k1}"},
        (40, "rows"): {"load", "store"},
    }  # fmt: skip


@pytest.mark.parametrize("isa", ["avx512", "avx2", "neon", "plain"])
def test_choose_schedule_keeps_blocks_in_the_second_cache(isa: str) -> None:
    """A block of A takes a third of it at most, partial sums that wait another third, a panel of B
    an eighth."""
    target = generic_target(isa)  # type: ignore[arg-type]
    more = ("avx512bf16", "avx512vnni") if isa == "avx512" else ()
    units = dataclasses.replace(target, cpu_features=tuple(sorted({*target.cpu_features, *more})))
    for sizes in ((64, 768, 3072), (1024, 1024, 1024), (2048, 4096, 2048), (4096, 1 << 16, 64)):
        for kind in ({}, {"dtype": DType.f64}, {"compute_dtype": DType.bf16}, {"dtype": DType.i8}):
            spec = make(Case(2, 64, 64, **kind), "plain", units)[0]
            spec = dataclasses.replace(spec, **dict(zip("mkn", sizes, strict=True)))
            t, size = choose_schedule(spec, units), spec.acc.bits // 8
            assert t.mc * t.mr * t.kc * size <= target.l2 // 3
            assert t.kc * t.nr * size <= target.l2 // 8
            assert t.kc * t.kr >= min(sizes[1], 256)
            assert not t.blocked or t.mc * t.nc * t.mr * t.nr * size <= target.l2 // 3


@pytest.mark.parametrize(
    "isa, more, dynamic", [("avx512", "avx512fp16", ""), ("avx512", "", "m"), ("avx2", "", "")]
)
def test_gemm_assembly_only_converts_f16(isa: str, more: str, dynamic: str) -> None:
    """By F16C's instruction, from f16 in memory, the packed constant too; sums are of f32 also
    where the machine could add halves."""
    target = generic_target(isa)  # type: ignore[arg-type]
    features = tuple(sorted({*target.cpu_features, *([more] if more else [])}))
    target = dataclasses.replace(target, cpu_features=features)
    case = Case(13, 64, 64, dtype=DType.f16, dynamic=dynamic)
    spec = make(case, "plain", target)[0]
    assert spec.acc is DType.f32 and spec.b.dtype is DType.f16 and spec.packed is not None
    assembly = emit_assembly(generate(spec, target, "k").text, target)
    assert "vcvtph2ps" in assembly and "vcvtps2ph" in assembly
    assert re.search(r"vfmadd\w*ps", assembly)
    assert not re.search(r"\bv(add|sub|mul|f[n]?m(add|sub)\w*)[ps]h\b", assembly)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("epilogue", ["none", "bias", "residual"])
@pytest.mark.parametrize("a", ["rows", "columns", "gaps"])
def test_last_tile_computes_rows_of_the_one_before_again(isa: str, epilogue: str, a: str) -> None:
    """One height is compiled for many rows, unless the epilogue reads what may be the output."""
    target = target_of(isa)
    mr = choose_schedule(make(Case(10_000, 20, 40), "plain", target)[0], target).mr
    case = Case(97 * mr - 1, 20, 40, a=a, epilogue=epilogue)
    heights = choose_schedule(make(case, isa, target)[0], target).heights
    assert len(heights) == (2 if epilogue == "residual" and mr > 1 else 1)
    for workers in (1, 3):
        check(case, isa, workers)
    few = make(Case(2 * mr - 1, 20, 40), "plain", target)[0]
    assert mr == 1 or len(choose_schedule(few, target).heights) == 2
