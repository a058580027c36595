"""The text and weights that we write: as OpenVINO has them, stored once, with all irc knows."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from irc_compiler.compiler.export.xml import to_xml_text
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.dims import symbol
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import ModelFormatError, UnsupportedOperationError
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.ops import (
    Abs,
    Activation,
    Add,
    Concat,
    Constant,
    Gather,
    Gemm,
    Group,
    MatMul,
    Parameter,
    Result,
    ScaledDotProductAttention,
    TypedParameter,
)
from irc_compiler.ir.scalar.builder import Builder
from irc_compiler.ir.scalar.program import Program
from irc_compiler.ir.text.graph_text import print_graph
from irc_compiler.ir.types import SequenceType, TensorType
from support.frontends.ir_text import DATA, unary_net
from support.frontends.small_graphs import constant, graph_of
from support.models.exact_int8 import OPENVINO_CONFIG


def test_text_is_as_openvino_writes_it() -> None:
    """Byte for byte, but for layer ids, whose order among independent layers is free."""
    source = DATA / "mlp.xml"
    text, weights = to_xml_text(read_xml(source))
    ours, theirs = sorted(text.splitlines()), sorted(source.read_text().splitlines())
    kept = [line for line in ours if '<attribute name="irc"' not in line]
    assert len(ours) == len(kept) + 1  # the names of the sizes
    for tag in ("<layer ", "<data ", "<port ", "<dim>", "<edge "):
        one, two = ([line for line in lines if tag in line] for lines in (kept, theirs))
        if tag != "<data ":
            assert one == two, tag
        else:
            assert len(one) == len(two)
    assert sorted(weights) == sorted(source.with_suffix(".bin").read_bytes())


def test_equal_bytes_are_stored_once_whatever_the_type() -> None:
    graph = graph_of(
        (constant([0.0, 0.0]), []),
        (constant([0], DType.i64), []),
        (constant([0.0, 0.0]), []),
        (constant([0.0]), []),
        *[(Result(), [i]) for i in range(4)],
    )
    text, weights = to_xml_text(graph)
    assert weights == bytes(8 + 4)
    assert text.count('offset="0" size="8"') == 3 and text.count('offset="8" size="4"') == 1
    assert len(read_xml(text.encode(), weights).results) == 4


ALL_TYPES = [t for t in DType if t not in (DType.dynamic, DType.string)]


@pytest.mark.parametrize("dtype", ALL_TYPES, ids=str)
def test_constants_of_every_type_come_back(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    if dtype in (DType.nf4, DType.u1, DType.u3, DType.u6):
        data = rng.integers(0, 1 << dtype.bits, (3, 5)).astype(np.uint8).view(dtype.numpy)
    else:
        data = rng.integers(0 if not dtype.is_signed else -2, 2, (3, 5)).astype(dtype.numpy)
    graph = graph_of((Constant.of(data, dtype), []), (Result(), [0]))
    if not dtype.in_openvino:
        with pytest.raises(UnsupportedOperationError, match=f"no element type {dtype}"):
            to_xml_text(graph)
    text, weights = to_xml_text(graph, dialect=True)
    again = read_xml(text.encode(), weights)
    (found,) = interpret(again)
    assert str(again.node(again.results[0]).types[0]) == f"{dtype}[3, 5]"
    assert found.dtype == data.dtype and found.tobytes() == data.tobytes()


def test_strings_come_back() -> None:
    data = np.array([["a", "\u00e9"], ["", "long text"]], dtype=object)
    text, weights = to_xml_text(graph_of((Constant.of(data, DType.string), []), (Result(), [0])))
    assert interpret(read_xml(text.encode(), weights))[0].tolist() == data.tolist()


def test_layouts_and_byte_orders_of_constants() -> None:
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    for data in (base.T, base[:, ::2], base.astype(">f4"), base[::-1], base[:0]):
        graph = graph_of((Constant.of(data, DType.f32), []), (Result(), [0]))
        text, weights = to_xml_text(graph)
        np.testing.assert_array_equal(interpret(read_xml(text.encode(), weights))[0], data)


def test_names_of_sizes_survive() -> None:
    n, m = symbol("N", 1, 8), symbol("M")
    shape = (n, 2 * n + m, 3, symbol("odd name, too", 2))
    graph = graph_of((Parameter(DType.f32, shape), []), (Abs(), [0]), (Result(), [1]))
    text, weights = to_xml_text(graph)
    assert 'shape="1..8,2..,3,2.."' in text
    again = read_xml(text.encode(), weights)
    assert again.node(again.results[0]).types == graph.node(graph.results[0]).types
    import openvino as ov

    model = ov.Core().read_model(text.encode())
    assert str(model.inputs[0].partial_shape) == "[1..8,2..,3,2..]"


def test_awkward_names_survive() -> None:
    graph = Graph('<&"\t\n\u00e9')
    x = graph.add(
        Parameter(DType.f32, (2,)), name='a "b" <c> & d\n', names=[frozenset({"x,y", "z;/ w"})]
    )
    graph.add(Result(), [Value(x)], name="")
    infer_graph(graph)
    again = read_xml(to_xml_text(graph)[0].encode())
    assert again.name == graph.name
    record = again.node(again.parameters[0])
    assert record.name == 'a "b" <c> & d\n' and record.names == [{"x,y", "z;/ w"}]
    # What XML cannot hold at all is replaced, so that the file can be read.
    graph.node(x).name = "\0\x1b\ud800x"
    again = read_xml(to_xml_text(graph)[0].encode())
    assert again.node(again.parameters[0]).name == "\ufffd\ufffd\ufffdx"


def test_attributes_that_only_irc_has_live_in_rt_info() -> None:
    graph = graph_of(
        (Parameter(DType.f32, (4,)), []),
        (Parameter(DType.i64, (2,)), []),
        (constant(0, DType.i64), []),
        (Gather(out_of_range="error"), [0, 1, 2]),
        (Result(), [3]),
    )
    text, weights = to_xml_text(graph)
    (data,) = [line for line in text.splitlines() if "batch_dims" in line]
    assert "out_of_range" not in data
    assert print_graph(read_xml(text.encode(), weights)) == print_graph(graph)
    import openvino as ov

    core = ov.Core()
    model = core.read_model(text.encode(), ov.Tensor(np.frombuffer(weights, np.uint8)))
    x, i = np.arange(4, dtype=np.float32), np.array([3, 1])
    np.testing.assert_array_equal(core.compile_model(model, "CPU")([x, i])[0], [3, 1])


def test_dialect_reads_back() -> None:
    graph = graph_of(
        (Parameter(DType.f32, (symbol("N"), 4)), []),
        (constant(np.ones((3, 4))), []),
        (constant(np.arange(3)), []),
        (Gemm(0.5, 2.0, False, True, "leaky_relu", (0.25,)), [0, 1, 2]),
        (Result(), [3]),
    )
    text, weights = to_xml_text(graph, dialect=True)
    assert 'type="Gemm" version="irc"' in text
    again = read_xml(text.encode(), weights)
    assert print_graph(again) == print_graph(graph)
    with pytest.raises(UnsupportedOperationError, match="Gemm"):  # not in a standard set
        read_xml(text.replace('version="irc"', 'version="opset1"').encode(), weights)


def test_absent_inputs_of_the_dialect_read_back() -> None:
    from irc_compiler.ir.ops import LayerNorm

    graph = Graph("g")
    x = graph.add(Parameter(DType.f32, (2, 3)), name="x")
    bias = graph.add(constant([1, 2, 3]), name="bias")
    norm = graph.add(LayerNorm(), [Value(x), None, Value(bias)], name="norm")
    graph.add(Result(), [Value(norm)], name="y")
    infer_graph(graph)
    text, weights = to_xml_text(graph, dialect=True)
    again = read_xml(text.encode(), weights)
    assert print_graph(again) == print_graph(graph)


def test_rt_info_of_layers_ports_and_net_is_written_back() -> None:
    info = '<rt_info><attribute name="fused_names" version="0" value="a,b"/></rt_info>'
    port_info = '<rt_info><attribute name="layout" version="0" layout="[N,C]"/></rt_info>'
    source = unary_net(more=info).replace(
        b'<port id="1" precision="FP32"/>',
        f'<port id="1" precision="FP32">{port_info}</port>'.encode(),
    )
    tree = '<rt_info><a value="1"/><b><info name="2 c" value="x"/><d/></b>'
    tree += '<info name="e f"><g value="2"/></info></rt_info>'
    source = source.replace(b"</net>", tree.encode() + b"</net>")
    graph = read_xml(source)
    (node,) = [n for n in graph.ids() if graph.op(n).kind == "Abs"]
    assert graph.node(node).rt_info == {
        "fused_names": {"version": "0", "value": "a,b"},
        "out:0/layout": {"version": "0", "layout": "[N,C]"},
    }
    assert graph.rt_info == {"a": "1", "b": {"2 c": "x", "d": {}}, "e f": {"g": "2"}}
    again = read_xml(to_xml_text(graph)[0].encode())
    assert again.rt_info == graph.rt_info
    (node,) = [n for n in again.ids() if again.op(n).kind == "Abs"]
    assert len(again.node(node).rt_info) == 2


def test_fp16_weights() -> None:
    big = np.full((2, 2), 1e6, np.float32)
    graph = graph_of(
        (Parameter(DType.f32, (2, 2)), []),
        (constant([[0.5, 1], [2, -70000]]), []),
        (constant([[0.5, 1], [2, 65504]]), []),
        (constant(big), []),
        (constant([0], DType.i64), []),
        (MatMul(), [0, 1]),
        (Add(), [5, 2]),
        (Concat(0), [6, 3]),
        (Result(), [7]),
        (Result(), [4]),
    )
    before = print_graph(graph)
    text, weights = to_xml_text(graph, compress_to_fp16=True)
    assert print_graph(graph) == before
    assert text.count('element_type="f16"') == 1 and text.count('name="decompression"') == 1
    assert 'name="n2_compressed"' in text
    again = read_xml(text.encode(), weights)
    x = np.ones((2, 2), np.float32)
    for one, two in zip(interpret(again, [x]), interpret(graph, [x]), strict=True):
        np.testing.assert_array_equal(one, two)
    plain = to_xml_text(graph)[1]
    assert len(plain) - len(weights) == 8


def test_fp16_leaves_what_it_would_spoil() -> None:
    kept = [constant(1e-12), constant([[70000.0]]), constant([1e-9, 1e-10, -1e-9, 0, 1])]
    small = [constant([1e-9, 1, 2, 3]), constant([np.inf, np.nan, 1])]
    nodes = [(op, list[int]()) for op in (*kept, *small)]
    graph = graph_of(*nodes, *[(Result(), [i]) for i in range(5)])
    text, weights = to_xml_text(graph, compress_to_fp16=True)
    assert text.count('element_type="f16"') == 2
    found = interpret(read_xml(text.encode(), weights))
    for one, op in zip(found[:3], kept, strict=True):
        np.testing.assert_array_equal(one, op.data)
    np.testing.assert_array_equal(found[3], [0, 1, 2, 3])
    np.testing.assert_array_equal(found[4], [np.inf, np.nan, 1])


def test_quantised_models_keep_their_weights() -> None:
    text, _ = to_xml_text(read_xml(DATA / "qdq.xml"), compress_to_fp16=True)
    assert 'element_type="f16"' not in text


def test_ml_dtypes_constants_are_bytes() -> None:
    data = np.array([1.5, -2], dtype=ml_dtypes.bfloat16)
    _, weights = to_xml_text(graph_of((Constant.of(data, DType.bf16), []), (Result(), [0])))
    assert weights == data.tobytes()


def test_every_kind_of_dialect_attribute_reads_back() -> None:
    b = Builder()
    program = b.finish(b.op("add", b.input(0, DType.f32), b.const(0.1, DType.f32)))
    kind = SequenceType(TensorType(DType.f32, (symbol("N"), 3)))
    graph = graph_of(
        (Parameter(DType.f32, (3,)), []),
        (TypedParameter(kind), []),
        (Group(program), [0]),
        (Activation("elu", (0.1,)), [2]),
        *[(Result(), [i]) for i in (1, 3)],
    )
    text, weights = to_xml_text(graph, dialect=True)
    assert print_graph(read_xml(text.encode(), weights)) == print_graph(graph)


@pytest.mark.parametrize("text", ["{", "[1]", "null", "1e999", "[" * 9999, '{"$": "Program"}'])
def test_broken_dialect_attributes(text: str) -> None:
    graph = graph_of((Parameter(DType.f32, (3,)), []), (Group(_identity()), [0]), (Result(), [1]))
    (line,) = [x for x in to_xml_text(graph, dialect=True)[0].splitlines() if "program=" in x]
    broken = to_xml_text(graph, dialect=True)[0].replace(line, f"<data program='{text}'/>")
    with pytest.raises(ModelFormatError, match="'program'") as caught:
        read_xml(broken.encode())
    assert "layer 1" in str(caught.value)


def _identity() -> Program:
    b = Builder()
    return b.finish(b.op("neg", b.input(0, DType.f32)))


def test_inputs_left_out_before_others_get_their_neutral_value() -> None:
    graph = Graph("g")
    values = [Value(graph.add(Parameter(DType.f32, (1, 2, 3, 4)), name=f"p{i}")) for i in range(3)]
    scale = Value(graph.add(constant(0.25), name="scale"))
    attention = graph.add(ScaledDotProductAttention(), [*values, None, scale], name="attention")
    graph.add(Result(), [Value(attention)], name="y")
    infer_graph(graph)
    text, weights = to_xml_text(graph)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((1, 2, 3, 4)).astype(np.float32) for _ in range(3)]
    (expected,) = interpret(graph, inputs)
    (found,) = interpret(read_xml(text.encode(), weights), inputs)
    np.testing.assert_array_equal(found, expected)
    import openvino as ov

    core = ov.Core()
    model = core.read_model(text.encode(), ov.Tensor(np.frombuffer(weights, np.uint8)))
    compiled = core.compile_model(model, "CPU", OPENVINO_CONFIG)
    np.testing.assert_allclose(compiled(inputs)[0], expected, rtol=1e-5, atol=1e-6)
