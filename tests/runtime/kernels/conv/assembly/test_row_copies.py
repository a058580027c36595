"""Copies of rows of bytes in assembly: the bits of LLVM's own code, which is used elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.runtime.jit.host_features import host_features
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.kernels.conv import packed_direct
from irc_compiler.runtime.kernels.conv.kernel import generate
from support.kernels.harness import ISAS, compile_spec, run, target_of

from tests.runtime.kernels.conv import test_int8 as bytes_of
from tests.runtime.kernels.conv.test_direct import Case

U8, I8 = DType.u8, DType.i8
# Tiles of AMX have rows of their own, which are not copied here.
HAS_VECTORS = "avx512" in ISAS and "avx512vnni" in host_features()
VECTORS = ["avx512 - amx-int8"] if HAS_VECTORS else []
NOT_RUN = pytest.param(
    "none", marks=pytest.mark.skip(reason="not run: this machine has no AVX-512 VNNI")
)
# Pads that begin before and end behind the image; rows that lie outside of it; pads wider than it;
# rows that are copied one by one; rows that are cut into pieces.
CASES = {
    "padded": Case((11, 13), (3, 3), 64, 32, pads=(1, 1)),
    "strided": Case((14, 15), (5, 5), 128, 16, pads=(2, 2), strides=(2, 2), batch=2),
    "far pads": Case((3, 4), (3, 3), 64, 32, pads=(5, 6)),
    "dilated": Case((14, 15), (3, 3), 64, 16, pads=(3, 2), dilations=(3, 2)),
    "long rows": Case((5, 400), (3, 3), 192, 16, pads=(1, 1)),
    "uneven pads": Case((9, 10), (3, 2), 64, 16, pads=(2, 0), pads_end=(0, 3)),
    "line": Case((70,), (5,), 64, 16, pads=(2,)),
}
# Part of a vector of channels; channels apart; a third axis; sizes that are known at run time; rows
# of planes.
OTHERS = {
    "part of a vector": Case((9, 8), (3, 3), 65, 16, pads=(1, 1)),
    "groups": Case((9, 8), (3, 3), 64, 16, groups=2, pads=(1, 1)),
    "volume": Case((4, 5, 6), (2, 3, 3), 64, 16, pads=(1, 1, 1)),
    "dynamic": Case((9, 8), (3, 3), 64, 16, pads=(1, 1), dynamic=True),
    "channels first": Case((9, 8), (3, 3), 64, 16, pads=(1, 1), data_last=False),
}


def _is_assembled(case: Case, processor: str) -> bool:
    target = target_of(processor)
    text = generate(bytes_of.make(case, target, U8, 131, U8, False)[0], target, "k").text
    assert "k" in emit_object(text, target).exports
    return "copy_rows:" in text


@pytest.mark.parametrize("processor", ["icelake-server", "znver4"])
def test_whole_vectors_of_channels_are_copied_in_assembly(processor: str) -> None:
    assert [n for n, case in CASES.items() if not _is_assembled(case, processor)] == []
    assert [n for n, case in OTHERS.items() if _is_assembled(case, processor)] == []


def test_other_processors_copy_in_code_of_llvm() -> None:
    for processor in ("skylake-avx512", "haswell", "neoverse-v1"):
        assert not _is_assembled(CASES["padded"], processor), processor


@pytest.mark.parametrize("isa", VECTORS or [NOT_RUN])
@pytest.mark.parametrize("kind, zero", [(U8, 7), (U8, None), (I8, -3), (I8, None)])
@pytest.mark.parametrize("name", CASES)
def test_copies_in_assembly_give_the_bits_of_llvm(
    name: str, kind: DType, zero: int | None, isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, inputs, dims, shape, expected = bytes_of.make(
        CASES[name], target_of(isa), kind, zero, U8, False
    )
    assert _is_assembled(CASES[name], isa)
    (found,) = run(spec, inputs, [shape], isa=isa, dims=dims).outs
    monkeypatch.setattr(packed_direct, "rows_in_assembly", lambda *_: None)
    compile_spec.cache_clear()
    (wanted,) = run(spec, inputs, [shape], isa=isa, dims=dims).outs
    compile_spec.cache_clear()
    assert np.array_equal(found, wanted) and np.array_equal(np.moveaxis(found, -1, 1), expected)
