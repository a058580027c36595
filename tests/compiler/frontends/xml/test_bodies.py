"""Bodies of If, Loop and TensorIterator: what their port maps mean, and broken ones."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.errors import Error, ModelFormatError, UnsupportedOperationError
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.op import Array
from irc_compiler.ir.ops import If, Loop, TensorIterator
from irc_compiler.ir.verify import verify
from support.frontends.ir_text import DATA, constant, edge, layer, net, parameter, port, result


def text_of(name: str) -> tuple[str, bytes]:
    return (DATA / f"{name}.xml").read_text(), (DATA / f"{name}.bin").read_bytes()


def test_if_runs_both_ways() -> None:
    graph = read_xml(DATA / "if.xml")
    x = np.array([3, 5], np.float32)
    found = [interpret(graph, {"c": np.array(c), "x": x})[0].tolist() for c in (True, False)]
    assert found == [[4, 6], [6, 10]]
    (op,) = [graph.op(n) for n in graph.ids() if graph.op(n).kind == "If"]
    assert isinstance(op, If)
    assert (op.then_inputs, op.else_inputs, op.then_outputs, op.else_outputs) == (
        (1,),
        (2,),
        (0,),
        (0,),
    )


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_loop(trips: int) -> None:
    graph = read_xml(DATA / "loop.xml")
    inputs = {"M": np.array(trips), "x": np.float32([1, 2]), "a0": np.float32([10, 20])}
    last, every = interpret(graph, inputs)
    expected = [[10 + i, 20 + 2 * i] for i in range(1, trips + 1)]
    assert every.tolist() == expected and every.shape == (trips, 2)
    assert last.tolist() == (expected or [[10, 20]])[-1]
    (op,) = [graph.op(n) for n in graph.ids() if graph.op(n).kind == "Loop"]
    assert isinstance(op, Loop)
    assert [p.mode for p in op.ports] == ["iteration", "carried", "invariant"]
    assert [r.mode for r in op.results] == ["last", "joined"] and op.condition == 0


def test_tensor_iterator() -> None:
    graph = read_xml(DATA / "scan.xml")
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    last, every = interpret(graph, {"s0": np.float32([1, 1]), "x": x})
    np.testing.assert_array_equal(every, 1 + np.cumsum(x, axis=0))
    np.testing.assert_array_equal(last, every[-1])


def test_reversed_slices_and_unordered_entries() -> None:
    text, weights = text_of("scan")
    for name in ('internal_layer_id="1"', 'internal_layer_id="8"'):
        before = f'{name} start="0" end="-1" stride="1"'
        assert text.count(before) == 1
        text = text.replace(before, f'{name} start="-1" end="0" stride="-1"')
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if "<port_map>" in line)
    lines[at + 1 : at + 5] = lines[at + 4 : at : -1]
    graph = read_xml("\n".join(lines).encode(), weights)
    verify(graph)
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    _, every = interpret(graph, {"s0": np.float32([1, 1]), "x": x})
    np.testing.assert_array_equal(every, (1 + np.cumsum(x[::-1], axis=0))[::-1])


def edited(name: str, old: str, new: str) -> tuple[bytes, bytes]:
    text, weights = text_of(name)
    assert old in text, old
    return text.replace(old, new, 1).encode(), weights


BROKEN = {
    "no then body": ("if", "<then_body>", "<other>", "not well-formed"),
    "no port map": ("loop", "port_map>", "port_nap>", "not well-formed"),
    "unknown inner layer": (
        "if",
        'external_port_id="1" internal_layer_id="0"',
        'external_port_id="1" internal_layer_id="9"',
        "not a Parameter of the body",
    ),
    "inner layer of another kind": (
        "if",
        'external_port_id="1" internal_layer_id="0"',
        'external_port_id="1" internal_layer_id="3"',
        "not a Parameter",
    ),
    "unknown outer input": ("if", 'external_port_id="1"', 'external_port_id="7"', "input port"),
    "unknown outer output": ("if", 'external_port_id="3"', 'external_port_id="7"', "output port"),
    "negative outer": ("if", 'external_port_id="1"', 'external_port_id="-1"', "input port"),
    "missing outer": ("if", 'external_port_id="1" ', "", "'external_port_id' is missing"),
    "bad number": ("if", 'external_port_id="1"', 'external_port_id="x"', "'external_port_id'"),
    "twice": (
        "loop",
        '<input external_port_id="3" internal_layer_id="2" />',
        '<input external_port_id="3" internal_layer_id="1" />',
        "twice",
    ),
    "unknown purpose": ("loop", "current_iteration", "something", "purpose"),
    "stride 0": ("scan", 'stride="1"', 'stride="0"', "stride of 0"),
    "part size 0": ("scan", 'part_size="1"', 'part_size="0"', "without size"),
    "bad axis": ("scan", 'axis="0"', 'axis="x"', "'axis'"),
    "axis out of range": ("scan", 'axis="0"', 'axis="7"', "axis"),
    "back edge from nowhere": (
        "loop",
        'from-layer="8" to-layer="1"',
        'from-layer="80" to-layer="1"',
        "not a Result of the body",
    ),
    "back edge to a result": (
        "loop",
        'from-layer="8" to-layer="1"',
        'from-layer="8" to-layer="9"',
        "not a Parameter of the body",
    ),
    "unconnected output": (
        "loop",
        '<output external_port_id="4" internal_layer_id="8" />',
        "",
        "output of the layer is not connected",
    ),
    "unconnected parameter": (
        "loop",
        '<input external_port_id="3" internal_layer_id="2" />',
        "",
        "parameter of the body is not connected",
    ),
    "unknown in map": (
        "loop",
        '<input external_port_id="3"',
        '<inbut external_port_id="3"',
        "unknown element in a port map",
    ),
    "unknown in back edges": ("loop", '<edge from-layer="8" to-layer="1" />', "<x/>", "back_edges"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken(case: str) -> None:
    name, old, new, part = BROKEN[case]
    with pytest.raises(ModelFormatError) as caught:
        read_xml(*edited(name, old, new))
    assert part in str(caught.value)
    if part != "not well-formed":
        assert "(line " in str(caught.value)


def test_missing_sections() -> None:
    text, weights = text_of("if")
    for tag in ("then_body", "else_body", "then_port_map", "else_port_map"):
        broken = text.replace(f"<{tag}>", "<other>").replace(f"</{tag}>", "</other>")
        with pytest.raises(ModelFormatError, match=f"<{tag}> is missing"):
            read_xml(broken.encode(), weights)


def test_problems_inside_a_body_name_its_layer() -> None:
    with pytest.raises(UnsupportedOperationError) as caught:
        read_xml(*edited("if", 'type="Multiply"', 'type="Foo"'))
    assert 'layer 2 "e" (line 108)' in str(caught.value)
    with pytest.raises(ModelFormatError, match="outside the weights") as caught:
        read_xml(text_of("if")[0].encode(), bytes(9))
    assert "two" in str(caught.value)


def test_bodies_on_layers_that_have_none() -> None:
    inner = net([parameter(0), result(1)], [edge(0, 0, 1, 0)]).decode()
    inner = inner.replace("<net", "<body").replace("</net", "</body")
    source = net(
        [parameter(0), layer(1, "Abs", inputs=port(0), outputs=port(1), more=inner), result(2)],
        [edge(0, 0, 1, 0), edge(1, 1, 2, 0)],
    )
    with pytest.raises(ModelFormatError, match="has no bodies"):
        read_xml(source)


def nested_ifs(depth: int) -> bytes:
    """An If in an If in an If ..., around an Abs."""
    body = "<layers>" + parameter(0, "2") + layer(1, "Abs", inputs=port(0), outputs=port(1))
    body += result(2) + "</layers><edges>" + edge(0, 0, 1, 0) + edge(1, 1, 2, 0) + "</edges>"
    for _ in range(depth):
        maps = "".join(
            f'<{b}_port_map><input external_port_id="1" internal_layer_id="0"/>'
            f'<output external_port_id="2" internal_layer_id="2"/></{b}_port_map>'
            for b in ("then", "else")
        )
        bodies = "".join(f"<{b}_body>{body}</{b}_body>" for b in ("then",))
        small = "<layers>" + parameter(0, "2") + layer(1, "Exp", inputs=port(0), outputs=port(1))
        small += result(2) + "</layers><edges>" + edge(0, 0, 1, 0) + edge(1, 1, 2, 0) + "</edges>"
        bodies += f"<else_body>{small}</else_body>"
        condition = constant(3, "boolean", "", 0, 1)
        held = layer(
            1, "If", version="opset8", more=maps + bodies, inputs=port(0) + port(1), outputs=port(2)
        )
        body = f"<layers>{parameter(0, '2')}{condition}{held}{result(2)}</layers><edges>"
        body += edge(3, 0, 1, 0) + edge(0, 0, 1, 1) + edge(1, 2, 2, 0) + "</edges>"
    return f'<net version="11">{body}</net>'.encode()


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_nested_bodies(depth: int) -> None:
    graph = read_xml(nested_ifs(depth), b"\1")
    x: Array = np.array([-1, 2], np.float32)
    np.testing.assert_array_equal(interpret(graph, [x])[0], np.abs(x))


def test_very_deep_bodies_are_refused() -> None:
    for depth in (40, 200):
        with pytest.raises(Error, match="nested too deeply|depth"):
            read_xml(nested_ifs(depth), b"\1")


def nested_loops(depth: int) -> bytes:
    """A Loop in a Loop ..., around Concat(x, x): the carried size changes in every iteration."""
    concat = layer(1, "Concat", data='axis="0"', inputs=port(0) + port(1), outputs=port(2))
    body = f"<layers>{parameter(0, '?')}{concat}{result(2)}</layers><edges>"
    body += edge(0, 0, 1, 0) + edge(0, 0, 1, 1) + edge(1, 2, 2, 0) + "</edges>"
    maps = (
        '<port_map><input external_port_id="2" internal_layer_id="0"/>'
        '<output external_port_id="3" internal_layer_id="2"/></port_map>'
        '<back_edges><edge from-layer="2" to-layer="0"/></back_edges>'
    )
    for _ in range(depth):
        held = layer(
            1,
            "Loop",
            version="opset5",
            more=f"{maps}<body>{body}</body>",
            inputs=port(0) + port(1) + port(2),
            outputs=port(3),
        )
        constants = constant(3, "i64", "", 0, 8) + constant(4, "boolean", "", 8, 1)
        body = f"<layers>{parameter(0, '?')}{constants}{held}{result(2)}</layers><edges>"
        body += edge(3, 0, 1, 0) + edge(4, 0, 1, 1) + edge(0, 0, 1, 2) + edge(1, 3, 2, 0)
        body += "</edges>"
    return f'<net version="11">{body}</net>'.encode()


def test_nested_loops() -> None:
    weights = np.int64(2).tobytes() + b"\1"
    (found,) = interpret(read_xml(nested_loops(2), weights), [np.float32([1, 2])])
    assert found.shape == (2 * 2**4,)
    with pytest.raises(ModelFormatError, match="loops are nested too deeply"):
        read_xml(nested_loops(20), weights)


def test_kinds() -> None:
    for name, cls in (("if", If), ("loop", Loop), ("scan", TensorIterator)):
        graph = read_xml(DATA / f"{name}.xml")
        assert any(isinstance(graph.op(n), cls) for n in graph.ids())
