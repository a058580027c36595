"""Winograd's transform of bytes: the sums of the direct convolution, bit for bit."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.plan.packing.layouts import PackedConv
from irc_compiler.plan.packing.panel_params import multiplies_pairs
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.convolution import Window
from irc_compiler.plan.target import generic_target
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.kernel_table import generate
from support.kernels.harness import ISAS, target_of

from tests.runtime.kernels.conv.test_direct import WINOGRAD as FLOATS
from tests.runtime.kernels.conv.test_direct import Case
from tests.runtime.kernels.conv.test_direct import make as make_floats
from tests.runtime.kernels.conv.test_int8 import F32, I8, I16, I32, U8, check, make

WHOLE = {
    "tiles": Case((8, 12), (3, 3), 64, 32, pads=(1, 1), winograd=4),
    "one more": Case((9, 13), (3, 3), 32, 64, pads=(1, 1), batch=2, winograd=4),
    "one less": Case((7, 11), (3, 3), 96, 16, pads=(1, 1), winograd=4),
    "single": Case((3, 3), (3, 3), 8, 9, winograd=4),
    "no paddings": Case((10, 6), (3, 3), 33, 40, winograd=4),
    "far": Case((5, 6), (3, 3), 17, 48, pads=(2, 3), winograd=4),
    "many": Case((28, 30), (3, 3), 70, 70, pads=(1, 1), winograd=4),
    "batch": Case((4, 4), (3, 3), 5, 7, pads=(1, 0), batch=5, winograd=4),
}
# NEON has no unit for pairs of 16 bits: lowering takes the direct convolution there.
PAIR_ISAS = [isa for isa in ISAS if multiplies_pairs(target_of(isa))]
each_isa = pytest.mark.parametrize(
    "isa", [*PAIR_ISAS, *(["avx512 - avx512vnni"] if "avx512" in ISAS else [])]
)
KINDS = [(U8, 131), (U8, None), (I8, -7), (I8, None), (U8, 255), (I8, -128), (I8, 127)]


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", WHOLE)
def test_winograd_is_exact(name: str, isa: str) -> None:
    rng = random.Random(f"winograd {name} {isa}")
    for kind, zero in rng.sample(KINDS, 2):
        out, workers, at = rng.choice([I32, U8, I8]), rng.choice([1, 2, 3]), rng.choice("es")
        at = {"e": "end", "s": "start"}[at]
        check(WHOLE[name], isa, kind, zero, out, workers=workers, at=at)
    kind, zero = rng.choice(KINDS)
    check(replace(WHOLE[name], dynamic=True), isa, kind, zero, workers=rng.choice([1, 2]))


# 9 * 114 * 128 * 255 is just below 2^25.
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize(
    ("kind", "zero", "data", "filters"),
    [
        (U8, None, [255], [-128]),
        (U8, None, [0, 255], [-128, 127]),
        (U8, 255, [0], [-128]),
        (U8, 128, [0, 255], [-128, 127]),
        (I8, None, [-128], [-128]),
        (I8, -128, [127], [-128]),
        (I8, 127, [-128], [127]),
        (I8, 127, [-128, 127], [-128, 127]),
    ],
)
def test_the_largest_values_are_exact(
    kind: DType, zero: int | None, data: list[int], filters: list[int], isa: str
) -> None:
    case = Case((12, 9), (3, 3), 114, 16, pads=(1, 1), winograd=4)
    check(case, isa, kind, zero, values=(data, filters))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processor", "instruction"),
    [
        ("x86-64-v2", "pmaddwd"),
        ("haswell", "vpmaddwd"),
        ("alderlake", "vpdpwssd"),
        ("skylake-avx512", "vpmaddwd"),
        ("cascadelake", "vpdpwssd"),
        ("znver5", "vpdpwssd"),
    ],
)
def test_pairs_are_multiplied(processor: str, instruction: str) -> None:
    target = target_of(processor)
    spec = make(WHOLE["tiles"], target, U8, 3, I32, False)[0]
    assert spec.compute_unit() == "int8"
    assembly = emit_assembly(generate(spec, target, "k").text, target)
    sums = instruction == "vpdpwssd"
    assert instruction in assembly and ("vpdpwssd" in assembly) == sums


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"packed": PackedConv(32, winograd=2, kr=2)}, "no such Winograd transform"),
        ({"packed": PackedConv(32, winograd=4)}, "another depth"),
        ({"packed": PackedConv(32, winograd=4, kr=4)}, "another depth"),
        ({"packed": PackedConv(32, winograd=4, kr=2, runs=True)}, "another depth"),
        ({"packed": PackedConv(32, winograd=4, kr=2, column_sums=True)}, "another depth"),
        ({"packed": PackedConv(32, True, winograd=4, kr=2)}, "is not for"),
        ({"weights": Operand(I8, (1,))}, "types do not fit"),
        ({"weights": Operand(I32, (1,))}, "types do not fit"),
        ({"data": Operand(I16, (6144, 1, 768, 64))}, "types do not fit"),
        ({"data": Operand(U8, (6144, 2, 768, 64))}, "is not for"),
        ({"zero_point": Operand(I8, (0,))}, "zero point"),
        ({"compute_dtype": DType.bf16}, "sums otherwise"),
        ({"window": Window((1, 3, 3), (1,) * 3, (1,) * 3, (0, 1, 1))}, "is not for"),
    ],
)
def test_specs_that_do_not_fit_are_refused(change: dict, message: str) -> None:
    target = generic_target("avx512")
    spec = make(WHOLE["tiles"], target, U8, 3, I32, False)[0]
    with pytest.raises(VerificationError, match=message):
        verify_specs([replace(spec, **change)], target)


def test_other_types_and_targets_are_refused() -> None:
    target = generic_target("avx512")
    spec = make(WHOLE["tiles"], target, U8, 3, I32, False)[0]
    neon = replace(spec, packed=replace(spec.packed, nr=16))
    with pytest.raises(VerificationError, match="no unit multiplies pairs"):
        verify_specs([neon], generic_target("neon"))
    floats = make_floats(FLOATS["four"], "avx512")[0]
    for change in (
        {"weights": Operand(DType.f16, (1,))},
        {"packed": replace(floats.packed, kr=2)},
        {"data": replace(floats.data, dtype=DType.f16)},
    ):
        with pytest.raises(VerificationError, match="types do not fit|another depth"):
            verify_specs([replace(floats, **change)], target)
    assert floats.acc is F32
