"""Embedding tables stay compressed: rows are picked as integers and dequantised then."""

from __future__ import annotations

import irc_compiler as irc
import irc_compiler.ir.ops as o
import numpy as np
import pytest
from irc_compiler.api.compiled_model import compile_with_options
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.passes.quantize.gather_quantized import gather_quantized_table
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.interpret import interpret
from support.rewriting import traced


def table(
    dtype: DType, spread: tuple[int, ...], group: int, *, half: bool, mode: str, tied: bool = False
) -> Graph:
    """Rows of a [400, 96] table by ids [2, n]; tied: a product reads the table as well, whose sums
    are exact in f32 in any order, since its scales are powers of two."""
    rng, graph = np.random.default_rng(5), Graph("test")
    scales = rng.choice([0.0625, 0.125], spread) if tied else rng.uniform(0.01, 0.1, spread)

    def add(op: o.Op, *inputs: Value) -> Value:  # type: ignore[name-defined]
        return Value(graph.add(op, inputs))

    def constant(array: np.ndarray) -> Value:
        return add(o.Constant.of(array, DType.from_numpy(array.dtype)))

    low, high = int(dtype.min), int(dtype.max) + 1
    ids = Value(graph.add(o.Parameter(DType.i64, (2, 3)), name="ids"))
    arrays = [
        rng.integers(low, high, (400, 96)).astype(dtype.numpy),
        scales.astype(np.float16 if half else np.float32),
        rng.integers(low, high, spread).astype(dtype.numpy),
    ]
    value = add(o.Dequantize(1, group), *map(constant, arrays))
    value = add(o.Convert(DType.f32), value) if half else value
    rows = add(o.Gather(out_of_range=mode), value, ids, constant(np.array(0)))
    graph.add(o.Result(), [rows], name="y")
    if tied:
        graph.add(o.Result(), [add(o.MatMul(transpose_b=True), rows, value)], name="logits")
    infer_graph(graph)
    return graph


CASES = {
    "rows": (DType.u8, (400, 1), 0),
    "groups": (DType.u8, (400, 3), 32),
    "halves_of_bytes": (DType.i4, (400, 3), 32),
    "columns": (DType.i8, (1, 96), 0),
}
IDS = np.array([[0, -1, 399], [7, 7, 1]])


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_rows_are_picked_as_they_are_stored(name: str, half: bool) -> None:
    graph = table(*CASES[name], half=half, mode="error")
    expected = interpret(graph, {"ids": IDS})
    found, trace = traced(graph, gather_quantized_table)
    assert trace.hits()["pick_codes"] == 1
    for node in found.ids():
        if found.op(node).kind == "Gather":
            assert isinstance(found.op(found.input(node, 0).node), o.Constant)
    got = _list(interpret(found, {"ids": IDS}))
    assert all(np.array_equal(a, b) for a, b in zip(got, _list(expected), strict=True))


def _list(outputs: object) -> list[np.ndarray]:
    return list(outputs.values()) if isinstance(outputs, dict) else list(outputs)  # type: ignore[call-overload]


def test_beyond_the_end_stay_zeros() -> None:
    graph = table(DType.u8, (400, 1), 0, half=False, mode="zeros")
    found, _ = traced(graph, gather_quantized_table)
    ids = np.array([[0, 400, 5], [1000, 2, 3]])
    (rows,) = _list(interpret(found, {"ids": ids}))
    assert not rows[0, 1].any() and not rows[1, 0].any() and rows[0, 0].any()
    graph = table(DType.i8, (1, 96), 0, half=False, mode="zeros")
    assert traced(graph, gather_quantized_table)[1].hits()["pick_codes"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows", "groups", "halves_of_bytes"])
def test_a_tied_table_is_never_expanded(name: str) -> None:
    graph = table(*CASES[name], half=True, mode="error", tied=True)
    expected = _list(interpret(graph, {"ids": IDS}))
    net = compile_with_options(irc.Model(graph), Options(verify=True), 1)
    assert not net.plan.host_steps()
    most = max(c.dtype.nbytes(int(np.prod(c.shape))) for c in net.plan.constants)
    assert most <= 400 * 96
    got = net(IDS)
    assert np.array_equal(got[0], expected[0])
    assert np.array_equal(got[1], expected[1])
