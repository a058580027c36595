"""Tensor names of versions 10 and 11, the names of sizes, legacy input and output types."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.errors import InputError, ModelFormatError
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from onnx import helper
from support.frontends.ir_text import DATA, edge, layer, net, parameter, port, result, unary_net


def public_names(graph: Graph) -> tuple[list[set[str]], list[set[str]]]:
    """Names of inputs and of outputs."""
    inputs = [set(graph.node(p).names[0]) for p in graph.parameters]
    return inputs, [set(graph.node(r).names[0]) for r in graph.results]


def small(version: int, *, output_names: str | None = None, port_names: str = "t") -> bytes:
    text = net(
        [
            parameter(0, name="in"),
            layer(1, "Abs", name="op", inputs=port(0), outputs=port(1, names=port_names)),
            result(2, name="out"),
        ],
        [edge(0, 0, 1, 0), edge(1, 1, 2, 0)],
        version,
    )
    if output_names is None:
        return text
    return text.replace(b'type="Result"', f'type="Result" output_names="{output_names}"'.encode())


def test_version_11_has_only_the_files_names() -> None:
    assert public_names(read_xml(small(11))) == ([set()], [{"t"}])
    assert public_names(read_xml(small(11, output_names="y,z"))) == ([set()], [{"y", "z"}])
    assert public_names(read_xml(small(11, port_names=""))) == ([set()], [set()])


def test_version_10_adds_operation_names() -> None:
    assert public_names(read_xml(small(10))) == ([{"in"}], [{"op", "t"}])


def test_version_10_names_ports_of_several_outputs() -> None:
    split = layer(
        2,
        "Split",
        name="split",
        data='num_splits="2"',
        inputs=port(0) + port(1),
        outputs=port(2) + port(3),
    )
    axis = '<data element_type="i64" shape="" offset="0" size="8"/>'
    text = net(
        [
            parameter(0, "2,4"),
            layer(1, "Const", more=axis, outputs=port(0, (), "I64")),
            split,
            result(3),
            result(4),
        ],
        [edge(0, 0, 2, 0), edge(1, 0, 2, 1), edge(2, 3, 3, 0), edge(2, 2, 4, 0)],
        10,
    )
    graph = read_xml(text, np.int64(1).tobytes())
    assert public_names(graph)[1] == [{"split.1"}, {"split.0"}]


def test_version_10_collision() -> None:
    with pytest.raises(ModelFormatError, match="another tensor's name") as caught:
        read_xml(small(10, port_names="in"))
    assert "'in'" in str(caught.value) and '"op"' in str(caught.value)
    assert public_names(read_xml(small(11, port_names="in")))[1] == [{"in"}]


def test_a_parameters_names_are_not_its_results() -> None:
    text = net([parameter(0, names="x"), result(1)], [edge(0, 0, 1, 0)])
    assert public_names(read_xml(text)) == ([{"x"}], [set()])


@pytest.mark.parametrize("name", ["mlp", "mlp_v10", "shapes", "consts"])
def test_names_are_openvinos(name: str) -> None:
    import openvino as ov

    model = ov.Core().read_model(str(DATA / f"{name}.xml"))
    expected = [set(p.names) for p in model.inputs], [set(p.names) for p in model.outputs]
    assert public_names(read_xml(DATA / f"{name}.xml")) == expected


def test_inputs_are_in_file_order_and_dead_ones_stay() -> None:
    layers = [
        result(9),
        layer(5, "Abs", inputs=port(0), outputs=port(7)),
        parameter(8, "2", name="second"),
        parameter(1, "3", name="first"),
        layer(4, "Exp", name="dead", inputs=port(0), outputs=port(1)),
        result(3),
    ]
    edges = [edge(5, 7, 9, 0), edge(8, 0, 5, 0), edge(8, 0, 4, 0), edge(5, 7, 3, 0)]
    graph = read_xml(net(layers, edges))
    assert [graph.node(p).name for p in graph.parameters] == ["second", "first"]
    assert [graph.node(r).name for r in graph.results] == ["l9", "l3"]
    assert "Exp" not in [graph.op(n).kind for n in graph.ids()]


def test_port_ids_are_looked_up_by_value() -> None:
    subtract = layer(1, "Subtract", inputs=port(5) + port(7), outputs=port(9))
    text = net(
        [parameter(0, "2"), subtract, parameter(2, "2"), result(3)],
        [edge(0, 0, 1, 7), edge(2, 0, 1, 5), edge(1, 9, 3, 0)],
    )
    a, b = np.array([1, 2], np.float32), np.array([10, 30], np.float32)
    np.testing.assert_array_equal(interpret(read_xml(text), [a, b])[0], b - a)


def test_types_and_roots_in_any_case_comments_and_instructions() -> None:
    text = unary_net("aBs").replace(b"<net", b"<!-- c --><?pi x?><Net").replace(b"</net", b"</Net")
    text = text.replace(b"<layers>", b"<layers><!-- c --><?pi y?>")
    text = text.replace(b"<dim>2</dim>", b"<dim> 2 <!-- c --></dim>")
    graph = read_xml(text)
    assert [graph.op(n).kind for n in graph.order()] == ["Parameter", "Abs", "Result"]


def test_sizes_without_names_get_their_inputs_name() -> None:
    graph = read_xml(DATA / "shapes.xml")
    types = [str(graph.node(p).types[0]) for p in graph.parameters]
    assert types == ["f32[p1.0, 3, p1.2, p1.3, p1.4]", "i64[...]", "f32[]", "f32[0, 2]"]
    two = read_xml(
        net(
            [parameter(0, "?", names="x"), parameter(1, "?", names="x"), result(2), result(3)],
            [edge(0, 0, 2, 0), edge(1, 0, 3, 0)],
        )
    )
    assert [str(two.node(p).types[0]) for p in two.parameters] == ["f32[x.0]", "f32[x.0_2]"]


def sized(pairs: str, shape: str = "?,3") -> bytes:
    info = f'<rt_info><attribute name="irc" version="0" {pairs}/></rt_info>'
    text = net([parameter(0, shape, more=info), result(1)], [edge(0, 0, 1, 0)])
    return text


def test_named_sizes() -> None:
    quoted = 'sizes=\'["2*N + 1", "3"]\' bounds=\'{"N": [1, 8]}\''
    graph = read_xml(sized(quoted))
    assert str(graph.node(graph.parameters[0]).types[0]) == "f32[2*N + 1, 3]"


@pytest.mark.parametrize(
    "pairs",
    [
        "sizes='x'",
        "sizes='[1]'",
        "sizes='{}'",
        "sizes='[\"N\"]'",
        'sizes=\'["N", "4"]\'',
        'sizes=\'["N", "M"]\'',
        'sizes=\'["N +", "3"]\'',
        'sizes=\'["N", "3"]\' bounds=\'{"N": [2, 1]}\'',
        'sizes=\'["N", "3"]\' bounds=\'{"N": 1}\'',
        "sizes='[\"N\", \"3\"]' bounds='[]'",
        "sizes='" + "[" * 5000 + "'",
    ],
)
def test_broken_named_sizes(pairs: str) -> None:
    with pytest.raises(ModelFormatError, match="names of the sizes") as caught:
        read_xml(sized(pairs))
    assert "layer 0" in str(caught.value)


def test_legacy_types_on_request_only() -> None:
    text = net(
        [
            parameter(0, "2", "f16", "FP16", name="h"),
            parameter(1, "2", "i64", "I64", name="i"),
            parameter(2, "2", "boolean", "BOOL", name="b"),
            result(3),
            result(4),
            result(5),
        ],
        [edge(0, 0, 3, 0), edge(1, 0, 4, 0), edge(2, 0, 5, 0)],
        10,
    )

    def types(graph: Graph) -> list[str]:
        return [str(graph.node(n).types[0]) for n in (*graph.parameters, *graph.results)]

    kept = ["f16[2]", "i64[2]", "boolean[2]"]
    assert types(read_xml(text)) == kept + kept
    legacy = ["f32[2]", "i64[2]", "boolean[2]", "f32[2]", "i32[2]", "f32[2]"]
    assert types(read_xml(text, legacy_io=True)) == legacy


def test_interpret_refuses_unfit_inputs() -> None:
    graph = read_xml(small(10))
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(interpret(graph, {"in": -x})[0], x)
    for inputs, part in [
        ({"out": x}, "inputs are missing"),
        ({"in": x, "b": x}, "no such inputs"),
        ([], "number of inputs"),
        ([x.astype(np.float64)], "wrong type"),
        ([x.T], "wrong shape"),
    ]:
        with pytest.raises(InputError, match=part):
            interpret(graph, inputs)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [-1, -2, -(2**63)])
@pytest.mark.parametrize("form", ["xml", "onnx"])
def test_a_declared_size_below_0(form: str, size: int) -> None:
    """-1 is any size, as OpenVINO writes it and onnxruntime takes it; others mean nothing."""
    if form == "xml":
        data = f'shape="{size}" element_type="f32"'
        layers = [
            layer(0, "Parameter", data=data, outputs=port(0, (size,))),
            layer(1, "Abs", inputs=port(0, (size,)), outputs=port(1, (size,))),
            result(2),
        ]
        text = net(layers, [edge(0, 0, 1, 0), edge(1, 1, 2, 0)])
        source: object = text
    else:
        x, y = (helper.make_tensor_value_info(n, 1, [size]) for n in "xy")
        graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "g", [x], [y])
        sets = [helper.make_opsetid("", 17)]
        source = helper.make_model(graph, opset_imports=sets, ir_version=8)
    if size != -1:
        with pytest.raises(ModelFormatError, match="negative size") as caught:
            irc.read_model(source)
        assert "expected: 0 or more, or -1 for any size" in str(caught.value)
        return
    net_ = irc.compile_model(source)
    assert isinstance(net_.inputs[0].shape[0], str)
    for count in (0, 1, 5):
        assert net_([np.full(count, -1, np.float32)])[0].tolist() == [1] * count
