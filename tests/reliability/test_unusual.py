"""Files that are unusual and right: they load, and compute what they say."""

from __future__ import annotations

import time
import tracemalloc

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.interpret import interpret
from onnx import helper, numpy_helper
from support.frontends.ir_text import constant, edge, layer, net, parameter, port, result, unary_net

X = np.array([[1, -2, 3], [0, 1, 2]], np.float32)


def long_xml(length: int, width: int = 3) -> bytes:
    declared = port(1, (2, width))
    layers = [layer(i, "ReLU", name="", inputs=port(0), outputs=declared) for i in range(1, length)]
    edges = [edge(i, int(i > 0), i + 1, 0) for i in range(length)]
    return net([parameter(0, f"2,{width}"), *layers, result(length)], edges)


def long_onnx(length: int, width: int = 3) -> bytes:
    names = ["x", *(f"t{i}" for i in range(length - 2)), "y"]
    nodes = [helper.make_node("Relu", [a], [b]) for a, b in zip(names, names[1:], strict=False)]
    ports = [helper.make_tensor_value_info(n, 1, [2, width]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    sets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10).SerializeToString()


CHAINS = {"xml": (long_xml, read_xml), "onnx": (long_onnx, read_onnx)}


@pytest.mark.slow
@pytest.mark.extended(when=lambda params: params["length"] > 16_000)
@pytest.mark.parametrize("length", [16_000, 50_000])
@pytest.mark.parametrize("kind", CHAINS)
def test_a_long_chain_takes_time_by_its_length(kind: str, length: int) -> None:
    """It takes about four times as long as a quarter of it, in this process's own time. 16 times
    is what a look at all nodes for each node takes."""
    chain, read = CHAINS[kind]

    def measure(count: int) -> float:
        data = chain(count)
        started = time.process_time()
        graph = read(data)
        assert (interpret(graph, [X])[0] == np.maximum(X, 0)).all()
        assert len(graph) == count + 1
        return time.process_time() - started

    # The least of two: on a machine with other work the same takes up to twice as long.
    taken = [min(measure(count) for _ in range(2)) for count in (length // 4, length)]
    assert taken[1] < 8 * taken[0], taken


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHAINS)
def test_a_chain_takes_memory_by_its_length(kind: str) -> None:
    """Four times the nodes take four times the memory; a run, no more than two tensors at once."""
    chain, read = CHAINS[kind]
    read(chain(10))
    peaks = []
    for length in (1000, 4000):
        data = chain(length)
        tracemalloc.start()
        graph = read(data)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 5 * peaks[0], peaks
    wide = np.zeros((2, 100_000), np.float32)
    graph = read(chain(50, 100_000))
    tracemalloc.start()
    interpret(graph, [wide])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * wide.nbytes


@pytest.mark.slow
def test_a_long_chain_compiles_and_runs() -> None:
    names = ["x", *(f"t{i}" for i in range(998)), "y"]
    nodes = [helper.make_node("Neg", [a], [b]) for a, b in zip(names, names[1:], strict=False)]
    ports = [helper.make_tensor_value_info(n, 1, [2, 3]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    sets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    assert (irc.compile_model(model)(X)[0] == -X).all()


def test_comments_and_processing_instructions_everywhere() -> None:
    plain = unary_net("Abs").decode()
    odd = "<!-- a comment -- no: - --><?note a=1?>".replace(" -- no: -", "")
    text = plain.replace(">", f">{odd}").replace("</net>", "</net>").rstrip()
    text = '<?xml version="1.0" encoding="utf-8"?>\n<!-- before -->\n' + text + "\n<!-- after -->\n"
    graph = read_xml(text.encode())
    assert (interpret(graph, [X])[0] == np.abs(X)).all()
    assert (irc.compile_model(irc.read_model(text.encode()))(X)[0] == np.abs(X)).all()


def weights_net(*constants: str) -> bytes:
    """Constants that go to Results of their own."""
    ends = [result(100 + n) for n in range(len(constants))]
    edges = [edge(n, 0, 100 + n, 0) for n in range(len(constants))]
    return net([*constants, *ends], edges)


def test_unaligned_overlapping_and_empty_constants() -> None:
    raw = bytes(range(64))
    text = weights_net(
        constant(0, "f32", "3", 1, 12),
        constant(1, "i64", "2", 3, 16),
        constant(2, "u8", "4", 2, 4),
        constant(3, "f32", "3", 1, 12),
        constant(4, "f32", "0, 5", 64, 0),
        constant(5, "i32", "2, 0", 0, 0),
    )
    found = interpret(read_xml(text, raw), [])
    for array, (dtype, offset, shape) in zip(
        found,
        [("f4", 1, 3), ("i8", 3, 2), ("u1", 2, 4), ("f4", 1, 3), ("f4", 64, (0, 5)),
         ("i4", 0, (2, 0))],
        strict=True,
    ):  # fmt: skip
        count = int(np.prod(shape))
        want = np.frombuffer(raw, np.uint8)[offset:].tobytes()[: count * np.dtype(dtype).itemsize]
        assert array.tobytes() == want and array.shape == np.empty(shape).shape
    compiled = irc.compile_model(irc.read_model(text, raw))
    assert [a.tobytes() for a in compiled([])] == [a.tobytes() for a in found]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (2, 0, 3)])
def test_zero_size_tensors(shape: tuple[int, ...]) -> None:
    text = unary_net("Abs", shape=",".join(map(str, shape)))
    out = irc.compile_model(irc.read_model(text))(np.zeros(shape, np.float32))[0]
    assert out.shape == shape and out.dtype == np.float32
    weight = numpy_helper.from_array(np.zeros((3, 0), np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, ["N", 3])],
        [onnx.ValueInfoProto(name="y")], [weight],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    assert irc.compile_model(model)(X)[0].shape == (2, 0)


def test_empty_and_odd_names() -> None:
    operation = layer(1, "Abs", name="", inputs=port(0), outputs=port(1, (2, 3)))
    text = net(
        [parameter(0, name=""), operation, result(2, name="")],
        [edge(0, 0, 1, 0), edge(1, 1, 2, 0)],
    )
    assert (irc.compile_model(irc.read_model(text))([X])[0] == np.abs(X)).all()
    nodes = [
        # An output that is left out has an empty name, as often as one likes.
        helper.make_node("Dropout", ["x"], ["d", ""], name=""),
        helper.make_node("Dropout", ["d"], ["e", ""], name=""),
        helper.make_node("Neg", ["e"], ["a b/c:0"], name=""),
        helper.make_node("Abs", ["a b/c:0"], ["\u00e9, \\ y"], name=""),
    ]
    graph = helper.make_graph(
        nodes, "", [helper.make_tensor_value_info("x", 1, [2, 3])],
        [onnx.ValueInfoProto(name="\u00e9, \\ y")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    found = irc.compile_model(model)(X)
    assert (found["\u00e9, \\ y"] == np.abs(X)).all()
