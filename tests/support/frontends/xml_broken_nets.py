"""Broken XML: text, root, layers, ports, edges."""

from __future__ import annotations

import irc_compiler.ir.errors as errors

from support.frontends.ir_text import (
    constant_net,
    edge,
    layer,
    net,
    parameter,
    port,
    result,
)

FORMAT, SHAPE = errors.ModelFormatError, errors.ShapeError
UNSUPPORTED = errors.UnsupportedOperationError
# Source, weights, error, parts of the message.
Case = tuple[bytes, bytes | None, type[Exception], list[str]]

ABS = layer(1, "Abs", name="a", inputs=port(0), outputs=port(1))
EDGES = [edge(0, 0, 1, 0), edge(1, 1, 2, 0)]
GOOD = net([parameter(0), ABS, result(2)], EDGES)


def edited(old: str, new: str, source: bytes = GOOD) -> bytes:
    """A net with one place changed; the place has to be there."""
    assert source.count(old.encode()) >= 1, old
    return source.replace(old.encode(), new.encode(), 1)


TWO_INPUTS = layer(1, "Add", name="sum", inputs=port(0) + port(1), outputs=port(2))
CYCLE = net(
    [
        parameter(0),
        layer(1, "Add", name="first", inputs=port(0) + port(1), outputs=port(2)),
        layer(2, "Abs", name="second", inputs=port(0), outputs=port(1)),
        result(3),
    ],
    [edge(0, 0, 1, 0), edge(2, 1, 1, 1), edge(1, 2, 2, 0), edge(2, 1, 3, 0)],
)
BOMB = (
    '<!DOCTYPE net [<!ENTITY a0 "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 9))
    + ']><net name="&a8;" version="11"><layers/></net>'
).encode()
CONST = constant_net("f32", "2, 3", 4, 24)

NETS: dict[str, Case] = {
    # XML
    "empty": (b"", None, FORMAT, ["not well-formed XML", "an empty file"]),
    "spaces": (b"  \n ", None, FORMAT, ["not well-formed XML"]),
    "garbage": (b"\x80\x01\x02", None, FORMAT, ["not well-formed", r"b'\x80"]),
    "git-lfs": (b"version https://git-lfs.github.com/spec/v1\n", None, FORMAT, ["git-lfs pointer"]),
    "doctype": (b'<!DOCTYPE net SYSTEM "file:///etc/passwd">' + GOOD, None, FORMAT, ["DOCTYPE"]),
    "entity": (
        b'<!DOCTYPE net [<!ENTITY e "x">]>' + edited('name="m"', 'name="&e;"'),
        None,
        FORMAT,
        ["DOCTYPE"],
    ),
    "undefined entity": (
        edited("<layers>", "<layers>&e;"),
        None,
        FORMAT,
        ["not well-formed", "Entity 'e' not defined", "line 2"],
    ),
    "billion laughs": (BOMB, None, FORMAT, ["line", "entities", "without document type"]),
    "deep nesting": (
        b"<net version='11'>" + b"<a>" * 5000,
        None,
        FORMAT,
        ["nested too deeply", "<a><a>", "at most 256"],
    ),
    "deep and closed": (
        b"<net version='11'>" + b"<a>" * 1000 + b"</a>" * 1000 + b"</net>",
        None,
        FORMAT,
        ["nested too deeply", "at most 256"],
    ),
    "long attribute": (
        edited('name="a"', f'name="{"x" * 11_000_000}"'),
        None,
        FORMAT,
        ["too long", "from line 4", '<layer id="1" name="xxx', "less than 10 MB"],
    ),
    "truncated": (
        GOOD[:200],
        None,
        FORMAT,
        [
            "the text ends early",
            "a text that ends with",
            "</net> at its end",
            "copy the file again",
        ],
    ),
    "nul": (edited('name="a"', 'name="\0"'), None, FORMAT, ["not well-formed"]),
    "not utf-8": (GOOD.replace(b'name="a"', b'name="\xff"'), None, FORMAT, ["not well-formed"]),
    "mixed content": (
        edited("<layers>", "<layers>x"),
        None,
        FORMAT,
        ["text where", '"x"', "line 2"],
    ),
    "text after a layer": (edited("</layer>\n", "</layer>y\n"), None, FORMAT, ["text", '"y"']),
    "text in ports": (edited("<input>", "<input>z"), None, FORMAT, ["text", '"z"']),
    # Root
    "root": (edited("<net", "<nut").replace(b"</net", b"</nut"), None, FORMAT, ["<nut>", "<net>"]),
    "version 9": (edited('version="11"', 'version="9"'), None, FORMAT, ['"9"', "10 or 11"]),
    "version 12": (edited('version="11"', 'version="12"'), None, FORMAT, ['"12"', "10 or 11"]),
    "version 011": (edited('version="11"', 'version="011"'), None, FORMAT, ["10 or 11"]),
    "no version": (edited('version="11"', ""), None, FORMAT, ["no version", "10 or 11"]),
    "no layers": (b'<net version="11"/>', None, FORMAT, ["no <layers>"]),
    "two layers": (edited("<edges>", "<layers/><edges>"), None, FORMAT, ["more than one <layers>"]),
    "unknown in layers": (edited("<layers>", "<layers><x/>"), None, FORMAT, ["<x>", "<layer>"]),
    "unknown in edges": (edited("<edges>", "<edges><x/>"), None, FORMAT, ["<x>", "<edge>"]),
    "empty net": (net([], []), None, FORMAT, ["no Result"]),
    "no result": (net([parameter(0)], []), None, FORMAT, ["no Result", "at least one output"]),
    # Layers
    "no id": (
        edited('id="1" name="a"', 'name="a"'),
        None,
        FORMAT,
        ["'id' is missing", "line 4", '<layer name="a" type="Abs"'],
    ),
    "no name": (edited(' name="a"', ""), None, FORMAT, ["'name' is missing", "line 4"]),
    "no type": (edited(' type="Abs"', ""), None, FORMAT, ["'type' is missing", "line 4"]),
    "no opset": (edited('type="Abs" version="opset1"', 'type="Abs"'), None, FORMAT, ["'version'"]),
    "negative id": (edited('id="1" name="a"', 'id="-1" name="a"'), None, FORMAT, ["'id'", '"-1"']),
    "plus id": (edited('id="1" name="a"', 'id="+1" name="a"'), None, FORMAT, ["'id'", '"+1"']),
    "huge id": (
        edited('id="1" name="a"', f'id="{2**64}" name="a"'),
        None,
        FORMAT,
        ["'id'", "unsigned 64-bit"],
    ),
    "non-ASCII id": (edited('id="1" name="a"', 'id="١" name="a"'), None, FORMAT, ["'id'", "١"]),
    "duplicate id": (
        edited('id="1" name="a"', 'id="0" name="a"'),
        None,
        FORMAT,
        ["one id", 'layer 0 "a" (line 4)', 'layer 0 "l0" (line 3)'],
    ),
    "unknown type": (
        edited('type="Abs"', 'type="FooMul"'),
        None,
        UNSUPPORTED,
        ["FooMul opset1: 1 x", 'layer 1 "a" (line 4)', "FP32"],
    ),
    "unknown opset": (
        edited('type="Abs" version="opset1"', 'type="Abs" version="opset99"'),
        None,
        UNSUPPORTED,
        ["Abs opset99 (no such operation set)"],
    ),
    "too early opset": (
        edited('type="Abs" version="opset1"', 'type="Mish" version="opset3"'),
        None,
        UNSUPPORTED,
        ["Mish opset3"],
    ),
    # Ports
    "port without id": (
        edited('<port id="1"', "<port"),
        None,
        FORMAT,
        ["'id' is missing", "got: <port precision", 'expected: id="..."'],
    ),
    "two ports of one id": (
        net(
            [parameter(0), layer(1, "Add", inputs=port(0) + port(0), outputs=port(2)), result(2)],
            EDGES,
        ),
        None,
        FORMAT,
        ["two ports", "layer 1", "Add"],
    ),
    "output without precision": (
        edited('<port id="1" precision="FP32">', '<port id="1">'),
        None,
        FORMAT,
        ["port 1 has no precision", 'layer 1 "a"'],
    ),
    "unknown precision": (
        edited('<port id="1" precision="FP32">', '<port id="1" precision="F32">'),
        None,
        FORMAT,
        ["port 1", "unknown precision", "'F32'", "FP32"],
    ),
    "unknown in input": (edited("<input>", "<input><x/>"), None, FORMAT, ["<x>", "<port>"]),
    "dim -2": (
        edited("<dim>2</dim>", "<dim>-2</dim>"),
        None,
        FORMAT,
        ["negative size", "-2", "line"],
    ),
    "dim foo": (edited("<dim>2</dim>", "<dim>foo</dim>"), None, FORMAT, ["bad size", '"foo"']),
    "dim 1.5": (edited("<dim>2</dim>", "<dim>1.5</dim>"), None, FORMAT, ["bad size", '"1.5"']),
    "dim with element": (edited("<dim>2</dim>", "<dim>2<x/></dim>"), None, FORMAT, ["holds an"]),
    "port in a port": (
        edited("<dim>2</dim>", '<port id="9"/>'),
        None,
        FORMAT,
        ["unknown element in <port>", "<port>"],
    ),
    "dim in a layer": (edited("<input>", "<dim>2</dim><input>"), None, FORMAT, ["<dim>", "belong"]),
    "parameter with an input": (
        net(
            [parameter(0), layer(1, "Parameter", inputs=port(0), outputs=port(1)), result(2)],
            EDGES,
        ),
        None,
        FORMAT,
        ["a Parameter has no inputs", "layer 1"],
    ),
    # Edges
    "edge to nowhere": (
        net([parameter(0), ABS, result(2)], [*EDGES, edge(0, 0, 7, 0)]),
        None,
        FORMAT,
        ["does not exist (to-layer)", "got: 7", "line 10"],
    ),
    "edge from nowhere": (
        net([parameter(0), ABS, result(2)], [*EDGES, edge(7, 0, 1, 0)]),
        None,
        FORMAT,
        ["does not exist (from-layer)", "got: 7"],
    ),
    "edge from unknown port": (
        net([parameter(0), ABS, result(2)], [edge(0, 9, 1, 0), EDGES[1]]),
        None,
        FORMAT,
        ["output port that does not exist", 'layer 0 "l0"', "port 9", "one of ports 0", "line 8"],
    ),
    "edge from a result": (
        net([parameter(0), ABS, result(2)], [*EDGES, edge(2, 0, 1, 0)]),
        None,
        FORMAT,
        ["output port that does not exist", "another layer: this Result has no output ports"],
    ),
    "loop without body": (
        edited('type="Abs"', 'type="TensorIterator"'),
        None,
        FORMAT,
        ["<body> is missing", "expected: a <body>", 'layer 1 "a"'],
    ),
    "if without bodies": (
        edited('type="Abs" version="opset1"', 'type="If" version="opset8"'),
        None,
        FORMAT,
        ["<then_body> is missing", "expected: a <then_body>"],
    ),
    "edge to unknown port": (
        net([parameter(0), ABS, result(2)], [edge(0, 0, 1, 9), EDGES[1]]),
        None,
        FORMAT,
        ["input port that does not exist", 'layer 1 "a"', "port 9", "one of ports 0"],
    ),
    "edge without from-port": (
        edited('from-layer="0" from-port="0"', 'from-layer="0"'),
        None,
        FORMAT,
        ["<edge> (line 8)", "'from-port' is missing"],
    ),
    "negative layer in edge": (
        edited('from-layer="0"', 'from-layer="-1"'),
        None,
        FORMAT,
        ["'from-layer'", '"-1"', "unsigned"],
    ),
    "two edges into one port": (
        net([parameter(0), ABS, result(2)], [*EDGES, edge(0, 0, 1, 0)]),
        None,
        FORMAT,
        ["two edges", "input port 0", 'layer 1 "a"', "line 10"],
    ),
    "unconnected input 0": (
        net([parameter(0), TWO_INPUTS, result(2)], [edge(0, 0, 1, 1), edge(1, 2, 2, 0)]),
        None,
        FORMAT,
        ["input 0 (port 0) is not connected", 'layer 1 "sum"'],
    ),
    "unconnected input 1": (
        net([parameter(0), TWO_INPUTS, result(2)], [edge(0, 0, 1, 0), edge(1, 2, 2, 0)]),
        None,
        FORMAT,
        ["input 1 (port 1) is not connected", 'layer 1 "sum"'],
    ),
    "result without edge": (
        net([parameter(0), ABS, result(2)], EDGES[:1]),
        None,
        FORMAT,
        ["input 0 (port 0) is not connected", "layer 2", "Result"],
    ),
    "result without input": (
        net([parameter(0), layer(2, "Result")], []),
        None,
        FORMAT,
        ["a Result has one input", "got: 0"],
    ),
    "too few inputs": (
        net([parameter(0), layer(1, "Add", inputs=port(0), outputs=port(1)), result(2)], EDGES),
        None,
        SHAPE,
        ["Add", "input 1", "layer 1"],
    ),
    "too many inputs": (
        net(
            [parameter(0), layer(1, "Abs", inputs=port(0) + port(3), outputs=port(1)), result(2)],
            [*EDGES, edge(0, 0, 1, 3)],
        ),
        None,
        SHAPE,
        ["too many inputs", "layer 1"],
    ),
    "too many outputs": (
        net(
            [parameter(0), layer(1, "Abs", inputs=port(0), outputs=port(1) + port(2)), result(2)],
            EDGES,
        ),
        None,
        FORMAT,
        ["too many outputs", "layer 1", "got: 2"],
    ),
    "cycle": (
        CYCLE,
        None,
        FORMAT,
        ["cycle", 'layer 1 "first" (line 4) -> layer 2 "second" (line 5)'],
    ),
    "self-loop": (
        net(
            [parameter(0), TWO_INPUTS, result(2)],
            [edge(0, 0, 1, 0), edge(1, 2, 1, 1), edge(1, 2, 2, 0)],
        ),
        None,
        FORMAT,
        ["cycle", 'layer 1 "sum" (line 4) -> layer 1 "sum" (line 4)'],
    ),
}
