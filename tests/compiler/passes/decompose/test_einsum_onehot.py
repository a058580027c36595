"""Einsum and OneHot become products and comparisons with the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.compiler.passes.decompose.einsum_onehot import decompose_einsum_onehot
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from support.rewriting import graph, run

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 6, "h": 2, "n": 3, "i": 7, "j": 3, "k": 4}
EQUATIONS = (
    *("bij,bjk->bik", "bihd,bjhd->bhij", "bhij,bjhd->bihd", "ibnd,jbnd->bnij", "bnij,jbnd->ibnd"),
    *("ibh,hnd->ibnd", "ibnd,hnd->ibh", "bihd,jhd->bhij", "bid,cdhk->bich", "i,j->ij", "ai,ai->"),
    *("i,i->i", "ij->ji", "abc->b", "ab,bc,cd->ad", "...ij,...jk->...ik", "a...i,ji->a...j"),
    *("abi,cdi->abcd", "abij,ijk->abk", "abij,cij->abc", "abij,cdij->acbd", "bi,bij,bj->b"),
    *("ia,jb->j", "ab,cde->cadbe", "bi,bi->b", "hd,bhd->bh"),
)
# What only one operand lacks names for has known sizes in weights.
SYMBOLIC = ("a", "b", "i", "j")


def made(equation: str, symbolic: bool) -> tuple[Graph, list[np.ndarray]]:
    rng = np.random.default_rng(0)
    lines: list[str] = []
    arrays: list[np.ndarray] = []
    terms = equation.partition("->")[0].split(",")
    for n, term in enumerate(terms):
        letters = term.replace("...", "be")
        dims = [c.upper() if symbolic and c in SYMBOLIC else str(SIZES[c]) for c in letters]
        lines.append(f"%{n} = Input(f32[{', '.join(dims)}])")
        shape = [SIZES[c] for c in letters]
        arrays.append(rng.integers(-3, 4, shape).astype(np.float32))
    count = len(terms)
    given = ", ".join(f"%{n}" for n in range(count))
    lines.append(f'%{count} = Einsum.7({given}) {{equation="{equation}"}}')
    lines.append(f"%{count + 1} = Result.1(%{count})")
    return graph("\n" + "\n".join(lines) + "\n"), arrays


@pytest.mark.parametrize("symbolic", [False, True], ids=["fixed", "symbolic"])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_products_over_letters(equation: str, symbolic: bool) -> None:
    before, arrays = made(equation, symbolic)
    (want,) = interpret(before, arrays)
    after = run(before, decompose_einsum_onehot)
    several = symbolic and equation in ("ai,ai->", "abij,ijk->abk")
    several = several or (symbolic and equation in ("abij,cij->abc", "abij,cdij->acbd"))
    assert any(after.op(n).kind == "Einsum" for n in after.ids()) is several
    (found,) = interpret(after, arrays)
    np.testing.assert_array_equal(found, want)


def test_what_stays() -> None:
    for equation in ("ii->i", "iij,j->i"):
        before, _ = made(equation, False)
        after = run(before, decompose_einsum_onehot)
        assert any(after.op(n).kind == "Einsum" for n in after.ids())


@pytest.mark.parametrize("mode", ["ignore_negative", "normalize"])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(mode: str, axis: int) -> None:
    before = graph(f"""
%0 = Input(i32[N, 3])
%1 = Const(i64[] = 4)
%2 = Const(f32[] = 2)
%3 = Const(f32[] = -1)
%4 = OneHot.16(%0, %1, %2, %3) {{axis={axis}, negative_indices_mode="{mode}"}}
%5 = Result.1(%4)
""")
    index = np.array([[0, 3, 4], [-1, -4, 9]], np.int32)
    (want,) = interpret(before, [index])
    after = run(before, decompose_einsum_onehot)
    assert all(after.op(n).kind != "OneHot" for n in after.ids())
    (found,) = interpret(after, [index])
    np.testing.assert_array_equal(found, want)
