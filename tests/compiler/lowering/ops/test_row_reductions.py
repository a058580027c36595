"""Reductions of whole tensors: in the order of memory, and shared by workers where that changes no
bit."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import parse_graph, print_graph
from irc_compiler.plan.specs.rows import ReduceSpec
from irc_compiler.plan.verify.values import RegionLayoutTables
from irc_compiler.plan.verify.written_coverage import Coverage


def reduction(
    kind: str, shape: str = "[1, 40, 40, 96]", dtype: str = "f32", order: str = "0, 3, 1, 2"
) -> Graph:
    """Of all axes of an image whose channels are neighbours in memory, and a number behind it."""
    return parse_graph(f"""graph "g"
%0 = Parameter.1() {{element_type={dtype}, shape={shape}}} "x"
%1 = Constant.1() {{data=[{order}], dtype=i64, shape=[4]}}
%2 = Transpose.1(%0, %1)
%3 = Constant.1() {{data=[0, 1, 2, 3], dtype=i64, shape=[4]}}
%4 = {kind}(%2, %3) {{keep_dims=false}}
%5 = Result.1(%4) "y"
""")


def specs_of(net: irc.CompiledModel) -> list[ReduceSpec]:
    steps = [step for region in net.plan.regions for step in region.steps]
    return [s.spec for s in steps if isinstance(getattr(s, "spec", None), ReduceSpec)]


@pytest.mark.parametrize(
    ("kind", "dtype", "count"),
    [
        ("ReduceMax.1", "f32", 2),
        ("ReduceMin.1", "f16", 2),
        ("ReduceMax.1", "i32", 2),
        ("ReduceMin.1", "u8", 2),
        ("ReduceLogicalOr.1", "boolean", 2),
        ("ReduceLogicalAnd.1", "boolean", 2),
        ("ReduceSum.1", "f32", 1),
        ("ReduceMean.1", "f32", 1),
        ("ReduceProd.1", "i64", 1),
    ],
)
def test_all_axes(kind: str, dtype: str, count: int, compile_graph: Any) -> None:
    graph, found = reduction(kind, dtype=dtype), []
    rng = np.random.default_rng(0)
    for x in (rng.uniform(-99, 99, (1, 40, 40, 96)), np.ones((1, 40, 40, 96))):
        for threads in (1, 2):
            net = compile_graph(graph.copy(), True, threads)
            specs = specs_of(net)
            assert not net.plan.host_steps() and len(specs) == count
            assert all(o.strides[-1] == 1 for s in specs for o in s.inputs)
            values = x.astype(bool if dtype == "boolean" else DType[dtype].numpy)
            (got,), (want,) = net([values]), interpret(graph, [values])
            assert got.dtype == want.dtype and got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=2e-5 if count == 1 else 0)
            found.append(got.tobytes())
    assert found[0] == found[1] and found[2] == found[3]


@pytest.mark.parametrize("at", [0, 70001, 153599])
def test_nan_is_the_largest_wherever_it_is(at: int, compile_graph: Any) -> None:
    x = np.zeros((1, 40, 40, 96), np.float32)
    x.reshape(-1)[at] = np.nan
    for threads in (1, 2):
        (got,) = compile_graph(reduction("ReduceMax.1"), True, threads)([x])
        assert np.isnan(got)


@pytest.mark.parametrize(
    ("shape", "sizes", "count"),
    [
        ('["N", 40, 40, 96]', (2, 40, 40, 96), 1),
        ("[1, 37, 41, 97]", (1, 37, 41, 97), 1),
        ("[1, 8, 8, 16]", (1, 8, 8, 16), 1),
        ("[4, 50, 3, 96]", (4, 50, 3, 96), 2),
    ],
)
def test_sizes_that_are_cut_in_equal_pieces(
    shape: str, sizes: tuple[int, ...], count: int, compile_graph: Any
) -> None:
    graph = reduction("ReduceMax.1", shape)
    net = compile_graph(graph.copy(), True, 2)
    assert len(specs_of(net)) == count
    x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    np.testing.assert_array_equal(net([x])[0], x.max())


def test_what_is_behind_is_applied_once(compile_graph: Any) -> None:
    graph = reduction("ReduceMax.1")
    text = print_graph(graph).replace("Result.1(%4)", "Result.1(%6)")
    text = text.replace(
        "%5 =", "%7 = Constant.1() {data=[3.0], dtype=f32, shape=[]}\n%6 = Subtract.1(%4, %7)\n%5 ="
    )
    x = np.random.default_rng(0).standard_normal((1, 40, 40, 96)).astype(np.float32)
    net = compile_graph(parse_graph(text), True, 2)
    assert len(net.plan.regions[0].steps) == 2
    np.testing.assert_array_equal(net([x])[0], x.max() - np.float32(3))


def test_no_step_reads_unwritten_memory() -> None:
    plan = irc.compile_model(irc.Model(reduction("ReduceMax.1"))).plan
    tables = RegionLayoutTables(plan.regions[0], plan.constants)
    assert not Coverage(tables).unwritten(tables.sizes({}))
