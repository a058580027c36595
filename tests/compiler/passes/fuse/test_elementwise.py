"""Chains of elementwise operations become groups."""

from __future__ import annotations

import pytest
from irc_compiler.compiler.passes.fuse import elementwise as module
from irc_compiler.compiler.passes.fuse.elementwise import fuse_elementwise
from irc_compiler.ir.ops import Group
from support.rewriting import becomes, graph, run, same_values, stays


def test_a_chain_with_numbers_inside() -> None:
    becomes(
        """
%0 = Input(f32[N, 4]) "x"
%1 = Const(f32[] = 0.5)
%2 = Multiply.1(%0, %1) "first"
%3 = Add.1(%2, %0) "second"
%4 = Tanh.1(%3) "last" names=y
%5 = Result.1(%4) "out"
""",
        fuse_elementwise,
        """
%0 = Input(f32[N, 4]) "x"
%4 = Group.0(%0) {program="PROGRAM"} "last" names=y
%5 = Result.1(%4) "out"
""".replace("PROGRAM", "f32 input 0; f32 const 0.5; f32 mul 0 1; f32 add 2 0; f32 tanh 3; -> 4"),
    )


def test_a_diamond_and_a_broadcast_operand() -> None:
    becomes(
        """
%0 = Input(f32[N, 4])
%1 = Input(f32[4])
%2 = Add.1(%0, %1)
%3 = Exp.1(%2)
%4 = Abs.1(%2)
%5 = Divide.1(%3, %4)
%6 = Result.1(%5)
""",
        fuse_elementwise,
        """
%0 = Input(f32[N, 4])
%1 = Input(f32[4])
%5 = Group.0(%0, %1) {program="PROGRAM"}
%6 = Result.1(%5)
""".replace(
            "PROGRAM",
            "f32 input 0; f32 input 1; f32 add 0 1; f32 abs 2; f32 exp 2; f32 div 4 3; -> 5",
        ),
    )


def test_types_change_inside() -> None:
    becomes(
        """
%0 = Input(f16[N])
%1 = Input(f16[N])
%2 = Less.1(%0, %1)
%3 = Select.1(%2, %0, %1)
%4 = Convert.1(%3) {destination_type=i32}
%5 = Result.1(%4)
""",
        fuse_elementwise,
        """
%0 = Input(f16[N])
%1 = Input(f16[N])
%4 = Group.0(%0, %1) {program="PROGRAM"}
%5 = Result.1(%4)
""".replace(
            "PROGRAM",
            "f16 input 0; f16 input 1; f32 cast 0; f32 cast 1; boolean lt 2 3; "
            "f32 select 4 2 3; f16 cast 5; f32 cast 6; i32 cast 7; -> 8",
        ),
    )


def test_a_single_operation_stays() -> None:
    stays(
        "%0 = Input(f32[N])\n%1 = Exp.1(%0)\n%2 = Result.1(%1)",
        fuse_elementwise,
        None,
    )


STAYING = {
    "another reader": """
%0 = Input(f32[N])
%1 = Exp.1(%0)
%2 = Abs.1(%1)
%3 = Result.1(%2)
%4 = Result.1(%1)
""",
    "another shape": """
%0 = Input(f32[1, 4])
%1 = Input(f32[N, 4])
%2 = Exp.1(%0)
%3 = Add.1(%2, %1)
%4 = Result.1(%3)
""",
    "sizes not known to agree": """
%0 = Input(f32[M])
%1 = Input(f32[N])
%2 = Exp.1(%0)
%3 = Add.1(%2, %1)
%4 = Result.1(%3)
""",
    "slopes on another axis": """
%0 = Input(f32[N, 4, 5])
%1 = Const(f32[4] = 1, 2, 3, 4)
%2 = Exp.1(%0)
%3 = PRelu.1(%2, %1)
%4 = Result.1(%3)
""",
    "a type without kernels": """
%0 = Input(f8e5m2[N])
%1 = Abs.1(%0)
%2 = Negative.1(%1)
%3 = Result.1(%2)
""",
    "an unknown rank": """
%0 = Input(f32[...])
%1 = Abs.1(%0)
%2 = Negative.1(%1)
%3 = Result.1(%2)
""",
}


@pytest.mark.parametrize("case", STAYING)
def test_what_stays(case: str) -> None:
    stays(STAYING[case], fuse_elementwise, None)


def test_a_number_that_gives_the_shape_stays_an_operand() -> None:
    becomes(
        """
%0 = Input(f32[4])
%1 = Const(f32[1, 1] = 2)
%2 = Multiply.1(%0, %1)
%3 = Exp.1(%2)
%4 = Result.1(%3)
""",
        fuse_elementwise,
        """
%0 = Input(f32[4])
%1 = Const(f32[1, 1] = 2)
%3 = Group.0(%0, %1) {program="f32 input 0; f32 input 1; f32 mul 0 1; f32 exp 2; -> 3"}
%4 = Result.1(%3)
""",
    )


def test_existing_groups_grow() -> None:
    becomes(
        """
%0 = Input(f32[N])
%1 = Group.0(%0) {program="f32 input 0; f32 exp 0; -> 1"}
%2 = Group.0(%1, %0) {program="f32 input 0; f32 input 1; f32 sub 1 0; -> 2"}
%3 = Result.1(%2)
""",
        fuse_elementwise,
        """
%0 = Input(f32[N])
%2 = Group.0(%0) {program="f32 input 0; f32 exp 0; f32 sub 0 1; -> 2"}
%3 = Result.1(%2)
""",
    )


def groups(text: str) -> list[Group]:
    source = graph(text)
    found = run(text, fuse_elementwise)
    same_values(source, found)
    return [op for n in found.order() if isinstance(op := found.op(n), Group)]


def test_a_long_chain_is_cut() -> None:
    count = 192
    lines = "".join(f"%{i + 1} = Tanh.1(%{i})\n" for i in range(count))
    made = groups(f"%0 = Input(f32[N])\n{lines}%{count + 1} = Result.1(%{count})")
    sizes = [sum(i.op == "tanh" for i in g.program.instrs) for g in made]
    assert sizes == [64, 64, 64]


def test_a_wide_tree_is_cut() -> None:
    count = 3 * module.MAX_OPERANDS
    text = "".join(f"%{i} = Input(f32[N])\n" for i in range(count))
    previous = 0
    for i in range(1, count):
        text += f"%{count + i} = Add.1(%{previous}, %{i})\n"
        previous = count + i
    made = groups(f"{text}%{previous + 1} = Result.1(%{previous})")
    operands = [sum(i.op == "input" for i in g.program.instrs) for g in made]
    assert len(made) >= 3 and max(operands) <= module.MAX_OPERANDS
