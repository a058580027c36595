"""Reshapes get constant targets; shapes are read early."""

from __future__ import annotations

import pytest
from irc_compiler.compiler.passes.canonicalize.static_reshape_targets import (
    constant_target,
    materialize_reshape_targets,
)
from irc_compiler.ir.dims import Dim, parse
from support.rewriting import becomes, stays

COMPUTED = """
%0 = Input(f32[N, S, 32])
%1 = ShapeOf.3(%0)
%2 = Const(i64[] = 0)
%3 = Const(i64[2] = 0, 1)
%4 = Gather.8(%1, %3, %2)
%5 = Const(i64[2] = 4, 8)
%6 = Concat.1(%4, %5) {axis=0}
%7 = Reshape.1(%0, %6) "view"
%8 = Result.1(%7)
"""


def test_the_chain_of_exporters_becomes_a_constant() -> None:
    becomes(
        COMPUTED,
        materialize_reshape_targets,
        """
%0 = Input(f32[N, S, 32])
%6 = Const(i64[4] = 0, 0, 4, 8)
%7 = Reshape.1(%0, %6) {special_zero=true} "view"
%8 = Result.1(%7)
""",
    )


def dims(text: str) -> tuple[Dim, ...]:
    return tuple(parse(part) for part in text.split(", "))


@pytest.mark.parametrize(
    ("have", "out", "target"),
    [
        ("N, S, 32", "N, S, 4, 8", [0, 0, 4, 8]),
        ("N, S, 4, 8", "N, S, 32", [0, 0, 32]),
        ("N, S, 32", "N*S, 32", [-1, 32]),
        ("N*S, 32", "N, S, 32", None),
        ("N, S", "S, N", None),
        ("N, 12, S, 8", "12*N, S, 8", None),
        ("N, 12, 8", "12*N, 8", [-1, 8]),
        # With N = 0 the -1 would not be known.
        ("N, S, 8", "N, 2*S, 4", None),
        ("N + 1, S, 8", "N + 1, 2*S, 4", [0, -1, 4]),
        ("N, 0", "N, 0", [0, 0]),
        ("0, N", "N, 0", None),
    ],
)
def test_targets(have: str, out: str, target: list[int] | None) -> None:
    assert constant_target(dims(have), dims(out)) == target


def test_unknown_reshape_targets_stay() -> None:
    data = "%0 = Input(f32[N, 4])\n%1 = Input(i64[2])\n%2 = Reshape.1(%0, %1)\n%3 = Result.1(%2)"
    stays(data, materialize_reshape_targets, "the target is not known")
    unranked = COMPUTED.replace("Reshape.1(%0", "Reshape.1(%9").replace(
        "%1 =", "%9 = Input(f32[...])\n%1 ="
    )
    stays(unranked, materialize_reshape_targets, "the rank of the input is unknown")
    swapped = COMPUTED.replace("= 0, 1)", "= 1, 0)")
    stays(
        swapped,
        materialize_reshape_targets,
        "more than one size can be neither copied nor left out",
    )


def test_the_shape_of_a_result_is_read_from_the_input() -> None:
    becomes(
        """
%0 = Input(f32[N, S, 4])
%1 = Const(f32[4] = 1, 2, 3, 4)
%2 = Add.1(%1, %0)
%3 = Softmax.8(%2) {axis=-1}
%4 = ShapeOf.3(%3)
%5 = Result.1(%4)
%6 = Result.1(%3)
""",
        materialize_reshape_targets,
        """
%0 = Input(f32[N, S, 4])
%4 = ShapeOf.3(%0)
%5 = Result.1(%4)
%1 = Const(f32[4] = 1, 2, 3, 4)
%2 = Add.1(%1, %0)
%3 = Softmax.8(%2) {axis=-1}
%6 = Result.1(%3)
""",
    )


def test_the_shape_of_a_product_is_an_inputs_shape() -> None:
    becomes(
        """
%0 = Input(f32[N, 4])
%1 = Input(i64[N, 4])
%2 = Const(f32[4, 4] = ~1)
%3 = MatMul.1(%0, %2)
%4 = ShapeOf.3(%3)
%5 = ShapeOf.3(%1)
%6 = Result.1(%4)
%7 = Result.1(%5)
%8 = Result.1(%3)
""",
        materialize_reshape_targets,
        """
%0 = Input(f32[N, 4])
%1 = Input(i64[N, 4])
%4 = ShapeOf.3(%0)
%6 = Result.1(%4)
%5 = ShapeOf.3(%0)
%7 = Result.1(%5)
%2 = Const(f32[4, 4] = ~1)
%3 = MatMul.1(%0, %2)
%8 = Result.1(%3)
""",
    )
