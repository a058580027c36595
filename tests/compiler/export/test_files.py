"""The .xml and .bin on disk: both are written whole, or nothing is."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from irc_compiler.compiler.export import xml as export
from irc_compiler.compiler.export.xml import write_xml
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import Error, UnsupportedOperationError
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.op import Op
from irc_compiler.ir.ops import (
    Add,
    Parameter,
    Result,
    TypedParameter,
)
from irc_compiler.ir.types import SequenceType, TensorType
from support.frontends.ir_text import DATA
from support.frontends.small_graphs import constant, graph_of


@pytest.fixture
def graph() -> Graph:
    return graph_of(
        (Parameter(DType.f32, (2,)), []), (constant([1, 2]), []), (Add(), [0, 1]), (Result(), [2])
    )


def listing(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_both_files_are_written_with_ordinary_permissions(graph: Graph, tmp_path: Path) -> None:
    write_xml(graph, tmp_path / "m.xml")
    assert sorted(listing(tmp_path)) == ["m.bin", "m.xml"]
    mask = os.umask(0)
    os.umask(mask)
    for name in ("m.bin", "m.xml"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o666 & ~mask
    write_xml(graph, str(tmp_path / "a.xml"), tmp_path / "other.weights")
    assert "other.weights" in listing(tmp_path) and "a.bin" not in listing(tmp_path)
    write_xml(graph_of((Parameter(DType.f32, (2,)), []), (Result(), [0])), tmp_path / "b.xml")
    assert listing(tmp_path)["b.bin"] == b""


FORMLESS: dict[str, Op] = {
    "no element type": constant([1], DType.f8e4m3fnuz),
    "no operation": TypedParameter(SequenceType(TensorType(DType.f32, None))),
}


@pytest.mark.parametrize("what", FORMLESS)
def test_nothing_is_written_when_the_graph_has_no_form(
    what: str, graph: Graph, tmp_path: Path
) -> None:
    formless = graph_of((FORMLESS[what], []), (Result(), [0]))
    with pytest.raises(UnsupportedOperationError):
        write_xml(formless, tmp_path / "m.xml")
    assert listing(tmp_path) == {}
    write_xml(graph, tmp_path / "m.xml")
    before = listing(tmp_path)
    with pytest.raises(UnsupportedOperationError):
        write_xml(formless, tmp_path / "m.xml")
    assert listing(tmp_path) == before


def test_nothing_is_written_when_writing_fails(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_xml(graph, tmp_path / "m.xml")
    before = listing(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Error, match="cannot be written") as caught:
        write_xml(graph, tmp_path / "m.xml", compress_to_fp16=True)
    assert "No space left" in str(caught.value) and "m.xml" in str(caught.value)
    assert listing(tmp_path) == before


def test_interrupts_leave_no_litter(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(export, "write_net", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_xml(graph, tmp_path / "m.xml")
    assert listing(tmp_path) == {}


def test_paths_that_cannot_be_written(graph: Graph, tmp_path: Path) -> None:
    for target in (tmp_path / "no" / "m.xml", tmp_path):
        with pytest.raises(Error, match="cannot be written"):
            write_xml(graph, target)
    (tmp_path / "m.bin").mkdir()
    with pytest.raises(Error, match="cannot be written"):
        write_xml(graph, tmp_path / "m.xml")
    assert [p.name for p in tmp_path.iterdir()] == ["m.bin"]


def test_a_model_may_replace_the_file_it_was_read_from(tmp_path: Path) -> None:
    for suffix in (".xml", ".bin"):
        (tmp_path / f"m{suffix}").write_bytes((DATA / f"mlp{suffix}").read_bytes())
    graph = read_xml(tmp_path / "m.xml")
    x = np.ones((2, 16), np.float32)
    before = interpret(graph, [x])
    write_xml(graph, tmp_path / "m.xml")
    np.testing.assert_array_equal(interpret(graph, [x])[0], before[0])
    np.testing.assert_array_equal(interpret(read_xml(tmp_path / "m.xml"), [x])[0], before[0])
