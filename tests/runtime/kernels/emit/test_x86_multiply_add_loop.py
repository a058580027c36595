"""The loop along K in assembly: the same bits as LLVM's own code, and text that LLVM assembles."""

from __future__ import annotations

import re

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.kernels.emit.x86_multiply_add_loop import MultiplyAddLoop
from irc_compiler.runtime.kernels.emit.x86_tile import TileLayout
from irc_compiler.runtime.kernels.gemm.kernel import generate
from support.kernels.harness import ISAS, compile_spec, same_bits
from support.kernels.products import Case, check, make, product

LOOP = MultiplyAddLoop("float", 8, (0, 64, 128), (0, 32), 4, 64, 2)
AVX2 = generic_target("avx2")


FORCED = [isa for isa in ISAS if isa in ("avx2", "avx512")]
# Depths around the unrolled steps, and one that takes several blocks of K; tiles of all heights.
SIZES = ((7, 1, 48), (13, 5, 16), (29, 12, 40), (6, 2100, 32))


@pytest.mark.parametrize("isa", FORCED)
@pytest.mark.parametrize("how", [{}, {"a": "columns"}, {"b": "rows"}, {"dynamic": "m"}])
def test_loop_in_assembly_gives_the_bits_of_llvm(
    isa: str, how: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    operands = [(rng.standard_normal((m, k)), rng.standard_normal((k, n))) for m, k, n in SIZES]
    found = [product(a, b, isa, **how) for a, b in operands]
    monkeypatch.setattr(MultiplyAddLoop, "fits", lambda loop, target: False)
    compile_spec.cache_clear()
    wanted = [product(a, b, isa, **how) for a, b in operands]
    compile_spec.cache_clear()
    assert all(same_bits(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("isa", FORCED)
@pytest.mark.parametrize("m, k, n", SIZES)
def test_doubles_are_exact(isa: str, m: int, k: int, n: int) -> None:
    check(Case(m, k, n, dtype=DType.f64), isa)


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
@pytest.mark.parametrize("dtype", [DType.f32, DType.f64])
def test_text_is_assembled_for_each_instruction_set(isa: str, dtype: DType) -> None:
    target = generic_target(isa)  # type: ignore[arg-type]
    for n in (16, 64, 300):
        spec = make(Case(64, n, 128, dtype=dtype), "plain", target)[0]
        text = generate(spec, target, "k").text
        assert "vfmadd231p" in text and "llvm.fma" not in text
        assert "k" in emit_object(text, target).exports


def test_registers_of_512_bits_are_zeroed_in_their_encoding_and_broadcast_from_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Operands: sums, the register of B, that of a broadcast, addresses. The machine that runs the
    tests may not have them: the text differs from that of 256 bits in these instructions alone."""
    monkeypatch.setattr(TileLayout, "fits", lambda *_, **__: False)  # no function in assembly

    def lines(isa: str, dtype: DType) -> list[str]:
        target = generic_target(isa)  # type: ignore[arg-type]
        spec = make(Case(3, 16, 8, dtype=dtype), "plain", target)[0]
        found = re.search(r'asm sideeffect "(.*?)"', generate(spec, target, "k").text)
        assert found
        return found[1].split(r"\0A")

    wide = lines("avx512", DType.f32)
    assert [w for w in wide if "vpxord" in w] == [f"vpxord ${i}, ${i}, ${i}" for i in range(3)]
    fused = [w for w in wide if w.startswith("vfmadd")]
    assert fused[:3] == [
        "vfmadd231ps 0($5){1to16}, $3, $0",
        "vfmadd231ps 64($5){1to16}, $3, $1",
        "vfmadd231ps 128($5){1to16}, $3, $2",
    ]
    assert not any("broadcast" in w for w in wide)


@pytest.mark.parametrize(
    "isa, change",
    [
        ("plain", {}),
        ("neon", {}),
        ("avx2", {"element": "i32"}),
        ("avx2", {"rows": tuple(range(0, 28, 4))}),
        ("avx2", {"rows": (0, 2**31)}),
        ("avx2", {"a_step": 2**30}),
    ],
)
def test_loop_fits_neither_other_instructions_nor_registers_nor_immediates(
    isa: str, change: dict[str, object]
) -> None:
    assert LOOP.fits(AVX2)
    target = generic_target(isa)  # type: ignore[arg-type]
    assert not MultiplyAddLoop(**(vars(LOOP) | change)).fits(target)  # type: ignore[arg-type]
