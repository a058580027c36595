"""IR files written by OpenVINO: they read, verify, compute what OpenVINO computes, and survive our
writer, so that OpenVINO computes the same from what we write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from irc_compiler.compiler.export.xml import write_xml
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.dims import Dim
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.op import Array
from irc_compiler.ir.types import TensorType
from irc_compiler.ir.verify import verify
from support.frontends.ir_text import DATA
from support.models.exact_int8 import OPENVINO_CONFIG

SAMPLES = sorted(path.stem for path in DATA.glob("*.xml"))
# No engine runs a dynamic rank; running all element types is not the point of consts.
RUNNABLE = [name for name in SAMPLES if name not in ("shapes", "consts")]
SIZE = 3


def inputs_of(graph: Graph) -> list[Array]:
    """Random inputs; equal sizes for all open dimensions."""
    rng = np.random.default_rng(0)
    out: list[Array] = []
    for node in graph.parameters:
        type_ = graph.node(node).types[0]
        assert isinstance(type_, TensorType) and type_.shape is not None
        shape = [_size(d) for d in type_.shape]
        if type_.dtype.is_float:
            out.append(rng.standard_normal(shape).astype(type_.dtype.numpy))
        else:
            out.append(np.asarray(rng.integers(1, 2, shape)).astype(type_.dtype.numpy))
    return out


def _size(d: Dim) -> int:
    return d if isinstance(d, int) else SIZE


def run_openvino(path: Path, inputs: list[Array]) -> list[Array]:
    import openvino as ov

    options: dict[str, Any] = OPENVINO_CONFIG | {"INFERENCE_NUM_THREADS": 1}
    compiled = ov.Core().compile_model(str(path), "CPU", options)
    found = compiled(inputs)
    return [np.array(found[i]) for i in range(len(compiled.outputs))]


@pytest.mark.parametrize("name", SAMPLES)
def test_reads_and_verifies(name: str) -> None:
    verify(read_xml(DATA / f"{name}.xml"))


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNNABLE)
def test_computes_what_openvino_computes(name: str, tmp_path: Path) -> None:
    source = DATA / f"{name}.xml"
    graph = read_xml(source)
    inputs = inputs_of(graph)
    expected = run_openvino(source, inputs)
    found = interpret(graph, inputs)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=2e-6)
    # Round trip: same values by us, same values by OpenVINO.
    written = tmp_path / "written.xml"
    write_xml(graph, written)
    again = read_xml(written)
    verify(again)
    for ours, before in zip(interpret(again, inputs), found, strict=True):
        np.testing.assert_array_equal(ours, before)
    for theirs, before in zip(run_openvino(written, inputs), expected, strict=True):
        np.testing.assert_array_equal(theirs, before)


@pytest.mark.parametrize("name", SAMPLES)
def test_openvino_sees_the_same_model_in_what_we_write(name: str, tmp_path: Path) -> None:
    import openvino as ov

    written = tmp_path / "written.xml"
    write_xml(read_xml(DATA / f"{name}.xml"), written)
    before, after = (ov.Core().read_model(str(path)) for path in (DATA / f"{name}.xml", written))
    for ports in ("inputs", "outputs"):
        described = [
            [(p.names, str(p.partial_shape), p.element_type) for p in getattr(model, ports)]
            for model in (before, after)
        ]
        assert described[0] == described[1]
    kinds = [sorted(op.get_type_name() for op in model.get_ops()) for model in (before, after)]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("name", SAMPLES)
def test_writing_twice_changes_nothing(name: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first.xml", tmp_path / "second.xml"
    write_xml(read_xml(DATA / f"{name}.xml"), first)
    write_xml(read_xml(first), second)
    assert first.read_bytes() == second.read_bytes()
    assert first.with_suffix(".bin").read_bytes() == second.with_suffix(".bin").read_bytes()


@pytest.mark.parametrize("name", ["consts", "shapes", "mlp_fp16", "loop", "if"])
def test_weights_and_rt_info_survive(name: str, tmp_path: Path) -> None:
    written = tmp_path / "written.xml"
    graph = read_xml(DATA / f"{name}.xml")
    write_xml(graph, written)
    again = read_xml(written)
    assert again.rt_info == graph.rt_info and again.name == graph.name
    before = [graph.node(n).rt_info for n in graph.order()]
    assert [again.node(n).rt_info for n in again.order()] == before
    types = [graph.node(n).types for n in graph.order()]
    assert [again.node(n).types for n in again.order()] == types
