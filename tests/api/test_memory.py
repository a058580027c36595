"""What a compiled model holds: each weight once, in its kernels' order, shared by equal files."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.ir.provenance import file_slice_of, note
from onnx import TensorProto, helper, numpy_helper


def large(path: Path, layers: int = 4, size: int = 1024) -> Path:
    """Layers of size x size weights in f32, and biases."""
    rng = np.random.default_rng(3)
    nodes, constants, value = [], [], "x"
    for i in range(layers):
        w = rng.integers(-3, 4, (size, size)).astype(np.float32)
        constants += [numpy_helper.from_array(w, f"w{i}")]
        constants += [numpy_helper.from_array(np.ones(size, np.float32), f"b{i}")]
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [f"y{i}"]))
        value = f"y{i}"
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, size]) for n in ("x", value)]
    graph = helper.make_graph(nodes, "large", ports[:1], ports[1:], constants)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return path


def as_ir(path: Path) -> Path:
    irc.save_model(irc.read_model(path), path.with_suffix(".xml"))
    return path.with_suffix(".xml")


@pytest.mark.parametrize("make", [lambda p: p, as_ir], ids=["onnx", "xml"])
def test_models_of_one_file_share_their_weights(tmp_path: Path, make) -> None:
    path = make(large(tmp_path / "m.onnx", size=128))
    first = irc.compile_model(path)
    with ThreadPoolExecutor(1) as another:
        second = another.submit(irc.compile_model, path, num_threads=1).result()
    held = {id(c) for c in first.program.constants if c.nbytes > 1000}
    assert held and held == {id(c) for c in second.program.constants if c.nbytes > 1000}
    x = np.ones((1, 128), np.float32)
    assert np.array_equal(first(x)[0], second(x)[0])


def test_a_file_that_changed_is_another_file(tmp_path: Path) -> None:
    path = large(tmp_path / "m.onnx", layers=1, size=64)
    first = irc.compile_model(path)
    changed = onnx.load(path)
    w = numpy_helper.to_array(changed.graph.initializer[0]) + 1
    changed.graph.initializer[0].CopyFrom(numpy_helper.from_array(w, "w0"))
    onnx.save(changed, path)
    second = irc.compile_model(path)
    x = np.ones((1, 64), np.float32)
    assert np.array_equal(second(x)[0], first(x)[0] + 64)
    with pytest.raises(irc.ModelFormatError, match="is not what it was") as caught:
        first.export(tmp_path / "m.irc")
    assert str(path) in str(caught.value) and not (tmp_path / "m.irc").exists()


@pytest.mark.parametrize("make", [lambda p: p, as_ir], ids=["onnx", "xml"])
def test_a_compiled_file_can_still_be_seen_exported_and_pickled(tmp_path: Path, make) -> None:
    path = make(large(tmp_path / "m.onnx", layers=2, size=64))
    here = os.getcwd()
    try:
        os.chdir(tmp_path)  # a relative path means the folder of that moment
        net = irc.compile_model(path.name)
    finally:
        os.chdir(here)
    x = np.arange(64, dtype=np.float32)[None] % 5
    expected = net(x)[0]
    net.export(tmp_path / "m.irc")
    for other in (pickle.loads(pickle.dumps(net)), irc.compile_model(tmp_path / "m.irc")):
        assert np.array_equal(other(x)[0], expected)
    assert len(net.graph) > 4 and net.model.inputs[0].shape == (1, 64)


def test_a_given_model_is_kept(tmp_path: Path) -> None:
    path = large(tmp_path / "m.onnx", layers=1, size=64)
    net = irc.compile_model(irc.read_model(path))
    path.unlink()
    net.export(tmp_path / "m.irc")
    assert (tmp_path / "m.irc").stat().st_size > 64 * 64 * 4


GROWTH = """
import json, sys
import irc_compiler as irc, llvmlite.binding, numpy as np, onnx
def resident():
    with open("/proc/self/status") as lines:
        return next(int(x.split()[1]) << 10 for x in lines if x.startswith("VmRSS"))
irc.compile_model(sys.argv[2])
before = resident()
net = irc.compile_model(sys.argv[1])
net(np.zeros((1, 1024), np.float32))
print(json.dumps(resident() - before))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="not run: needs Linux's /proc")
def test_memory_grows_by_the_weights_alone(tmp_path: Path) -> None:
    """After the libraries are loaded by a small model: 64 MiB of weights cost at most 1.2 times
    that, not once as they lie in the file and once packed."""
    small, path = large(tmp_path / "s.onnx", size=8), large(tmp_path / "m.onnx", layers=16)
    words = [sys.executable, "-c", GROWTH, str(path), str(small)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) < 1.2 * path.stat().st_size


def test_file_offsets_follow_views_and_die_with_their_memory() -> None:
    memory = np.arange(24, dtype=np.float32)
    note(memory, "file", 100)
    view = memory[4:].reshape(4, 5).T
    found = file_slice_of(view)
    assert (
        found is not None
        and found.start == 116
        and found == file_slice_of(memory[4:].reshape(4, 5).T)
    )
    assert found != file_slice_of(memory[4:].reshape(4, 5))
    assert file_slice_of(memory.copy()) is None
    other = np.arange(24, dtype=np.float32)
    del memory, view
    assert file_slice_of(other) is None
