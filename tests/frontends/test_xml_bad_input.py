"""Broken and hostile files: each ends in one error that says what, where, got and expected."""

from __future__ import annotations

import os
from pathlib import Path

import irc.ir.errors as errors
import pytest
from ir_text import (
    DATA,
    constant,
    constant_net,
    edge,
    layer,
    matmul_net,
    net,
    parameter,
    port,
    result,
    unary_net,
)
from irc.compiler.frontends.xml.reader import read_xml
from irc.ir.ops import Gelu

FORMAT, SHAPE = errors.ModelFormatError, errors.ShapeError
UNSUPPORTED = errors.UnsupportedOperationError

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


# (source, weights, error, parts of the message)
CASES: dict[str, tuple[bytes, bytes | None, type[Exception], list[str]]] = {
    # XML
    "empty": (b"", None, FORMAT, ["not well-formed XML", "an empty file"]),
    "spaces": (b"  \n ", None, FORMAT, ["not well-formed XML"]),
    "garbage": (b"\x80\x01\x02", None, FORMAT, ["not well-formed", r"b'\x80"]),
    "git-lfs": (b"version https://git-lfs.github.com/spec/v1\n", None, FORMAT, ["git-lfs pointer"]),
    "truncated": (GOOD[:200], None, FORMAT, ["not well-formed XML", "line"]),
    "doctype": (b'<!DOCTYPE net SYSTEM "file:///etc/passwd">' + GOOD, None, FORMAT, ["DOCTYPE"]),
    "entity": (
        b'<!DOCTYPE net [<!ENTITY e "x">]>' + edited('name="m"', 'name="&e;"'),
        None,
        FORMAT,
        ["DOCTYPE"],
    ),
    "undefined entity": (edited("<layers>", "<layers>&e;"), None, FORMAT, ["not well-formed"]),
    "billion laughs": (BOMB, None, FORMAT, ["line"]),
    "deep nesting": (b"<net version='11'>" + b"<a>" * 5000, None, FORMAT, ["depth"]),
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
    "no id": (edited('id="1" name="a"', 'name="a"'), None, FORMAT, ["'id' is missing", "line 4"]),
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
        ["'id' is missing", "<port>"],
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
    # Constants
    "no weights": (CONST, None, FORMAT, ["no weights were given", "weights=..."]),
    "bin short by one": (
        CONST,
        b"x" * 27,
        FORMAT,
        ["outside", "offset 4, size 24", "27 bytes", "layer 0"],
    ),
    "bin is a git-lfs pointer": (
        constant_net("f32", "500", 0, 2000),
        b"version https://git-lfs.github.com/spec/v1\noid",
        FORMAT,
        ["outside", "git-lfs pointer"],
    ),
    "offset past end": (
        constant_net("f32", "", 29, 4),
        b"x" * 28,
        FORMAT,
        ["outside", "offset 29"],
    ),
    "offset + size overflows": (
        constant_net("f32", "", 2**64 - 4, 8),
        b"x" * 28,
        FORMAT,
        ["outside", f"offset {2**64 - 4}"],
    ),
    "negative offset": (constant_net("f32", "", -4, 4), b"x" * 28, FORMAT, ["'offset'", '"-4"']),
    "size abc": (
        edited('size="24"', 'size="abc"', CONST),
        b"x" * 28,
        FORMAT,
        ["'size'", '"abc"', "unsigned"],
    ),
    "size too small": (
        constant_net("f32", "2, 3", 0, 23),
        b"x" * 28,
        FORMAT,
        ["too small", "size 23", "24 bytes", "f32[2, 3]"],
    ),
    "shape product overflows": (
        constant_net("f32", f"{2**62}, {2**62}", 0, 24),
        b"x" * 28,
        FORMAT,
        ["too small", str(2**126)],
    ),
    "negative const dim": (constant_net("f32", "-1", 0, 4), b"x" * 28, FORMAT, ["'shape'", '"-1"']),
    "const without size": (
        edited(' size="24"', "", CONST),
        b"x" * 28,
        FORMAT,
        ["no attribute 'size'"],
    ),
    "const without shape": (
        edited(' shape="2, 3"', "", CONST),
        b"x" * 28,
        FORMAT,
        ["no attribute 'shape'", "layer 0"],
    ),
    "const shape 2,,3": (
        constant_net("f32", "2,,3", 0, 24),
        b"x" * 28,
        FORMAT,
        ["'shape'", '"2,,3"'],
    ),
    "const shape 2,3,": (
        constant_net("f32", "2,3,", 0, 24),
        b"x" * 28,
        FORMAT,
        ["'shape'", '"2,3,"'],
    ),
    "const element type": (
        edited('element_type="f32"', 'element_type="FP32"', CONST),
        b"x" * 28,
        FORMAT,
        ["'element_type'", '"FP32"', "f32"],
    ),
    # Parameters and attributes
    "parameter shape": (unary_net(shape="2,foo"), None, FORMAT, ["'shape'", '"2,foo"', "layer 0"]),
    "parameter without shape": (
        edited(' shape="2,3"', " ", unary_net()),
        None,
        FORMAT,
        ["no attribute 'shape'"],
    ),
    "parameter without type": (
        edited(' element_type="f32"', "", unary_net()),
        None,
        FORMAT,
        ["no attribute 'element_type'"],
    ),
    "bool attribute": (
        edited('transpose_a="false"', 'transpose_a="maybe"', matmul_net("2,3", "3,4", (2, 4))),
        None,
        FORMAT,
        ["'transpose_a'", '"maybe"', "true, false", 'layer 2 "product"'],
    ),
    "int attribute": (
        unary_net("Softmax", data='axis="abc"'),
        None,
        FORMAT,
        ["'axis'", '"abc"', "integer"],
    ),
    "fraction for int": (
        unary_net("Softmax", data='axis="1.5"'),
        None,
        FORMAT,
        ["'axis'", '"1.5"'],
    ),
    "float attribute": (
        unary_net("Elu", data='alpha="x"'),
        None,
        FORMAT,
        ["'alpha'", '"x"', "number"],
    ),
    "word attribute": (
        unary_net("Gelu", data='approximation_mode="foo"', version="opset7"),
        None,
        FORMAT,
        ["'approximation_mode'", '"foo"', "one of ERF, TANH", "layer 1"],
    ),
    "word of another operation": (
        unary_net("Round", data='mode="bilinear"', version="opset5"),
        None,
        FORMAT,
        ["'mode'", '"bilinear"', "half_to_even"],
    ),
    "required attribute": (unary_net("Elu"), None, FORMAT, ["'alpha' is missing", "layer 1"]),
    "type attribute": (
        unary_net("Convert", data='destination_type="float"'),
        None,
        FORMAT,
        ["'destination_type'", '"float"'],
    ),
    # Types and shapes
    "axis out of range": (
        unary_net("Softmax", data='axis="5"', version="opset8"),
        None,
        SHAPE,
        ["axis", "5", "layer 1"],
    ),
    "inner sizes": (
        matmul_net("2,3", "4,5", (2, 5)),
        None,
        SHAPE,
        ["inner sizes", "product", "3 and 4"],
    ),
    "batch sizes": (matmul_net("2,2,3", "3,3,5", ()), None, SHAPE, ["batch", "product"]),
    "rank 0": (matmul_net("", "3,5", ()), None, SHAPE, ["scalar", "product"]),
    "declared shape": (
        matmul_net("2,3", "3,5", (7, 7)),
        None,
        SHAPE,
        ["shape [7, 7]", "f32[2, 5]", 'layer 2 "product" (line 5)', 'declared_shapes="ignore"'],
    ),
    "declared rank": (matmul_net("2,3", "3,5", (1, 2, 5)), None, SHAPE, ["[1, 2, 5]", "ignore"]),
    "declared type": (
        edited('<port id="1" precision="FP32">', '<port id="1" precision="I64">'),
        None,
        SHAPE,
        ["element type i64", "f32[2, 3]", 'layer 1 "a"', 'declared_shapes="ignore"'],
    ),
    "mixed types": (
        net(
            [
                parameter(0),
                parameter(1, "2,3", "f16", "FP16"),
                layer(2, "Add", inputs=port(0) + port(1), outputs=port(2)),
                result(3),
            ],
            [edge(0, 0, 2, 0), edge(1, 0, 2, 1), edge(2, 2, 3, 0)],
        ),
        None,
        SHAPE,
        ["one element type", "f32, f16", "layer 2"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, tmp_path: Path) -> None:
    source, weights, kind, parts = CASES[name]
    with pytest.raises(kind) as caught:
        read_xml(source, weights)
    assert type(caught.value) is kind
    for part in [*parts, "<xml>"] if name != "no weights" else parts:
        assert part in str(caught.value), f"{part!r} is not in:\n{caught.value}"
    # The same file read by path is named by its path.
    path = tmp_path / "broken.xml"
    path.write_bytes(source)
    if weights is not None:
        path.with_suffix(".bin").write_bytes(weights)
    with pytest.raises(kind) as caught:
        read_xml(path)
    assert "broken." in str(caught.value)


def test_all_unsupported_operations_in_one_error() -> None:
    kinds = ["Foo", "Bar", "Foo", "Foo", "Foo"]
    layers = [
        layer(i + 1, kind, name=f"n{i}", inputs=port(0), outputs=port(1, names=f"t{i}"))
        for i, kind in enumerate(kinds)
    ]
    edges = [edge(i, int(i > 0), i + 1, 0) for i in range(len(kinds) + 1)]
    with pytest.raises(UNSUPPORTED) as caught:
        read_xml(net([parameter(0), *layers, result(6)], edges))
    text = str(caught.value)
    assert "5 layers" in text and "Foo opset1: 4 x" in text and "Bar opset1: 1 x" in text
    assert '"n0"' in text and "and 1 more" in text
    assert caught.value.exit_code == 4


def test_declared_types_can_be_ignored() -> None:
    graph = read_xml(matmul_net("2,3", "3,5", (7, 7)), declared_shapes="ignore")
    assert str(graph.node(graph.results[0]).types[0]) == "f32[2, 5]"


def test_every_truncation_is_refused() -> None:
    text = (DATA / "mlp_v10.xml").read_bytes().rstrip()
    weights = (DATA / "mlp_v10.bin").read_bytes()
    assert len(read_xml(text, weights).results) == 1
    for length in range(0, len(text), 7):
        with pytest.raises(FORMAT):
            read_xml(text[:length], weights)


@pytest.mark.parametrize("length", [0, 1, 47, 48, 63])
def test_truncated_weights(length: int) -> None:
    weights = (DATA / "mlp_v10.bin").read_bytes()[:length]
    with pytest.raises(FORMAT, match="outside the weights"):
        read_xml((DATA / "mlp_v10.xml").read_bytes(), weights)


def test_missing_and_irregular_files(tmp_path: Path) -> None:
    with pytest.raises(FORMAT, match="cannot open the model") as caught:
        read_xml(tmp_path / "nosuch.xml")
    assert "nosuch.xml" in str(caught.value)
    with pytest.raises(FORMAT, match="regular file|cannot open"):
        read_xml(tmp_path)
    with pytest.raises(FORMAT):
        read_xml("a\0b.xml")
    model = tmp_path / "m.xml"
    model.write_bytes(CONST)
    with pytest.raises(FORMAT, match="file with its weights is missing") as caught:
        read_xml(model)
    assert "m.bin" in str(caught.value)
    (tmp_path / "m.bin").mkdir()
    with pytest.raises(FORMAT, match="regular file|cannot open"):
        read_xml(model)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    model, pipe = tmp_path / "m.xml", tmp_path / "m.bin"
    model.write_bytes(CONST)
    os.mkfifo(pipe)
    with pytest.raises(FORMAT, match="not a regular file") as caught:
        read_xml(model)
    assert "a pipe" in str(caught.value)
    with pytest.raises(FORMAT, match="not a regular file"):
        read_xml(pipe)


def test_memory_limit_is_named(tmp_path: Path) -> None:
    model = tmp_path / "m.xml"
    model.write_bytes(CONST)
    model.with_suffix(".bin").write_bytes(bytes(5000))
    with pytest.raises(errors.MemoryLimitError, match="max_memory"):
        read_xml(model, max_memory=4000)
    # Unpacking may need more than the file: 1000 bytes hold 8000 elements of u1.
    model.write_bytes(constant_net("u1", "8000", 0, 1000))
    model.with_suffix(".bin").write_bytes(bytes(1000))
    with pytest.raises(errors.MemoryLimitError, match="max_memory"):
        read_xml(model, max_memory=4000)


def test_bodies_may_not_nest_without_end() -> None:
    inner = "<layers/>"
    for _ in range(40):
        inner = f"<layers>{layer(0, 'If', more=f'<then_body>{inner}</then_body>')}</layers>"
    with pytest.raises(FORMAT, match="nested too deeply"):
        read_xml(f'<net version="11">{inner}</net>'.encode())


def test_a_file_that_shrinks_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "m.xml"
    model.write_bytes(GOOD)
    real = os.fstat

    def larger(handle: int) -> os.stat_result:
        status = list(real(handle))
        status[6] += 10  # st_size
        return os.stat_result(status)

    monkeypatch.setattr(os, "fstat", larger)
    with pytest.raises(FORMAT, match="became shorter") as caught:
        read_xml(model)
    assert f"{len(GOOD)} bytes" in str(caught.value)


def test_a_long_chain_loads() -> None:
    count = 50_000
    layers = [
        layer(i, "ReLU", name="", inputs=port(0), outputs=port(1, (2, 3))) for i in range(1, count)
    ]
    edges = [edge(i, int(i > 0), i + 1, 0) for i in range(count)]
    graph = read_xml(net([parameter(0), *layers, result(count)], edges))
    assert len(graph) == count + 1


def test_weights_of_a_dead_constant_are_not_needed() -> None:
    text = net([parameter(0), ABS, result(2), constant(3, "f32", "2", 0, 8)], EDGES)
    assert len(read_xml(text)) == 3


def test_words_are_read_in_any_case() -> None:
    text = unary_net("Gelu", data='approximation_mode="tanh" unknown="x"', version="opset13")
    graph = read_xml(text)
    (op,) = [graph.op(n) for n in graph.ids() if graph.op(n).kind == "Gelu"]
    assert op == Gelu("TANH")
