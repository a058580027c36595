"""Products on tiles of AMX over all that their code depends on: every pair of choices meets.

Small integers bit for bit, outputs filled with NaN (or 0xA5) before, operands against protected
pages, on one to four workers, as test_gemm_cover.py has it for vectors. On the machine's own tiles
only: what catches or emulates them takes its time in test_gemm_amx.py.
"""

from __future__ import annotations

import functools
import itertools

import pytest
from harness import AMX, HAS_AMX, TILED, target_of
from irc.ir.dtype import DType
from irc.runtime.kernels.gemm.tiling import choose
from products import Case, check, make
from test_gemm_cover import (
    AXES,
    FACTORS,
    Choice,
    check_everything,
    check_product,
    pairwise,
    size,
)

ISA = "avx512" + AMX
BF16, U8, I8 = DType.bf16, DType.u8, DType.i8
pytestmark = pytest.mark.skipif(
    not (HAS_AMX and TILED), reason="not run: this machine has no tiles of AMX"
)
# One tile of rows, two of columns, a step of K: 32 bf16 or 64 bytes.
SIDE, WIDTH = 16, 32
FLOATS = {"f32": (DType.f32, BF16), "bf16": (BF16, BF16)}
BYTES = {"u8 x i8": (U8, I8), "i8 x u8": (I8, U8), "u8 x u8": (U8, U8), "i8 x i8": (I8, I8)}
ZEROS = ["", "one", "each"]
SHARED = {n: AXES[n] for n in ("m", "k", "n", "a", "b", "out", "dynamic", "workers", "at")}
OF_FLOATS = {"type": list(FLOATS), **SHARED, "alpha": AXES["alpha"], "beta": AXES["beta"]}
OF_BYTES = {
    "type": list(BYTES), **SHARED,
    "a_zero": ZEROS, "b_zero": ZEROS, "epilogue": ["none", "residual"],
}  # fmt: skip
COVER = functools.cache(lambda which: pairwise(7, OF_FLOATS if which == "floats" else OF_BYTES))


def bytes_case(choice: Choice) -> Case:
    dtype, right = BYTES[str(choice["type"])]
    m, k, n = (size(choice[x], at) for x, at in zip("mkn", (SIDE, 64, WIDTH), strict=True))
    names = ("a", "b", "out", "dynamic", "a_zero", "b_zero", "epilogue")
    return Case(m, k, n, dtype=dtype, b_dtype=right, **{x: str(choice[x]) for x in names})


@pytest.mark.parametrize("part", range(4))
def test_every_pair_of_choices_of_floats(part: int) -> None:
    for choice in COVER("floats")[part::4]:
        check_product(ISA, choice, *FLOATS[str(choice["type"])], (SIDE, WIDTH, WIDTH))


@pytest.mark.parametrize("part", range(4))
def test_every_pair_of_choices_of_bytes(part: int) -> None:
    for choice in COVER("bytes")[part::4]:
        check(bytes_case(choice), ISA, int(str(choice["workers"])), str(choice["at"]))


@pytest.mark.parametrize("type_", [*FLOATS, *BYTES])
def test_every_combination(type_: str, request: pytest.FixtureRequest) -> None:
    """As for vectors; of bytes zero points and a residual sum stand for alpha and beta."""

    def check_one(choice: Choice) -> None:
        if type_ in FLOATS:
            check_product(ISA, choice, *FLOATS[type_], (SIDE, WIDTH, WIDTH))
            return
        zeros = (ZEROS[FACTORS.index(choice[x]) % 3] for x in ("alpha", "beta"))
        more = dict(zip(("a_zero", "b_zero"), zeros, strict=True))
        epilogue = "residual" if choice["beta"] else "none"
        case = bytes_case(choice | more | {"type": type_, "epilogue": epilogue})
        check(case, ISA, int(str(choice["workers"])), str(choice["at"]))

    check_everything(request, f"tiles, {type_}", check_one)


def test_they_go_through_tiles_and_every_pair_is_among_them() -> None:
    for which, axes in (("floats", OF_FLOATS), ("bytes", OF_BYTES)):
        found = {
            ((p, str(row[p])), (q, str(row[q])))
            for row in COVER(which)
            for p, q in itertools.combinations(axes, 2)
        }
        wanted = {
            ((p, str(x)), (q, str(y)))
            for p, q in itertools.combinations(axes, 2)
            for x, y in itertools.product(axes[p], axes[q])
        }
        assert found == wanted and len(COVER(which)) < 80
    for choice in COVER("bytes"):
        case = bytes_case(choice)
        if case.n != 1:
            assert choose(make(case, ISA)[0], target_of(ISA)).tile == "llvm.x86.tdpbusd"
