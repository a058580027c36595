"""Quotients that are rounded down as OpenVINO's converter of TensorFlow writes them."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compiler.passes.canonicalize.floor_division import raise_floor_division
from irc_compiler.ir.interpret import interpret
from support.rewriting import graph, run, stays

FLOOR = """
%0 = Input(i32[N])
%1 = Const(i32[] = 16)
%2 = Divide.1(%0, %1) {m_pythondiv=false}
%3 = Mod.1(%0, %1)
%4 = Const(i32[] = 0)
%5 = NotEqual.1(%3, %4)
%6 = Less.1(%0, %4)
%7 = Const(boolean[] = false)
%8 = LogicalXor.1(%6, %7)
%9 = LogicalAnd.1(%5, %8)
%10 = Const(i32[] = -1)
%11 = Select.1(%9, %10, %4)
%12 = Add.1(%2, %11)
%13 = Result.1(%12)
"""


@pytest.mark.parametrize("divisor", ["16", "1", "7"])
def test_it_is_one_division(divisor: str) -> None:
    source = graph(FLOOR.replace("= 16)", f"= {divisor})"))
    found = run(source, raise_floor_division)
    assert [found.op(n).kind for n in found.order()] == [
        "Parameter",
        "Constant",
        "Divide",
        "Result",
    ]
    x = np.arange(-40, 40, dtype=np.int32)
    for made in (source, found):
        np.testing.assert_array_equal(interpret(made, [x])[0], x // int(divisor))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("= 16)", "= -16)"),
        ("Const(i32[] = -1)", "Const(i32[] = 1)"),
        ("Const(boolean[] = false)", "Const(boolean[] = true)"),
        ("NotEqual.1(%3, %4)", "Equal.1(%3, %4)"),
        ("Mod.1(%0, %1)", "Mod.1(%1, %0)"),
        ("Less.1(%0, %4)", "Less.1(%0, %1)"),
        ("LogicalXor.1", "LogicalOr.1"),
    ],
)
def test_other_choices_stay(old: str, new: str) -> None:
    assert old in FLOOR
    stays(FLOOR.replace(old, new, 1), raise_floor_division, "a quotient less something else")


def test_a_division_that_rounds_down_stays() -> None:
    stays(FLOOR.replace("m_pythondiv=false", "m_pythondiv=true"), raise_floor_division, None)


def test_frames_of_a_sound_of_unknown_length_are_native() -> None:
    """How many there are is a quotient of the length."""
    lines = FLOOR.replace("Input(i32[N])", "Add.1(%20, %21)").replace("%13 = Result.1(%12)\n", "")
    net = irc.compile_model(irc.Model(graph(f"""
%30 = Input(f32[N])
%31 = ShapeOf.3(%30) {{output_type=i32}}
%32 = Const(i64[1] = 0)
%20 = Squeeze.1(%31, %32)
%21 = Const(i32[] = -64)
{lines}
%22 = Const(i32[] = 1)
%23 = Add.1(%12, %22)
%24 = Maximum.1(%23, %4)
%25 = Range.4(%4, %24, %22) {{output_type=i32}}
%26 = Result.1(%25)
""")))  # fmt: skip
    assert not net.plan.host_steps()
    for size, count in ((64, 1), (200, 9), (3, 0)):
        (found,) = net([np.zeros(size, np.float32)])
        np.testing.assert_array_equal(found, np.arange(count))
