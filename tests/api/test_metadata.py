"""Metadata stored in a model reaches the model, the compiled model, .xml, .irc and OpenVINO."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import irc_compiler as irc
import onnx
import openvino as ov
import pytest
from google.protobuf.internal import api_implementation
from irc_compiler.cli.main import main
from onnx import ModelProto, TensorProto, helper

METADATA = {
    "names": "{0: 'cat', 1: 'dog'}",
    "characters": "a\nb\t\"<&>'\r\u3000\u4e2d",
    "9 not a tag": "x",
    "": "an empty key",
    "info": "a tag of its own",
    "empty": "",
}


def model(metadata: dict[str, str]) -> ModelProto:
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 3]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 17)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="maker")
    helper.set_model_props(proto, metadata)
    return proto


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("metadata") / "m.onnx"
    path.write_bytes(model(METADATA).SerializeToString())
    return path


def test_metadata_survives_every_format(path: Path, tmp_path: Path) -> None:
    assert irc.read_model(path).metadata == METADATA
    net = irc.compile_model(path)
    assert net.metadata == METADATA and net.rt_info["onnx"]["producer_name"] == "maker"
    net.export(tmp_path / "m.irc")
    loaded = irc.compile_model(tmp_path / "m.irc")
    assert loaded.metadata == METADATA and loaded.rt_info == net.rt_info
    irc.save_model(path, tmp_path / "m.xml")
    assert irc.read_model(tmp_path / "m.xml").metadata == METADATA
    irc.save_model(loaded.model, tmp_path / "again.xml", dialect=True)
    assert irc.compile_model(tmp_path / "again.xml").metadata == METADATA


def test_metadata_and_description_come_back_to_onnx(tmp_path: Path) -> None:
    proto = model(METADATA)
    proto.domain, proto.model_version, proto.doc_string = "org.example", 7, "what it does"
    proto.producer_version, proto.graph.doc_string = "1.2", "of the graph"
    for name in ("m.onnx", "m.xml"):  # at once, and by way of an IR
        read = irc.read_model(proto)
        irc.save_model(read, tmp_path / name)
        irc.save_model(tmp_path / name, tmp_path / "back.onnx")
        found = onnx.load(tmp_path / "back.onnx")
        assert {p.key: p.value for p in found.metadata_props} == METADATA
        for field in ("domain", "model_version", "doc_string", "producer_name", "producer_version"):
            assert getattr(found, field) == getattr(proto, field), field
        assert found.graph.doc_string == "of the graph"


def test_rt_info_survives_onnx(tmp_path: Path) -> None:
    held = irc.read_model(model(METADATA))
    tree = {"nncf": {"quantization": {"preset": "mixed"}}, "Runtime_version": "2026.4"}
    held.graph.rt_info |= tree
    irc.save_model(held, tmp_path / "m.onnx")
    again = irc.read_model(tmp_path / "m.onnx")
    assert again.metadata == METADATA
    assert {k: again.rt_info[k] for k in tree} == tree


@pytest.mark.parametrize(
    "key", ["rt_info/", "rt_info/a//b", "rt_info/framework/a", "rt_info/" + "a/" * 40]
)
def test_keys_that_are_no_paths_stay_metadata(key: str) -> None:
    assert irc.read_model(model({key: "v"})).metadata == {key: "v"}


def test_openvino_and_irc_read_what_the_other_wrote(path: Path, tmp_path: Path) -> None:
    core = ov.Core()
    irc.save_model(path, tmp_path / "irc.xml")
    ov.save_model(core.read_model(path), tmp_path / "ov.xml")
    assert irc.read_model(tmp_path / "ov.xml").metadata == METADATA
    read = core.read_model(tmp_path / "irc.xml")
    for key in ("names", "characters", "9 not a tag", "empty"):
        assert read.get_rt_info(["framework", key]).astype(str) == METADATA[key]


def test_the_last_of_two_values_counts() -> None:
    proto = model({"a": "1"})
    entry = proto.metadata_props.add()
    entry.key, entry.value = "a", "2"
    assert irc.read_model(proto).metadata == {"a": "2"}
    assert irc.read_model(model({})).metadata == {}


def _with_bytes() -> bytes:
    """A model whose metadata are no UTF-8."""
    return model({"a": "12"}).SerializeToString().replace(b"\x12\x0212", b"\x12\x02\xff2")


@pytest.mark.skipif(
    api_implementation.Type() == "python", reason="not run: protobuf has no extension here"
)
def test_bytes_become_text() -> None:
    assert irc.read_model(_with_bytes()).metadata == {"a": "\ufffd2"}


def test_protobuf_in_python_refuses_bytes(tmp_path: Path) -> None:
    """Where protobuf has no extension, as in free-threaded interpreters."""
    path = tmp_path / "m.onnx"
    path.write_bytes(_with_bytes())
    code = (
        "import irc_compiler as irc\n"
        f"try: irc.read_model({str(path)!r})\n"
        "except irc.ModelFormatError as error: print(error)"
    )
    env = os.environ | {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert "a text that is not UTF-8" in run.stdout, run.stderr


def test_inspect_prints_metadata(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metadata"] == METADATA
    assert main(["inspect", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "metadata    \"names\": \"{0: 'cat', 1: 'dog'}\"" in printed
    assert 'description "producer_name": "maker"' in printed
    assert "\t" not in printed and "\r" not in printed


@pytest.mark.slow
def test_a_value_that_no_reader_of_xml_accepts_is_refused_when_it_is_written(
    tmp_path: Path,
) -> None:
    held = irc.read_model(model({"long": "&" * 2_000_000}))
    with pytest.raises(irc.UnsupportedOperationError, match="metadata value is too long"):
        irc.save_model(held, tmp_path / "m.xml")
    irc.save_model(irc.read_model(model({"long": "&" * 1_600_000})), tmp_path / "m.xml")
    assert len(irc.read_model(tmp_path / "m.xml").metadata["long"]) == 1_600_000
