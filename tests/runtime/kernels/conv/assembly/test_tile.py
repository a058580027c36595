"""Tiles of direct and depthwise convolutions in assembly: the bits of LLVM's own code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.kernels.conv.kernel import generate
from irc_compiler.runtime.kernels.emit.x86_multiply_add_loop import MultiplyAddLoop
from irc_compiler.runtime.kernels.emit.x86_tile import TileLayout
from support.kernels.harness import (
    ISAS,
    compile_spec,
    functions_of,
    run,
    same_bits,
    target_of,
)

from tests.runtime.kernels.conv import test_int8 as bytes_of
from tests.runtime.kernels.conv.test_direct import Case, computed, make

FORCED = [isa for isa in ISAS if isa in ("avx2", "avx512")]
CASES = {
    # Tiles at all edges; a window of one pixel; taps that are one run with their channels.
    "padded": Case((11, 13), (3, 3), 5, 32, pads=(1, 1), epilogue="residual"),
    "strided": Case((23, 21), (7, 7), 3, 32, pads=(3, 3), strides=(2, 2), epilogue="bias"),
    "points": Case((9, 10), (1, 1), 8, 16, strides=(2, 2)),
    "dilated": Case((14, 15), (3, 3), 4, 32, pads=(2, 2), dilations=(2, 2), epilogue="bias"),
    "channels first": Case((9, 8), (3, 3), 6, 16, pads=(1, 1), data_last=False),
    "line": Case((40,), (5,), 7, 16, pads=(2,), epilogue="residual"),
    "far pads": Case((4, 5), (3, 3), 4, 16, pads=(3, 3)),
    "groups": Case((8, 9), (3, 3), 4, 16, groups=2, pads=(1, 1), batch=2, epilogue="bias"),
    "depthwise": Case((15, 17), (3, 3), 1, 1, groups=32, pads=(1, 1), epilogue="residual"),
    "depthwise, strided": Case((16, 33), (5, 5), 1, 1, groups=32, pads=(2, 2), strides=(2, 2)),
    "depthwise, far pads": Case((4, 5), (3, 3), 1, 1, groups=16, pads=(3, 3), epilogue="bias"),
}
# A last vector of channels that is not full: AVX-512 has masks for it.
PARTS = {
    "part of a vector": Case((9, 8), (3, 3), 4, 17, pads=(1, 1), epilogue="bias"),
    "two vectors in part": Case((11, 13), (3, 3), 5, 23, pads=(1, 1), epilogue="residual"),
    "points in part": Case((9, 10), (1, 1), 8, 5, strides=(2, 2), epilogue="residual"),
    "groups in part": Case((8, 9), (3, 3), 4, 13, groups=2, pads=(1, 1), batch=2),
    "depthwise in part": Case((15, 17), (3, 3), 1, 1, groups=37, pads=(1, 1), epilogue="residual"),
    "depthwise, strided in part": Case(
        (9, 33), (5, 5), 1, 1, groups=3, pads=(2, 2), strides=(2,) * 2
    ),
    "depthwise, far pads in part": Case((4, 5), (3, 3), 1, 1, groups=9, pads=(3, 3)),
}
# Whose sums wait in memory for an epilogue that LLVM compiles.
LONG = {
    "swish": Case((9, 8), (3, 3), 4, 16, pads=(1, 1), epilogue="swish"),
    "swish in part": Case((9, 8), (3, 3), 4, 19, pads=(1, 1), epilogue="swish"),
    "depthwise swish": Case((15, 17), (3, 3), 1, 1, groups=37, pads=(1, 1), epilogue="swish"),
}
# These need tests at run time, or a third axis.
OTHERS = {
    "dynamic": Case((9, 8), (3, 3), 4, 16, pads=(1, 1), dynamic=True),
    "volume": Case((4, 5, 6), (2, 3, 3), 3, 16),
}


def text_of(case: Case, isa: str) -> str:
    return generate(make(case, isa)[0], generic_target(isa), "k").text  # type: ignore[arg-type]


@pytest.mark.parametrize("isa", FORCED)
@pytest.mark.parametrize("dtype", [DType.f32, DType.f64], ids=str)
@pytest.mark.parametrize("name", [*CASES, *PARTS, *LONG])
def test_tile_in_assembly_gives_the_bits_of_llvm(
    name: str, dtype: DType, isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = replace((CASES | PARTS | LONG)[name], dtype=dtype)
    floats = dtype is DType.f32
    found = [computed(case, isa, floats=floats, at=at)[0] for at in ("end", "start")]
    monkeypatch.setattr(TileLayout, "fits", lambda *_, **__: False)
    compile_spec.cache_clear()
    wanted = computed(case, isa, floats=floats)[0]
    compile_spec.cache_clear()
    assert all(same_bits(np.ascontiguousarray(f), np.ascontiguousarray(wanted)) for f in found)


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
@pytest.mark.parametrize("name", CASES)
def test_all_tiles_of_a_kernel_are_assembled(name: str, isa: str) -> None:
    text = text_of(CASES[name], isa)
    assert "module asm" in text and "define internal" not in text
    assert "k" in emit_object(text, generic_target(isa)).exports  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PARTS)
def test_tiles_of_parts_of_vectors_are_assembled(name: str) -> None:
    text = text_of(PARTS[name], "avx512")
    assert "{%k1}" in text and "define internal" not in text
    assert "k" in emit_object(text, generic_target("avx512")).exports


@pytest.mark.parametrize("depthwise", [False, True])
def test_layers_share_a_long_epilogue(depthwise: bool) -> None:
    """Its text is the same for other channels, sizes and strides."""
    size = {"groups": 32} if depthwise else {"channels": 4, "outputs": 32}
    other = {"groups": 64} if depthwise else {"channels": 6, "outputs": 64}
    found = set[str]()
    for sizes, layer in (((9, 8), size), ((13, 14), other)):
        case = replace(LONG["depthwise swish" if depthwise else "swish"], sizes=sizes, **layer)
        text = text_of(case, "avx512")
        (finish,) = functions_of(text, "finish")
        assert "module asm" in text and not functions_of(text, "tile")
        found.add(finish)
    assert len(found) == 1


@pytest.mark.parametrize("name", OTHERS)
def test_other_tiles_are_compiled(name: str) -> None:
    assert "module asm" not in text_of(OTHERS[name], "avx512")


@pytest.mark.parametrize("name", ["padded", "depthwise"])
def test_rows_that_are_gigabytes_apart_are_compiled(name: str) -> None:
    """Immediates have 32 bits."""
    spec = make(CASES[name], "avx2")[0]
    batch, channel, depth, *_ = spec.data.strides
    data = replace(spec.data, strides=(batch, channel, 2**29, depth)[: len(spec.data.strides)])
    text = generate(replace(spec, data=data), generic_target("avx2"), "k").text
    assert "module asm" not in text


def test_other_instruction_sets_have_no_assembly() -> None:
    for isa in ("plain", "neon"):
        assert "module asm" not in text_of(CASES["padded"], isa)


# Sums that begin with a zero point's part; tiles of two rows; a last vector that is not full; few
# steps along K, with the epilogue in the tile; cells that a row of taps does not fill.
BYTES = {
    "padded": Case((11, 13), (3, 3), 64, 32, pads=(1, 1)),
    "short rows": Case((7, 7), (3, 3), 58, 40, pads=(1, 1)),
    "dilated": Case((14, 15), (3, 3), 60, 16, pads=(2, 2), dilations=(2, 2)),
    "few steps": Case((9, 20), (3, 3), 6, 32, pads=(1, 1)),
    "three channels": Case((12, 12), (5, 5), 3, 16, pads=(2, 2), strides=(2, 2)),
}


@pytest.mark.parametrize(
    "processor, instruction",
    [
        ("icelake-server", "vpdpbusd"),
        ("znver4", "vpdpbusd"),
        ("skylake-avx512", "vpmaddwd"),
        ("haswell", "vpmaddwd"),
    ],
)
@pytest.mark.parametrize("name", BYTES)
def test_sums_of_bytes_are_assembled(name: str, processor: str, instruction: str) -> None:
    target = target_of(processor)
    spec = bytes_of.make(BYTES[name], target, DType.u8, 131, DType.u8, False)[0]
    text = generate(spec, target, "k").text
    lines = text.splitlines()
    functions = [line for line in lines if line.startswith("module asm")]
    tiles = [line for line in functions if "copy_rows:" not in line]
    loops = [line for line in lines if "asm sideeffect" in line and instruction in line]
    assert all(instruction in tile for tile in tiles)
    assert bool(tiles) == (name in ("padded", "short rows", "dilated")) == (not loops)
    # The last values of rows of three channels are in cells of their own.
    assert ("llvm.x86" in text) == bool(spec.packed.tails)
    assert "k" in emit_object(text, target).exports


@pytest.mark.parametrize("isa", FORCED)
@pytest.mark.parametrize("kind, zero", [(DType.u8, 7), (DType.i8, -3), (DType.u8, None)])
@pytest.mark.parametrize("name", BYTES)
def test_sums_of_bytes_in_assembly_are_those_of_llvm(
    name: str, kind: DType, zero: int | None, isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bytes_of.make(BYTES[name], target_of(isa), kind, zero, DType.u8, False)
    spec, inputs, dims, shape, expected = made
    (found,) = run(spec, inputs, [shape], isa=isa, dims=dims).outs
    monkeypatch.setattr(TileLayout, "fits", lambda *_, **__: False)
    monkeypatch.setattr(MultiplyAddLoop, "fits", lambda *_: False)
    compile_spec.cache_clear()
    (wanted,) = run(spec, inputs, [shape], isa=isa, dims=dims).outs
    compile_spec.cache_clear()
    assert np.array_equal(found, wanted) and np.array_equal(np.moveaxis(found, -1, 1), expected)
