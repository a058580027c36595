"""Compiled models in the code cache: found where nothing has changed, and only there."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import openvino
import pytest
from irc_compiler.api import model_cache
from irc_compiler.api.model_cache import ModelEntry
from irc_compiler.compat import onnxruntime as compat
from irc_compiler.ir.errors import MemoryLimitError, ModelFormatError
from onnx import TensorProto, helper, numpy_helper
from support.fixtures import ModelLookups

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def write(
    path: Path,
    weight: float = 2.0,
    *,
    width: int = 4,
    rows: int | str = "rows",
    last: str = "Relu",
) -> Path:
    """y = relu(x w), or another operation of x w, with metadata."""
    w = numpy_helper.from_array(np.full((4, width), weight, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node(last, ["p"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 4])],
        [
            helper.make_tensor_value_info(
                "y", TensorProto.FLOAT, [rows, width] if last == "Relu" else None
            )
        ],
        [w],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, {"labels": "a,b"})
    onnx.save(model, path)
    return path


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return write(tmp_path / "m.onnx")


def test_the_second_compile_finds_what_the_first_stored(lookups: ModelLookups, path: Path) -> None:
    nets = [irc.compile_model(path, num_threads=1) for _ in range(3)]
    assert lookups.found == [False, True, True]
    for net in nets:
        np.testing.assert_array_equal(net(X)["y"], np.maximum(X @ np.full((4, 4), 2.0), 0))
    first, last = nets[0], nets[-1]
    assert last.plan == first.plan
    assert last.inputs == first.inputs
    assert last.rt_info == first.rt_info
    assert last.metadata == first.metadata
    assert last.report() == first.report()
    assert len(last.graph) == len(first.graph)
    assert last.model.name == first.model.name


def _check_is_compiled(lookups: ModelLookups, path: Path, weight: float) -> None:
    """The model of a file is not found, and has this weight."""
    net = irc.compile_model(path, num_threads=1)
    assert lookups.found[-1] is False
    np.testing.assert_array_equal(net(X)["y"], X @ np.full((4, 4), weight))


def test_a_found_model_is_exported_and_pickled(
    lookups: ModelLookups, path: Path, tmp_path: Path
) -> None:
    found = _compile_until_found(lookups, path)
    found.export(tmp_path / "m.irc")
    want = found(X)["y"]
    np.testing.assert_array_equal(irc.CompiledModel.load(tmp_path / "m.irc")(X)["y"], want)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found))(X)["y"], want)


def _compile_until_found(lookups: ModelLookups, source: Any, **options: Any) -> irc.CompiledModel:
    for _ in range(2):
        net = irc.compile_model(source, num_threads=1, **options)
        if lookups.found[-1:] == [True]:
            return net
    raise AssertionError(f"not found: {lookups.found}")


@pytest.mark.parametrize(("last", "most_files"), [("Relu", 0), ("Unique", 12)])
def test_a_process_that_finds_its_model_imports_no_compiler(
    last: str, most_files: int, tmp_path: Path
) -> None:
    """Of the operations, it imports those that its plan evaluates in Python."""
    path = write(tmp_path / "m.onnx", last=last)
    code = (
        "import irc_compiler as irc, numpy as np, sys\n"
        "from irc_compiler.api import model_cache\n"
        "model_cache._MIN_AGE_NS = 0\n"
        f"net = irc.compile_model({str(path)!r}, num_threads=1)\n"
        "print(net(np.ones((1, 4), np.float32))['y'].flat[0])\n"
        "print(sorted({'onnx', 'networkx', 'llvmlite', 'irc_compiler.compiler.pipeline'}"
        " & set(sys.modules)))\n"
        "print(sum(n.startswith('irc_compiler.ir.ops.') for n in sys.modules))\n"
    )
    env = os.environ | {"IRC_MODEL_CACHE": "1", "IRC_CACHE_DIR": str(tmp_path / "cache")}
    texts = [
        subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        ).stdout.split("\n")
        for _ in range(2)
    ]
    assert [t[0] for t in texts] == ["8.0"] * 2
    assert "irc_compiler.compiler.pipeline" in texts[0][1]
    assert texts[1][1] == "[]"
    assert int(texts[0][2]) > 80 and int(texts[1][2]) <= most_files


def test_bytes_of_another_graph_name_are_found(lookups: ModelLookups, path: Path) -> None:
    """skl2onnx writes a new name and another order of operator sets at each start of a program."""
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    first = compat.InferenceSession(model.SerializeToString())
    model.graph.name = "another"
    model.opset_import.reverse()
    found = compat.InferenceSession(model.SerializeToString())
    assert lookups.found == [False, True]
    assert first.get_modelmeta().graph_name == "g"
    assert found.get_modelmeta().graph_name == found.net.model.name == "another"
    np.testing.assert_array_equal(found.net(X)["y"], first.net(X)["y"])
    assert found.net.report() == irc.compile_model(model).report()


def test_a_changed_file_is_compiled_again(lookups: ModelLookups, path: Path) -> None:
    _compile_until_found(lookups, path)
    write(path, 3.0)
    _check_is_compiled(lookups, path, 3.0)


def test_a_replaced_file_of_equal_size_and_time_is_compiled_again(
    lookups: ModelLookups, path: Path, tmp_path: Path
) -> None:
    _compile_until_found(lookups, path)
    before = path.stat()
    other = write(tmp_path / "other.onnx", 3.0)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(other, path)
    assert path.stat().st_size == before.st_size
    _check_is_compiled(lookups, path, 3.0)


@pytest.mark.parametrize("changed", ["m.xml", "m.bin"])
def test_both_files_of_an_ir_are_watched(
    lookups: ModelLookups, path: Path, tmp_path: Path, changed: str
) -> None:
    irc.save_model(path, tmp_path / "m.xml")
    _compile_until_found(lookups, tmp_path / "m.xml")
    irc.save_model(write(path, 5.0), tmp_path / "new.xml")
    if changed == "m.bin":
        (tmp_path / "m.bin").write_bytes((tmp_path / "new.bin").read_bytes())
        want = X @ np.full((4, 4), 5.0)
    else:
        (tmp_path / "m.xml").write_bytes((tmp_path / "m.xml").read_bytes() + b"\n")
        want = X @ np.full((4, 4), 2.0)
    net = irc.compile_model(tmp_path / "m.xml", num_threads=1)
    assert lookups.found[-1] is False
    np.testing.assert_array_equal(net(X)[0], want)


def test_equal_texts_with_other_weights_have_entries_of_their_own(
    lookups: ModelLookups, path: Path, tmp_path: Path
) -> None:
    for name, weight in (("a", 2.0), ("b", 3.0)):
        (tmp_path / name).mkdir()
        irc.save_model(write(path, weight), tmp_path / name / "m.xml")
    assert (tmp_path / "a" / "m.xml").read_bytes() == (tmp_path / "b" / "m.xml").read_bytes()
    _compile_until_found(lookups, tmp_path / "a" / "m.xml")
    net = _compile_until_found(lookups, tmp_path / "b" / "m.xml")
    np.testing.assert_array_equal(net(X)[0], X @ np.full((4, 4), 3.0))
    net = irc.compile_model(tmp_path / "a" / "m.xml", num_threads=1)
    assert lookups.found[-1] is True
    np.testing.assert_array_equal(net(X)[0], X @ np.full((4, 4), 2.0))


def test_external_data_is_watched(lookups: ModelLookups, path: Path, tmp_path: Path) -> None:
    def save(weight: float) -> None:
        model = onnx.load(write(path, weight))
        onnx.save(
            model,
            tmp_path / "e.onnx",
            save_as_external_data=True,
            location="e.data",
            size_threshold=0,
        )

    save(2.0)
    _compile_until_found(lookups, tmp_path / "e.onnx")
    (tmp_path / "e.data").write_bytes(np.full((4, 4), 7.0, np.float32).tobytes())
    net = irc.compile_model(tmp_path / "e.onnx", num_threads=1)
    assert lookups.found[-1] is False
    np.testing.assert_array_equal(net(X)["y"], X @ np.full((4, 4), 7.0))


def test_options_have_entries_of_their_own(lookups: ModelLookups, path: Path) -> None:
    _compile_until_found(lookups, path)
    for options in (
        {"precision": "bf16"},
        {"shapes": {"x": [3, 4]}},
        {"denormals": "keep"},
        {"declared_shapes": "ignore"},
    ):
        net = irc.compile_model(path, num_threads=1, **options)
        assert lookups.found[-1] is False
        net(X)
        found = _compile_until_found(lookups, path, **options)
        assert found.options == net.options
        assert found.inputs == net.inputs


def test_threads_and_performance_share_an_entry(lookups: ModelLookups, path: Path) -> None:
    _compile_until_found(lookups, path)
    with irc.compile_model(path, num_threads=2, performance="throughput") as net:
        assert lookups.found[-1] is True
        np.testing.assert_array_equal(net(X)["y"], X @ np.full((4, 4), 2.0))


def test_bytes_are_found_by_what_they_are(
    lookups: ModelLookups, path: Path, tmp_path: Path
) -> None:
    data = path.read_bytes()
    found = _compile_until_found(lookups, data)
    np.testing.assert_array_equal(found(X)["y"], X @ np.full((4, 4), 2.0))
    assert len(found.model.graph) == len(irc.read_model(data).graph)
    other = write(tmp_path / "o.onnx", 3.0).read_bytes()
    net = irc.compile_model(other, num_threads=1)
    assert lookups.found[-1] is False
    np.testing.assert_array_equal(net(X)["y"], X @ np.full((4, 4), 3.0))


def test_an_openvino_model_is_found_by_its_content(lookups: ModelLookups, path: Path) -> None:
    """OpenVINO numbers the names that it makes, from process to process and from model to model."""
    model, core = onnx.load(path), openvino.Core()
    model.graph.node[1].CopyFrom(helper.make_node("HardSigmoid", ["p"], ["y"], alpha=0.5))
    onnx.save(model, path)
    want = np.minimum(0.5 * (X @ np.full((4, 4), 2.0)) + 0.5, 1)
    names = list[set[str]]()
    for _ in range(2):
        read = core.read_model(path)
        names.append({op.get_friendly_name() for op in read.get_ops()})
        net = irc.compile_model(read, num_threads=1)
        np.testing.assert_array_equal(net(X)["y"], want)
    assert lookups.found == [False, True] and names[0] != names[1]
    changed = core.read_model(path)
    changed.reshape([3, 4])
    assert irc.compile_model(changed, num_threads=1).inputs[0].shape == (3, 4)
    assert lookups.found == [False, True, False]


@pytest.mark.parametrize("kind", [bytearray, openvino.Core().read_model])
def test_the_graph_of_what_was_changed_in_memory_is_refused(
    lookups: ModelLookups, path: Path, kind: Callable[[bytes], Any]
) -> None:
    source = kind(path.read_bytes())
    _compile_until_found(lookups, source)
    net = irc.compile_model(source, num_threads=1)
    assert lookups.found[-1] is True
    assert len(irc.compile_model(source, num_threads=1).graph) > 0
    if isinstance(source, bytearray):
        source[-1] ^= 1
    else:
        source.reshape([3, 4])
    with pytest.raises(ModelFormatError, match="not what it was"):
        _ = net.graph


@pytest.mark.parametrize(
    "spoil",
    [lambda data: b"", lambda data: data[:200], lambda data: data[:150] + b"x" + data[151:]],
    ids=["empty", "short", "overwritten"],
)
def test_a_spoiled_entry_is_removed_and_the_model_compiled(
    lookups: ModelLookups, path: Path, tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    _compile_until_found(lookups, path)
    (stored,) = (tmp_path / "cache").glob("*.program")
    stored.write_bytes(spoil(stored.read_bytes()))
    net = irc.compile_model(path, num_threads=1)
    np.testing.assert_array_equal(net(X)["y"], X @ np.full((4, 4), 2.0))
    _compile_until_found(lookups, path)


def test_a_file_that_was_just_written_is_known_by_its_content(
    lookups: ModelLookups, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its times need not change when it is written again."""
    monkeypatch.setattr(model_cache, "_MIN_AGE_NS", 1 << 62)
    monkeypatch.setattr(model_cache, "_state_of", lambda path: (1, 100, 0, 0))
    _compile_until_found(lookups, path)
    write(path, 3.0)
    _check_is_compiled(lookups, path, 3.0)


def test_a_copy_of_a_file_is_found_and_its_graph_read(
    lookups: ModelLookups, path: Path, tmp_path: Path
) -> None:
    _compile_until_found(lookups, path)
    copy = tmp_path / "elsewhere.onnx"
    copy.write_bytes(path.read_bytes())
    path.unlink()
    net = irc.compile_model(copy, num_threads=1)
    assert lookups.found[-1] is True
    assert len(net.graph) == len(irc.compile_model(irc.read_model(copy), num_threads=1).graph)


def test_a_model_whose_file_is_written_meanwhile_is_not_stored(
    lookups: ModelLookups, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ModelEntry.store

    def write_and_store(entry: ModelEntry, *given: Any) -> None:
        write(path, 3.0)
        store(entry, *given)

    monkeypatch.setattr(ModelEntry, "store", write_and_store)
    for _ in range(3):
        write(path, 2.0)
        irc.compile_model(path, num_threads=1)
    assert lookups.found == [False] * 3


def test_a_model_takes_an_eighth_of_the_cache_at_most(
    lookups: ModelLookups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRC_CACHE_BYTES", str(1 << 20))
    path = write(tmp_path / "large.onnx", width=9000)
    for _ in range(3):
        irc.compile_model(path, num_threads=1)
    assert lookups.found == []


@pytest.mark.parametrize(
    ("variable", "value"),
    [("IRC_MODEL_CACHE", "0"), ("IRC_CACHE_DIR", "off"), ("IRC_VERIFY", "1")],
)
def test_variables_leave_models_out(
    lookups: ModelLookups, path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    _compile_until_found(lookups, path)
    del lookups.found[:]
    monkeypatch.setenv(variable, value)
    irc.compile_model(path, num_threads=1)
    assert lookups.found == []


def test_a_limit_of_memory_is_checked_by_a_compile(lookups: ModelLookups, path: Path) -> None:
    _compile_until_found(lookups, path)
    del lookups.found[:]
    with pytest.raises(MemoryLimitError):
        irc.compile_model(path, max_memory=16)
    assert lookups.found == []


def test_operations_of_users_leave_models_out(
    lookups: ModelLookups, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_cache, "has_extensions", lambda: True)
    for _ in range(3):
        irc.compile_model(path, num_threads=1)
    assert lookups.found == []


def test_the_graph_of_a_found_model_needs_its_file_unchanged(
    lookups: ModelLookups, path: Path
) -> None:
    net = _compile_until_found(lookups, path)
    write(path, 3.0)
    np.testing.assert_array_equal(net(X)["y"], X @ np.full((4, 4), 2.0))
    with pytest.raises(ModelFormatError, match="not what it was"):
        _ = net.graph


def test_sessions_of_compat_read_no_file_again(
    lookups: ModelLookups, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compat.InferenceSession(str(path))
    for _ in range(2):
        compat.InferenceSession(str(path))
    assert lookups.found[-1] is True
    monkeypatch.setattr(
        "irc_compiler.compiler.frontends.onnx.files.model_file.load_model",
        lambda source: pytest.fail("the file is read"),
    )
    session = compat.InferenceSession(str(path))
    assert [i.shape for i in session.get_inputs()] == [["rows", 4]]
    assert [i.shape for i in session.get_inputs()] == [i.shape for i in first.get_inputs()]
    assert session.get_modelmeta().custom_metadata_map == {"labels": "a,b"}
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X @ np.full((4, 4), 2.0))


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_session_of_compat_identifies_its_model_once(
    lookups: ModelLookups, path: Path, monkeypatch: pytest.MonkeyPatch, as_bytes: bool
) -> None:
    """Also one whose file was just written; the next session identifies it anew."""
    monkeypatch.setattr(model_cache, "_MIN_AGE_NS", 1 << 62)

    def start(weight: float) -> compat.InferenceSession:
        write(path, weight)
        return compat.InferenceSession(path.read_bytes() if as_bytes else str(path))

    for _ in range(3):
        start(2.0)
    assert lookups.found[-1] is True
    identified: list[Any] = []
    identify = model_cache._read_identity

    def read_identity(source: Any, *given: Any) -> Any:
        identified.append(source)
        return identify(source, *given)

    monkeypatch.setattr(model_cache, "_read_identity", read_identity)
    session = start(2.0)
    assert lookups.found[-1] is True and len(identified) == 1
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X @ np.full((4, 4), 2.0))
    session = start(3.0)
    assert len(identified) == 2
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X @ np.full((4, 4), 3.0))


def test_a_contradiction_of_declared_shapes_is_remembered(
    lookups: ModelLookups, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = onnx.load(path)
    wrong = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 9])
    model.graph.output[0].CopyFrom(wrong)
    onnx.save(model, path)
    texts: list[str] = []
    for _ in range(3):
        with pytest.warns(UserWarning, match="declared") as found:
            compat.InferenceSession(str(path))
        texts += [str(w.message) for w in found]
    monkeypatch.setattr(
        "irc_compiler.compiler.frontends.onnx.files.model_file.load_model",
        lambda source: pytest.fail("the file is read"),
    )
    with pytest.warns(UserWarning, match="declared") as again:
        session = compat.InferenceSession(str(path))
    assert {str(w.message) for w in again} == set(texts)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X @ np.full((4, 4), 2.0))


def test_a_folder_is_no_graph(lookups: ModelLookups, path: Path, tmp_path: Path) -> None:
    assert path.parent == tmp_path
    with pytest.raises(ModelFormatError):
        irc.compile_model(tmp_path)
    assert lookups.found == []
