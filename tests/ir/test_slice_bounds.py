"""Bounds of slices: every start, stop, step and size of a small table, against the rule of ONNX
written as loops, onnxruntime and OpenVINO; constant and computed, fixed and symbolic sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import irc_compiler as irc
import irc_compiler.ir.ops as o
import numpy as np
import onnxruntime
import openvino
import pytest
from irc_compiler.ir.dims import evaluate, symbol
from irc_compiler.ir.slice_bounds import index_slice, normalize_slice
from onnx import TensorProto, helper
from openvino import opset8

SIZES = range(5)
STEPS = (-3, -2, -1, 1, 2, 3)
BOUNDS = (*range(-7, 8), -(2**63), -(2**31), 2**31 - 1, 2**63 - 1)
SMALL = (-5, -4, -3, -1, 0, 2, 3, 5)


def taken(start: int, stop: int, step: int, size: int) -> list[int]:
    """The elements that ONNX's Slice-13 takes of range(size)."""
    start, stop = (n + size if n < 0 else n for n in (start, stop))
    if step > 0:
        start, stop = max(0, min(start, size)), max(0, min(stop, size))
    else:
        start, stop = max(0, min(start, size - 1)), max(-1, min(stop, size - 1))
    return list(range(start, stop, step)) if size else []


def table() -> Iterator[tuple[int, int, int, int]]:
    return itertools.product(BOUNDS, BOUNDS, STEPS, SIZES)


def test_numbers_take_what_the_rule_takes() -> None:
    for start, stop, step, size in table():
        got = list(range(size))[index_slice(start, stop, step, size)]
        assert got == taken(start, stop, step, size), (start, stop, step, size)


@pytest.mark.slow
def test_symbolic_sizes_take_what_the_rule_takes() -> None:
    n = symbol("N")
    for start, stop, step in itertools.product(BOUNDS, BOUNDS, STEPS):
        found = normalize_slice(start, stop, step, n)
        assert found is not None
        for size in SIZES:
            first, count = (evaluate(d, {"N": size}) for d in found)
            got = [first + i * step for i in range(count)]
            assert got == taken(start, stop, step, size), (start, stop, step, size)


def test_symbolic_starts_that_count_from_the_end() -> None:
    n, back = symbol("N", 1), symbol("M", 1)
    for step in STEPS:
        found = normalize_slice(-back, 2**63 - 1 if step > 0 else -(2**63), step, n)
        assert found is not None
        for size, by in itertools.product(range(1, 5), range(1, 8)):
            first, count = (evaluate(d, {"N": size, "M": by}) for d in found)
            stop = 2**63 - 1 if step > 0 else -(2**63)
            assert [first + i * step for i in range(count)] == taken(-by, stop, step, size)


def onnx_slices(*, computed: bool) -> bytes:
    """Each start, stop and step of SMALL; as constants or as inputs."""
    nodes, outputs, constants = [], [], []
    ports = "starts stops axes steps".split()
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT64, ["N"])]
    if computed:
        inputs += [helper.make_tensor_value_info(p, TensorProto.INT64, [1]) for p in ports]
        nodes.append(helper.make_node("Slice", ["x", *ports], ["y0"]))
    else:
        constants.append(helper.make_tensor("axes", TensorProto.INT64, [1], [0]))
        for n in (*SMALL, *STEPS):
            constants.append(helper.make_tensor(f"c{n}", TensorProto.INT64, [1], [n]))
        for k, cut in enumerate(itertools.product(SMALL, SMALL, STEPS)):
            start, stop, step = (f"c{n}" for n in cut)
            nodes.append(helper.make_node("Slice", ["x", start, stop, "axes", step], [f"y{k}"]))
    constants = list({c.name: c for c in constants}.values())
    for node in nodes:
        outputs.append(helper.make_tensor_value_info(node.output[0], TensorProto.INT64, [None]))
    graph = helper.make_graph(nodes, "slices", inputs, outputs, constants)
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


@pytest.mark.slow
@pytest.mark.parametrize("fixed", [False, True])
def test_constant_bounds_in_native_code(fixed: bool) -> None:
    text = onnx_slices(computed=False)
    peer = onnxruntime.InferenceSession(text)
    for size in SIZES if not fixed else (3,):
        x = np.arange(size)
        net = irc.compile_model(text, shapes={"x": [size]} if fixed else None)
        want = peer.run(None, {"x": x})
        for cut, a, b in zip(itertools.product(SMALL, SMALL, STEPS), net(x=x), want, strict=True):
            assert a.tolist() == b.tolist() == taken(*cut, size), (cut, size)


@pytest.mark.slow
def test_computed_bounds() -> None:
    text = onnx_slices(computed=True)
    net, peer = irc.compile_model(text), onnxruntime.InferenceSession(text)
    for start, stop, step in itertools.product(SMALL, SMALL, STEPS):
        for size in SIZES:
            given = {"starts": start, "stops": stop, "axes": 0, "steps": step}
            inputs = {"x": np.arange(size), **{k: np.array([n]) for k, n in given.items()}}
            (got,) = net(inputs)
            (want,) = peer.run(None, inputs)
            assert got.tolist() == want.tolist() == taken(start, stop, step, size)


@pytest.mark.slow
@pytest.mark.parametrize("mask", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_strided_slices_as_openvino_takes_them(mask: tuple[int, int]) -> None:
    ports = [opset8.parameter([1], np.int64, name=n) for n in ("begin", "end", "strides")]
    data = opset8.parameter([-1], np.int64, name="x")
    node = opset8.strided_slice(data, *ports, [mask[0]], [mask[1]], [], [], [])
    peer = openvino.compile_model(openvino.Model([node], [data, *ports]), "CPU")
    op = o.StridedSlice(begin_mask=mask[:1], end_mask=mask[1:])
    for start, stop, step in itertools.product(SMALL, SMALL, STEPS):
        for size in range(1, 5):
            inputs = [np.arange(size), *(np.array([n]) for n in (start, stop, step))]
            want = list(peer(inputs).values())[0].tolist()
            assert op.evaluate(*inputs)[0].tolist() == want, (start, stop, step, size)
