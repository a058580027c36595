"""ONNX's own backend tests of single nodes, and how one is run through the reference evaluation."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import onnx
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.ir.dims import eq
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.types import TensorType
from onnx import numpy_helper


@functools.cache
def node_cases() -> tuple[Any, ...]:
    """All node cases of the installed onnx package."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(load_model_tests(kind="node"))


def operators(case: Any) -> str:
    """The operator of a case of one node; "expanded" where ONNX wrote it as a function's body."""
    kinds = {node.op_type for node in case.model.graph.node}
    if case.name.endswith("_expanded") or "_expanded_ver" in case.name:
        return "expanded"
    return kinds.pop() if len(kinds) == 1 else "several"


def run_case(case: Any) -> None:
    """Import and evaluate a case. Raises AssertionError where type, shape or values differ."""
    graph = read_onnx(case.model)
    for inputs, outputs in case.data_sets:
        names = [port.name for port in case.model.graph.input]
        feeds = {n: as_array(v) for n, v in zip(names, inputs, strict=False)}
        got = interpret(graph, feeds)
        assert len(got) == len(outputs)
        for position, want in enumerate(outputs):
            check_type(graph, position, got[position])
            same(got[position], as_array(want), case.rtol, case.atol)


def check_type(graph: Graph, position: int, value: Any) -> None:
    """The inferred type of an output is true of the value."""
    type_ = graph.node(graph.results[position]).types[0]
    if not isinstance(type_, TensorType):
        return
    assert value.dtype == type_.dtype.numpy
    if type_.shape is not None:
        assert len(type_.shape) == value.ndim
        assert all(eq(d, n) is not False for d, n in zip(type_.shape, value.shape, strict=True))


def same(got: Any, want: Any, rtol: float, atol: float) -> None:
    """Equal element types and shapes, and values within the tolerance; bit for bit for integers."""
    if isinstance(want, list):
        assert len(got) == len(want)
        for one, two in zip(got, want, strict=True):
            same(one, two, rtol, atol)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.kind in "OUSb":
        np.testing.assert_array_equal(got, want)
        return
    if want.dtype.kind not in "iufc":
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, equal_nan=True)


def as_array(value: Any) -> Any:
    """A value of a case: arrays for tensors, other kinds as they are."""
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value
