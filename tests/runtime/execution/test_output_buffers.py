"""Arrays given for outputs: each output, and each element of it, needs memory of its own."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.runtime.execution.output_buffers import MemoryExtents
from onnx import TensorProto, helper


@pytest.fixture(scope="module", params=["native", "host"])
def net(request: pytest.FixtureRequest) -> irc.CompiledModel:
    """x + 1 and x * 2; behind a value whose shape depends on data on the host."""
    source = "x"
    nodes = []
    if request.param == "host":
        nodes = [
            helper.make_node("NonZero", ["x"], ["z"]),
            helper.make_node("Squeeze", ["z", "zero"], ["i"]),
            helper.make_node("Gather", ["x", "i"], ["g"]),
        ]
        source = "g"
    nodes += [
        helper.make_node("Add", [source, source], ["a"]),
        helper.make_node("Mul", [source, source], ["b"]),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None]) for n in "xab"]
    zero = [helper.make_tensor("zero", TensorProto.INT64, [1], [0])]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], zero)
    opset = [helper.make_opsetid("", 13)]
    return irc.compile_model(helper.make_model(graph, opset_imports=opset, ir_version=8))


X = np.array([1, 2, 3], np.float32)


def test_one_array_for_two_outputs_is_refused(net: irc.CompiledModel) -> None:
    o = np.zeros(3, np.float32)
    with pytest.raises(irc.InputError, match="'a' and 'b' would be written to the same memory"):
        net(X, out=[o, o])
    assert not o.any()


def test_overlapping_arrays_are_refused(net: irc.CompiledModel) -> None:
    o = np.zeros(8, np.float32)
    for a, b in ((o[:3], o[2:5]), (o[:3], o[2::-1]), (o[:6:2], o[1:4]), (o[:3], o[:3].view())):
        with pytest.raises(irc.InputError, match="arrays that overlap"):
            net(X, out=[a, b])
    assert not o.any()


def test_an_array_whose_elements_share_memory_is_refused(net: irc.CompiledModel) -> None:
    one = np.zeros(1, np.float32)
    o = np.lib.stride_tricks.as_strided(one, (3,), (0,), writeable=True)
    with pytest.raises(irc.InputError, match="elements of the array given for output 'a'"):
        net(X, out=[o, None])
    assert not one.any()


def test_interleaved_arrays_are_written(net: irc.CompiledModel) -> None:
    o = np.zeros(6, np.float32)
    net(X, out=[o[::2], o[1::2]])
    assert o.tolist() == [2, 1, 4, 4, 6, 9]


def test_an_input_may_be_an_output(net: irc.CompiledModel) -> None:
    x = X.copy()
    net(x, out=[x, None])
    assert x.tolist() == [2, 4, 6]


def test_empty_arrays_share_nothing(net: irc.CompiledModel) -> None:
    o = np.zeros(0, np.float32)
    a, b = net(np.zeros(0, np.float32), out=[o, o])
    assert a is o and b is o


def first_byte(array: np.ndarray) -> int:
    back = [min(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True)]
    return array.ctypes.data + sum(back)


def test_extents_find_the_arrays_that_share_bytes() -> None:
    """As np.may_share_memory does, for views of any strides."""
    base = np.zeros((8, 8), np.float32)
    arrays = [base[0], base[2:4], base[6:1:-2], np.zeros(4), base[:0], base[5, 3:5], base[:, 7]]
    extents = MemoryExtents(arrays)
    for given in (*arrays, base, base[4], base[7, ::-1], np.zeros(3), base[1, 2:4]):
        shared = [n for n, a in enumerate(arrays) if np.may_share_memory(given, a)]
        assert extents.is_apart(given) is (not shared)
        for source, array in enumerate(arrays):
            alone = shared == [source] and first_byte(given) == first_byte(array)
            assert extents.is_apart(given, source) is (not shared or alone)
