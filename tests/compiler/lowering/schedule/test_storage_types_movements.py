"""Values that are moved between products and attention: bf16 in memory where these round them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.plan.specs.attention import AttentionSpec
from irc_compiler.plan.specs.convolution import ConvSpec
from irc_compiler.plan.specs.elementwise import ElementwiseSpec
from irc_compiler.plan.specs.gemm import GemmSpec

SCHEDULER = importlib.import_module("irc_compiler.compiler.lowering.schedule.scheduler")
RNG = np.random.default_rng(7)


def ints(name: int, *numbers: int) -> str:
    return f"%{name} = Constant.1() {{data={list(numbers)}, dtype=i64, shape=[{len(numbers)}]}}\n"


def resize(mode: str) -> str:
    how = f'mode="{mode}", shape_calculation_mode="sizes"'
    return ints(4, 13, 18) + ints(5, 2, 3) + f"%9 = Interpolate.11(%3, %4, %5) {{{how}}}\n"


def pad(mode: str, *filling: float) -> str:
    extra = f"%6 = Constant.1() {{data={list(filling)}, dtype=f32, shape=[]}}\n" if filling else ""
    return (
        ints(4, 0, 0, 1, 2)
        + ints(5, 0, 0, 2, 0)
        + extra
        + f'%9 = Pad.12(%3, %4, %5{", %6" * len(filling)}) {{pad_mode="{mode}"}}\n'
    )


ONE = "%4 = Constant.1() {data=[1], dtype=i64, shape=[]}\n"
SPLIT = ONE + "%5 = Split.1(%3, %4) {num_splits=2}\n%9 = Concat.1(%5:1, %5) {axis=1}\n"
BLOCKS = '{block_size=2, mode="depth_first"}'
# What is between two convolutions: nodes that make %9 of %3, and the channels of %9.
MOVES = {
    "concat": ("%9 = Concat.1(%3, %3) {axis=1}\n", 48),
    "split": (SPLIT, 24),
    "slice": (
        ints(4, 1) + ints(5, 7) + ints(6, 2) + ints(7, 3) + "%9 = Slice.8(%3, %4, %5, %6, %7)\n",
        24,
    ),
    "transpose": (ints(4, 0, 1, 3, 2) + "%9 = Transpose.1(%3, %4)\n", 24),
    "reshape": (ints(4, 2, 24, 4, 16) + "%9 = Reshape.1(%3, %4)\n", 24),
    "tile": (ints(4, 1, 1, 2, 1) + "%9 = Tile.1(%3, %4)\n", 24),
    "blocks": (f"%9 = DepthToSpace.1(%3) {BLOCKS}\n", 6),
    "nearest": (resize("nearest"), 24),
    "padded": (pad("constant", 1.2345678), 24),
    "reflected": (pad("reflect"), 24),
}
# What computes values, and stores them rounded.
MADE = {
    "linear": (resize("linear"), 24),
    "cubic": (resize("cubic"), 24),
    "average": ("%9 = AvgPool.1(%3) {kernel=[2, 2], strides=[2, 2], exclude_pad=true}\n", 24),
    "sevenths": (ints(4, 7, 5) + "%9 = AdaptiveAvgPool.8(%3, %4)\n", 24),
}


def between(middle: str, channels: int, tail: str = "") -> Graph:
    return parse_graph(f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=[2, 24, 8, 8]}} "x"
%1 = Constant.1() {{data=~1, dtype=f32, shape=[24, 24, 1, 1]}}
%2 = Constant.1() {{data=~2, dtype=f32, shape=[16, {channels}, 3, 3]}}
%3 = Convolution.1(%0, %1)
{middle}%10 = Convolution.1(%9, %2) {{strides=[2, 2]}}
%11 = Result.1(%10) "y"
{tail}""")


def factors(net: irc.CompiledModel) -> list[DType]:
    """The types of what steps read behind the first convolution, up to the second one's data."""
    specs = [s.spec for s in net.plan.kernel_steps()]
    first, second = (n for n, s in enumerate(specs) if s.family in ("conv", "gemm"))
    return [s.operands()[0].dtype for s in specs[first + 1 : second + 1]]


@pytest.mark.parametrize("name", [*MOVES, *MADE])
def test_movements_between_convolutions_change_no_bit(
    compile_graph: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """They move what is rounded, or round what they compute, infinities and denormals as well."""
    graph = between(*(MOVES | MADE)[name])
    x = np.random.default_rng(1).standard_normal((2, 24, 8, 8)).astype(np.float32)
    x[0, :, 2, 2], x[0, 3, 6, 6], x[1, :, 5] = np.inf, np.nan, 1e-39
    net = compile_graph(graph, True, 1, "bf16")
    read = factors(net)
    assert (
        read == [DType.f32] * (len(read) - 1) + [DType.bf16]
        if name in MADE
        else {*read} == {DType.bf16}
    )
    found = np.array(net([x])[0])
    monkeypatch.setattr(SCHEDULER, "rounded_values", lambda *_: frozenset())
    wide = compile_graph(graph, True, 1, "bf16")
    assert set(factors(wide)) == {DType.f32}
    np.testing.assert_array_equal(wide([x])[0], found)


@pytest.mark.parametrize("name", MOVES)
def test_movements_round_what_others_read_as_it_was(
    compile_graph: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    graph = between(*MOVES[name], '%12 = Tanh.1(%3)\n%13 = Result.1(%12) "z"\n')
    x = np.random.default_rng(1).standard_normal((2, 24, 8, 8)).astype(np.float32)
    net = compile_graph(graph, True, 1, "bf16")
    found = [np.array(y) for y in net([x])]
    for spec in (s.spec for s in net.plan.kernel_steps() if isinstance(s.spec, ElementwiseSpec)):
        if (spec.inputs[0].dtype, spec.outs[0].dtype) == (DType.f32, DType.bf16):
            assert [i.op for i in spec.program.instrs] == ["input", "flush", "cast"]
    monkeypatch.setattr(SCHEDULER, "rounded_values", lambda *_: frozenset())
    for mine, wide in zip(found, compile_graph(graph, True, 1, "bf16")([x]), strict=True):
        np.testing.assert_array_equal(mine, wide)


def test_parts_of_a_value_stay_f32_where_one_is_read_as_f32(
    compile_graph: Callable[..., Any],
) -> None:
    middle = ONE + "%9 = Split.1(%3, %4) {num_splits=2}\n"
    graph = between(middle, 12, '%12 = Result.1(%9:1) "z"\n')
    net = compile_graph(graph, True, 1, "bf16")
    assert factors(net)[0] is DType.f32


PICKED = "Gather.8(%3, %7, %8)"


@pytest.mark.parametrize("other", ["Softmax.8(%3) {axis=1}", PICKED])
def test_a_concatenation_of_bf16_takes_f32_from_what_cannot_store_bf16(
    compile_graph: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    listed = ints(7, *reversed(range(24))) + ints(8, 1)
    middle = listed + f"%5 = {other}\n%6 = Relu.1(%3)\n%9 = Concat.1(%6, %5) {{axis=1}}\n"
    graph = between(middle, 48)
    x = np.random.default_rng(1).standard_normal((2, 24, 8, 8)).astype(np.float32)
    net = compile_graph(graph, True, 1, "bf16")
    assert factors(net)[-1] is DType.bf16
    found = np.array(net([x])[0])
    monkeypatch.setattr(SCHEDULER, "rounded_values", lambda *_: frozenset())
    np.testing.assert_array_equal(compile_graph(graph, True, 1, "bf16")([x])[0], found)


def attend(rows: int | str) -> Graph:
    """Three heads of 16 values, between products."""
    size = f'"{rows}"' if isinstance(rows, str) else rows
    heads = "".join(
        f"""%{n} = MatMul.1(%0, %{n - 10})
%{n + 10} = Reshape.1(%{n}, %1) {{special_zero=true}}
%{n + 20} = Transpose.1(%{n + 10}, %2)
"""
        for n in (20, 21, 22)
    )
    weights = "".join(
        f"%{n} = Constant.1() {{data=~{n}, dtype=f32, shape=[48, 48]}}\n" for n in range(10, 14)
    )
    return parse_graph(f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=[{size}, 48]}} "x"
{ints(1, 0, 3, 16)}{ints(2, 1, 0, 2)}{ints(3, 0, 48)}{weights}{heads}
%50 = ScaledDotProductAttention.13(%40, %41, %42)
%51 = Transpose.1(%50, %2)
%52 = Reshape.1(%51, %3) {{special_zero=true}}
%53 = MatMul.1(%52, %13)
%54 = Result.1(%53) "y"
""")


@pytest.mark.parametrize("rows", [9, 40, 8, "N"])
def test_attention_reads_and_stores_bf16_between_products(
    compile_graph: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, rows: int | str
) -> None:
    """But few queries are not rounded."""
    x = RNG.standard_normal((rows if isinstance(rows, int) else 23, 48)).astype(np.float32)
    x[3] *= 1e-20
    net = compile_graph(attend(rows), True, 1, "bf16")
    (spec,) = (s.spec for s in net.plan.kernel_steps() if isinstance(s.spec, AttentionSpec))
    read = DType.f32 if rows == 8 else DType.bf16
    assert [o.dtype for o in spec.operands()] == [read, read, read, DType.bf16]
    found = np.array(net([x])[0])
    monkeypatch.setattr(SCHEDULER, "rounded_values", lambda *_: frozenset())
    np.testing.assert_array_equal(compile_graph(attend(rows), True, 1, "bf16")([x])[0], found)


@pytest.mark.parametrize("terms", [7, 8])
def test_products_of_few_terms_read_f32_and_do_not_round(
    compile_graph: Callable[..., Any], terms: int
) -> None:
    """Coordinates of pixels times a matrix would be wrong by whole pixels."""
    graph = parse_graph(f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=[40, 48]}} "x"
%1 = Constant.1() {{data=~1, dtype=f32, shape=[48, {terms}]}}
%2 = Constant.1() {{data=~2, dtype=f32, shape=[{terms}, 24]}}
%3 = MatMul.1(%0, %1)
%4 = MatMul.1(%3, %2)
%5 = Result.1(%4) "y"
""")
    net = compile_graph(graph, True, 1, "bf16")
    wanted = (DType.f32, None) if terms == 7 else (DType.bf16, DType.bf16)
    (spec,) = (s for s in net.plan.specs() if isinstance(s, GemmSpec) and s.k == terms)
    assert (spec.a.dtype, spec.compute_dtype) == wanted
    turned = parse_graph(f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=[{terms}, 40]}} "x"
%1 = Constant.1() {{data=~1, dtype=f32, shape=[{terms}, 24]}}
%2 = MatMul.1(%0, %1) {{transpose_a=true}}
%3 = Result.1(%2) "y"
""")
    (spec,) = compile_graph(turned, True, 1, "bf16").plan.specs()
    assert spec.compute_dtype is wanted[1]


@pytest.mark.parametrize(
    "kind, filters, rounds",
    [
        ("Convolution", [24, 7, 1, 1], False),
        ("Convolution", [24, 8, 1, 1], True),
        ("Convolution", [24, 2, 2, 2], True),
        ("ConvolutionBackpropData", [7, 24, 1, 1], True),
    ],
)
def test_convolutions_of_few_terms_do_not_round(
    compile_graph: Callable[..., Any], kind: str, filters: list[int], rounds: bool
) -> None:
    channels = filters[0] if kind.endswith("Data") else filters[1]
    graph = parse_graph(f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=[1, {channels}, 9, 9]}} "x"
%1 = Constant.1() {{data=~1, dtype=f32, shape={filters}}}
%2 = {kind}.1(%0, %1)
%3 = Result.1(%2) "y"
""")
    specs = compile_graph(graph, True, 1, "bf16").plan.specs()
    (spec,) = (s for s in specs if isinstance(s, GemmSpec | ConvSpec))
    assert spec.compute_dtype is (DType.bf16 if rounds else None)
