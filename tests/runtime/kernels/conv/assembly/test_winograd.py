"""Winograd's transforms in assembly: the bits of LLVM's own code, also for extreme data."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.kernels.conv.assembly import winograd
from irc_compiler.runtime.kernels.conv.kernel import generate
from support.kernels.harness import ISAS, compile_spec, same_bits

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
}
# Sums of which LLVM transforms: parts of vectors of channels, and a long epilogue.
DATA_ALONE = {
    "part of a vector": Case((11, 12), (3, 3), 10, 16, pads=(1, 1), winograd=4, epilogue="bias"),
    "two vectors in part": Case((8, 13), (3, 3), 26, 32, pads=(1, 1), batch=2, winograd=2),
    "outputs in part": Case((12, 9), (3, 3), 16, 33, pads=(1, 1), winograd=4),
    "swish": Case((8, 12), (3, 3), 16, 16, pads=(1, 1), winograd=4, epilogue="swish"),
}


def change(data: np.ndarray) -> None:
    """Values that make some tiles extreme, of which one is at an edge."""
    data[0, 0, 3, 2], data[0, 5, 5, 1] = np.nan, 1e30
    data[-1, -1, -1, -1] = -np.inf


@needs_avx512
@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", [*CASES, *DATA_ALONE])
def test_transforms_in_assembly_give_the_bits_of_llvm(
    name: str, workers: int, extreme: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(at: str) -> np.ndarray:
        write = change if extreme else lambda _: None
        compile_spec.cache_clear()
        return computed((CASES | DATA_ALONE)[name], "avx512", write, workers, at)

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
    assert "k" in emit_object(text, target).exports


@pytest.mark.parametrize("name", DATA_ALONE)
def test_text_of_data_alone_is_assembled(name: str) -> None:
    target = generic_target("avx512")
    text = generate(make(DATA_ALONE[name], "avx512", floats=True)[0], target, "k").text
    assert text.count("data:") == 1 and "result:" not in text and "direct:" not in text
    assert "k" in emit_object(text, target).exports


def test_other_convolutions_are_compiled() -> None:
    case = Case((8, 12), (3, 3), 16, 16, winograd=4, dynamic=True)
    spec = make(case, "avx512", floats=True)[0]
    text = generate(spec, generic_target("avx512"), "k").text
    assert r"\0Adata:" not in text and r"\0Aresult:" not in text
