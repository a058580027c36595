"""Broken and hostile files: each ends in one error that says what, where, got and expected."""

from __future__ import annotations

import os
from pathlib import Path

import irc_compiler.ir.errors as errors
import pytest
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.ops import Gelu
from support.frontends.ir_text import (
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
from support.frontends.xml_broken_nets import ABS, CONST, EDGES, FORMAT, GOOD, NETS, UNSUPPORTED
from support.frontends.xml_broken_values import VALUES

CASES = NETS | VALUES


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


@pytest.mark.slow
def test_every_truncation_is_refused() -> None:
    text = (DATA / "mlp_v10.xml").read_bytes().rstrip()
    weights = (DATA / "mlp_v10.bin").read_bytes()
    assert len(read_xml(text, weights).results) == 1
    for length in range(len(text)):
        with pytest.raises(FORMAT, match="not well-formed XML"):
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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="not run: no named pipes")
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
    read_xml(model, max_memory=4000)  # of the file, little is referred to
    model.write_bytes(constant_net("u8", "5000", 0, 5000))
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


@pytest.mark.slow
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
