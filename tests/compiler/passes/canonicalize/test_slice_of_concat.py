"""Slices and splits that give a concatenation's inputs back."""

from __future__ import annotations

import pytest
from irc_compiler.compiler.passes.canonicalize.slice_of_concat import fold_slice_of_concat
from support.rewriting import becomes, stays

HEAD = """
%0 = Input(f32[N, 2, 4])
%1 = Input(f32[N, S, 4])
%2 = Concat.1(%0, %1) {axis=1}
%3 = Const(i64[1] = 1)
"""
LAST = 2**63 - 1


def sliced(start: str, stop: str, axis: str = "%3", step: int = 1) -> str:
    return (
        HEAD
        + f"""
%4 = {start}
%5 = {stop}
%8 = Const(i64[1] = {step})
%6 = Slice.8(%2, %4, %5, %8, {axis}) names=y
%7 = Result.1(%6)
"""
    )


def number(value: int) -> str:
    return f"Const(i64[1] = {value})"


@pytest.mark.parametrize(
    ("start", "stop", "port"),
    [
        (number(0), number(2), 0),
        (number(2), number(LAST), 1),
        (number(2), number(2**31 - 1), 1),
    ],
)
def test_a_whole_input(start: str, stop: str, port: int) -> None:
    becomes(
        sliced(start, stop),
        fold_slice_of_concat,
        f"""
%0 = Input(f32[N, 2, 4]) {"names=y" if port == 0 else ""}
%1 = Input(f32[N, S, 4]) {"names=y" if port == 1 else ""}
%7 = Result.1(%{port})
""",
    )


def test_bounds_from_the_end_and_symbolic_ones() -> None:
    static = sliced(number(-3), number(LAST)).replace("S,", "3,")
    becomes(
        static,
        fold_slice_of_concat,
        "%0 = Input(f32[N, 2, 4])\n%1 = Input(f32[N, 3, 4]) names=y\n%7 = Result.1(%1)",
    )
    symbolic = sliced("ShapeOf.3(%9)", number(LAST)).replace("[N, 2, 4])", "[N, S, 4])")
    becomes(
        "%9 = Input(f32[S])" + symbolic,
        fold_slice_of_concat,
        """
%9 = Input(f32[S])
%0 = Input(f32[N, S, 4])
%1 = Input(f32[N, S, 4]) names=y
%7 = Result.1(%1)
""",
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (sliced(number(1), number(2)), "the slice is not a whole input of the concatenation"),
        (sliced(number(0), number(1)), "the slice is not a whole input of the concatenation"),
        (
            sliced("Input(i64[1])", number(2)),
            "the slice is not known, or has several axes or steps",
        ),
        (
            sliced(number(0), number(2), step=2),
            "the slice is not known, or has several axes or steps",
        ),
        (
            sliced(number(0), number(2)).replace("axis=1", "axis=2").replace("S,", "2,"),
            "the slice is along another axis",
        ),
    ],
)
def test_slices_that_stay(text: str, reason: str) -> None:
    stays(text, fold_slice_of_concat, reason)


def test_splits() -> None:
    text = """
%0 = Input(f32[2, 3])
%1 = Input(f32[2, 3])
%2 = Concat.1(%0, %1) {axis=-1}
%3 = Const(i64[] = 1)
%4 = Split.1(%2, %3) {num_splits=2} names=a|b
%5 = Result.1(%4)
%6 = Result.1(%4:1)
"""
    after = """
%0 = Input(f32[2, 3]) names=a
%1 = Input(f32[2, 3]) names=b
%5 = Result.1(%0)
%6 = Result.1(%1)
"""
    becomes(text, fold_slice_of_concat, after)
    lengths = "VariadicSplit.1(%2, %3, %7) {num_outputs=2}"
    listed = text.replace("Split.1(%2, %3) {num_splits=2}", lengths)
    becomes(listed.replace("%4 =", "%7 = Const(i64[2] = 3, -1)\n%4 ="), fold_slice_of_concat, after)
    stays(
        listed.replace("%4 =", "%7 = Const(i64[2] = 2, 4)\n%4 ="),
        fold_slice_of_concat,
        "a part is not a whole input of the concatenation",
    )
    wide = text.replace("axis=-1", "axis=0").replace("[2, 3]", "[2, 4]")
    stays(wide, fold_slice_of_concat, "the split is along another axis")
    three = text.replace("num_splits=2", "num_splits=3")
    stays(three, fold_slice_of_concat, "the split has another number of parts")
