"""Inputs of every byte order, stride and alignment, read-only or not, with axes or without: native
steps, host steps, sequences and evaluation give what they give for a plain array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.interpret import interpret
from onnx import TensorProto, helper

Array = np.ndarray[Any, Any]


def unaligned(x: Array, dtype: np.dtype[Any]) -> Array:
    y = np.zeros(x.nbytes + 1, np.uint8)[1:].view(dtype).reshape(x.shape)
    y[...] = x
    return y


def strided(x: Array, step: int) -> Array:
    y = np.zeros([2 * n for n in x.shape], x.dtype)[(..., *[slice(None, None, step)] * x.ndim)]
    y = y[(..., *(slice(n) for n in x.shape))]
    y[...] = x
    return y


def swapped(x: Array) -> Array:
    return x.astype(x.dtype.newbyteorder("S"))


def read_only(x: Array) -> Array:
    x = x.copy()
    x.flags.writeable = False
    return x


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "swapped": swapped,
    "swapped, read-only": lambda x: read_only(swapped(x)),
    "unaligned": lambda x: unaligned(x, x.dtype),
    "unaligned, swapped": lambda x: unaligned(x, swapped(x).dtype),
    "every second": lambda x: strided(x, 2),
    "backwards": lambda x: strided(x, -2),
    "column-major": lambda x: np.array(x, order="F"),
    "column-major, swapped": lambda x: np.array(swapped(x), order="F"),
    "read-only": read_only,
}
TYPES = "float16 float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool".split()
NODES: dict[str, list[tuple[str, list[str], str, dict[str, Any]]]] = {
    "native": [("Identity", ["x"], "y", {})],
    "host": [("NonZero", ["x"], "y", {})],
    "unique": [("Unique", ["x"], "y", {})],
    "sequence": [
        ("SequenceConstruct", ["x", "x"], "s", {}),
        ("ConcatFromSequence", ["s"], "y", {"axis": 0, "new_axis": 1}),
    ],
    "sequence returned": [("SequenceConstruct", ["x", "x"], "y", {})],
    "strings": [("Cast", ["x"], "y", {"to": TensorProto.STRING})],
}


def compiled(steps: list[tuple[str, list[str], str, dict[str, Any]]], *inputs: Any) -> Any:
    nodes = [helper.make_node(k, i, [y], **attributes) for k, i, y, attributes in steps]
    out = helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)
    graph = helper.make_graph(nodes, "g", list(inputs), [out])
    opset = [helper.make_opsetid("", 13)]
    model = irc.read_model(helper.make_model(graph, opset_imports=opset, ir_version=8))
    return irc.compile_model(model), model.graph


def require_equal(got: Any, want: Any) -> None:
    if isinstance(want, list | tuple):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            require_equal(a, b)
        return
    assert isinstance(got, np.ndarray) and got.dtype == want.dtype and got.dtype.isnative
    np.testing.assert_array_equal(got, want)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", NODES)
def test_tensors(kind: str, dtype: str) -> None:
    for shape in ((2, 3), (), (2, 0)):
        x = np.asarray(np.arange(3, 3 + np.prod(shape, dtype=int)).reshape(shape) % 5).astype(dtype)
        type_ = helper.np_dtype_to_tensor_dtype(x.dtype)
        axes = [f"d{i}" for i in range(x.ndim)]
        net, graph = compiled(NODES[kind], helper.make_tensor_value_info("x", type_, axes))
        want = list(net(x=x.copy()))
        for change in LAYOUTS.values():
            given = change(x)
            require_equal(list(net(x=given)), want)
            require_equal(list(net(given, out=[None])), want)
            require_equal(list(net.bind(x=given)()), want)
            require_equal(interpret(graph, [given]), want)


@pytest.mark.parametrize("how", LAYOUTS)
@pytest.mark.parametrize("kind", ["Identity", "ConcatFromSequence", "SequenceAt"])
def test_sequences(kind: str, how: str) -> None:
    s = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    i = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    more = {"axis": 0} if kind == "ConcatFromSequence" else {}
    named = ["s", "i"] if kind == "SequenceAt" else ["s"]
    net, graph = compiled([(kind, named, "y", more)], *[s, i][: len(named)])
    x, index = np.arange(6, dtype=np.float32).reshape(2, 3), np.array(1)
    want = list(net([[x, x + 1], index][: len(named)]))
    given = [[LAYOUTS[how](x), LAYOUTS[how](x + 1)], LAYOUTS[how](index)][: len(named)]
    require_equal(list(net(given)), want)
    require_equal(list(net.bind(given)()), want)
    require_equal(interpret(graph, given), want)
