"""Winograd's transforms in assembly: the bits of LLVM's own code, also for extreme data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.kernels.conv.assembly import winograd
from irc_compiler.runtime.kernels.conv.kernel import generate
from support.kernels.harness import ISAS, compile_spec, functions_of, same_bits

from tests.runtime.kernels.conv.test_direct import Case, make
from tests.runtime.kernels.conv.test_winograd_guard import computed

needs_avx512 = pytest.mark.skipif(
    "avx512" not in ISAS, reason="not run: this machine has no AVX-512"
)
CASES = {
    "two": Case((8, 12), (3, 3), 16, 16, pads=(1, 1), winograd=2, epilogue="bias"),
    "two at odd edges": Case((9, 11), (3, 3), 32, 48, pads=(1, 1), batch=2, winograd=2),
    "four": Case((16, 20), (3, 3), 32, 64, pads=(1, 1), winograd=4, epilogue="residual"),
    "four at odd edges": Case((29, 14), (3, 3), 16, 16, pads=(1, 1), batch=2, winograd=4),
    "no pads": Case((13, 12), (3, 3), 16, 80, winograd=4, epilogue="bias"),
    "far pads": Case((11, 14), (3, 3), 16, 16, pads=(2, 3), winograd=4, epilogue="residual"),
    "part of a vector": Case((11, 12), (3, 3), 10, 16, pads=(1, 1), winograd=4, epilogue="bias"),
    "two vectors in part": Case((8, 13), (3, 3), 26, 32, pads=(1, 1), batch=2, winograd=2),
    "outputs in part": Case((12, 9), (3, 3), 16, 33, pads=(1, 1), winograd=4),
    "few outputs": Case((9, 12), (3, 3), 16, 5, pads=(1, 1), winograd=2, epilogue="residual"),
    "volume": Case((6, 9, 12), (3, 3, 3), 26, 32, pads=(1, 1, 1), winograd=4, epilogue="residual"),
    "slices": Case((6, 9, 11), (2, 3, 3), 16, 5, strides=(2, 1, 1), pads=(1, 1, 1), winograd=2),
}
# Whose results wait in memory for an epilogue that LLVM compiles.
LONG = {
    "two": Case((8, 12), (3, 3), 16, 16, pads=(1, 1), winograd=2, epilogue="swish"),
    "four at odd edges": Case((9, 14), (3, 3), 32, 48, pads=(1, 1), winograd=4, epilogue="swish"),
    "in part": Case((8, 13), (3, 3), 10, 37, pads=(1, 1), batch=2, winograd=4, epilogue="swish"),
}


def change(data: np.ndarray) -> None:
    """Values that make some tiles extreme, of which one is at an edge."""
    data[0, 0, 3, 2], data[0, 5, 5, 1] = np.nan, 1e30
    data.reshape(-1)[-1] = -np.inf


@needs_avx512
@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("case", [*CASES.values(), *LONG.values()], ids=[*CASES, *LONG])
def test_transforms_in_assembly_give_the_bits_of_llvm(
    case: Case, workers: int, extreme: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(at: str) -> np.ndarray:
        write = change if extreme else lambda _: None
        compile_spec.cache_clear()
        return computed(case, "avx512", write, workers, at)

    found = [find(at) for at in ("end", "start")]
    monkeypatch.setattr(winograd, "fits_data", lambda *_: False)
    wanted = find("end")
    compile_spec.cache_clear()
    np.testing.assert_array_equal(np.isnan(found[0]), np.isnan(wanted))
    assert all(same_bits(np.nan_to_num(f), np.nan_to_num(wanted)) for f in found)


@pytest.mark.parametrize("name", CASES)
def test_text_is_assembled(name: str) -> None:
    target = generic_target("avx512")
    text = generate(make(CASES[name], "avx512", floats=True)[0], target, "k").text
    assert all(text.count(f"{part}:") == 1 for part in ("data", "result", "direct"))
    assert "finish" not in text
    assert "k" in emit_object(text, target).exports


def test_layers_share_a_long_epilogue() -> None:
    """Its text is the same for other channels, sizes and strides."""
    target, found = generic_target("avx512"), set[str]()
    for case in (LONG["four at odd edges"], Case((8, 8), (3, 3), 48, 64, pads=(2, 2), winograd=4)):
        case = replace(case, epilogue="swish")
        text = generate(make(case, "avx512", floats=True)[0], target, "k").text
        assert all(text.count(f"{part}:") == 1 for part in ("data", "result", "direct"))
        found |= set(functions_of(text, "finish_16"))
        assert "k" in emit_object(text, target).exports
    assert len(found) == 1


def test_other_convolutions_are_compiled() -> None:
    case = Case((8, 12), (3, 3), 16, 16, winograd=4, dynamic=True)
    spec = make(case, "avx512", floats=True)[0]
    text = generate(spec, generic_target("avx512"), "k").text
    assert r"\0Adata:" not in text and r"\0Aresult:" not in text
