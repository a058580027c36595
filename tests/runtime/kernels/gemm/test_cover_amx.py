"""Products on tiles of AMX over all that their code depends on: every pair of choices meets.

Small integers bit for bit, outputs filled with NaN (or 0xA5) before, operands against protected
pages, on one to four workers, as test_gemm_cover.py has it for vectors. On the machine's own tiles
only: what catches or emulates them takes its time in test_gemm_amx.py.
"""

from __future__ import annotations

import functools

import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.runtime.kernels.gemm.schedule import AmxSchedule
from irc_compiler.runtime.kernels.gemm.tiling import choose_schedule
from support.kernels.harness import AMX, HAS_AMX, TILED, target_of
from support.kernels.products import make

from tests.runtime.kernels.gemm.test_cover import (
    AXES,
    BYTES,
    OF_BYTES,
    Choice,
    bytes_case,
    check_bytes,
    check_everything,
    check_product,
    meeting,
    pairwise,
)

ISA = "avx512" + AMX
BF16 = DType.bf16
pytestmark = pytest.mark.skipif(
    not (HAS_AMX and TILED), reason="not run: this machine has no tiles of AMX"
)
# One tile of rows, two of columns, a step of K: 32 bf16 or 64 bytes.
SIDE, WIDTH = 16, 32
OF_FOUR = (SIDE, 64, WIDTH)
F32 = DType.f32
FLOATS = {"f32": (DType.f32, BF16), "bf16": (BF16, BF16)}
OF_FLOATS = AXES | {"type": list(FLOATS)}
# Of f32 in three bf16 numbers: packed weights, so N and K are known.
OF_TERMS = AXES | {"type": ["f32"], "b": ["packed"], "dynamic": ["", "m"]}
OF_TERMS |= {"n": [s for s in AXES["n"] if s not in ("0", "1")]}
COVER = functools.cache(lambda which: pairwise(7, OF_FLOATS if which == "floats" else OF_BYTES))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_amx_gemm_of_every_pair_of_choices(part: int) -> None:
    for choice in COVER("floats")[part::4]:
        check_product(ISA, choice, *FLOATS[str(choice["type"])], (SIDE, WIDTH, WIDTH))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_amx_int8_gemm_of_every_pair_of_choices(part: int) -> None:
    for choice in COVER("bytes")[part::4]:
        check_bytes(ISA, choice, OF_FOUR)


@pytest.mark.slow
def test_f32_products_on_tiles_of_every_pair_of_choices() -> None:
    for choice in pairwise(7, OF_TERMS):
        for sizes in ((SIDE, WIDTH, WIDTH), (2 * SIDE, 2 * WIDTH, WIDTH)):
            check_product(ISA, choice, F32, None, sizes, bf16x3=True)


@pytest.mark.parametrize("type_", [*FLOATS, *BYTES])
def test_amx_gemm_of_every_combination(type_: str, request: pytest.FixtureRequest) -> None:
    def check_one(choice: Choice) -> None:
        if type_ in FLOATS:
            check_product(ISA, choice, *FLOATS[type_], (SIDE, WIDTH, WIDTH))
        else:
            check_bytes(ISA, choice | {"type": type_}, OF_FOUR)

    check_everything(request, f"tiles, {type_}", check_one)


def test_amx_cover_uses_tiles_and_holds_every_pair() -> None:
    for which, axes in (("floats", OF_FLOATS), ("bytes", OF_BYTES)):
        assert meeting(COVER(which), axes) and len(COVER(which)) < 80
    for choice in COVER("bytes"):
        case = bytes_case(choice, OF_FOUR)
        if case.n != 1:
            schedule = choose_schedule(make(case, ISA)[0], target_of(ISA))
            assert isinstance(schedule, AmxSchedule)
            assert schedule.instruction == "llvm.x86.tdpbusd"
