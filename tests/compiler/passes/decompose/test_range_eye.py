"""Which ranges of floats are ranges of integers."""

from __future__ import annotations

import pytest
from irc_compiler.compiler.passes.decompose.range_eye import decompose_range_eye
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.ops import Range
from support.rewriting import graph, run, stays

RANGE = """
%0 = Input(f32[N])
%6 = ShapeOf.3(%0)
%1 = Convert.1(%6) {{destination_type=f32}}
%2 = Const(f32[] = {start})
%3 = Const(f32[] = {step})
%4 = Range.4(%2, %1, %3) {{output_type={dtype}}}
%5 = Result.1(%4)
"""


@pytest.mark.parametrize(
    ("start", "step", "dtype"),
    [
        ("0.25", "1", "f32"),
        ("6.5", "-1", "f32"),
        ("0.5", "0.5", "f32"),
        ("0.5", "1", "f16"),
        ("16777216", "1", "f32"),
    ],
)
def test_other_ranges_stay(start: str, step: str, dtype: str) -> None:
    text = RANGE.format(start=start, step=step, dtype=dtype)
    stays(text, decompose_range_eye, "an end is not a whole size")


@pytest.mark.parametrize("start", ["0", "-3.5"])
def test_ranges_to_sizes_are_of_integers(start: str) -> None:
    found = run(graph(RANGE.format(start=start, step="2", dtype="f32")), decompose_range_eye)
    made = [op for n in found.order() if isinstance(op := found.op(n), Range)]
    assert [op.output_type for op in made] == [DType.i64]
