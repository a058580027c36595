"""Weights files of which a model refers to a little: sparse, beyond 4 GiB, changed meanwhile."""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
from pathlib import Path

import irc_compiler as irc
import irc_compiler.builder
import numpy as np
import onnx
import pytest
from irc_compiler.compiler.frontends.xml import file_parts
from irc_compiler.compiler.frontends.xml.file_parts import FileParts
from irc_compiler.compiler.frontends.xml.source import OpenFile
from irc_compiler.ir.errors import MemoryLimitError, ModelFormatError
from onnx import TensorProto, helper

try:
    import resource
except ImportError:  # there is none on Windows
    resource = None

SIZE = 8 << 30
# Of 64 bytes each; 2^32 lies between the first two, and the last ends the file.
OFFSETS = ((1 << 32) - 64, (1 << 32) + 64, 5 << 30, SIZE - 64)
VALUES = np.arange(16, dtype=np.float32)

# Compiles and runs a model with an address space of half the file's size; prints how much memory
# was resident beyond what the imports took.
LIMITED = """
import resource, sys
import numpy as np
import irc_compiler as irc, lxml.etree, onnx
import irc_compiler.runtime.jit.llvm
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
net = irc.compile_model(sys.argv[1], num_threads=1)
for y, want in zip(net(np.zeros(16, np.float32)), range(1, 5)):
    assert (y == want * np.arange(16)).all(), (y, want)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def write_sparse(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(SIZE)
        for times, offset in enumerate(OFFSETS, 1):
            file.seek(offset)
            file.write((VALUES * times).tobytes())
    assert path.stat().st_size == SIZE
    if path.stat().st_blocks * 512 > 64 << 20:
        pytest.skip("not run: the file system has no sparse files")


def onnx_model(folder: Path) -> Path:
    names = [f"w{n}" for n in range(len(OFFSETS))]
    weights: list[TensorProto] = []
    for name, offset in zip(names, OFFSETS, strict=True):
        weight = TensorProto(name=name, dims=[16], data_type=1)
        weight.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "m.data"), ("offset", offset), ("length", 64)):
            weight.external_data.add(key=key, value=str(value))
        weights.append(weight)
    x = helper.make_tensor_value_info("x", 1, [16])
    ys = [helper.make_tensor_value_info(f"y{n}", 1, [16]) for n in range(len(names))]
    nodes = [helper.make_node("Add", ["x", w], [y.name]) for w, y in zip(names, ys, strict=True)]
    graph = helper.make_graph(nodes, "g", [x], ys, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    write_sparse(folder / "m.data")
    return folder / "m.onnx"


def xml_model(folder: Path) -> Path:
    """The same as IR: written small, then its constants moved."""
    x = irc.builder.parameter("x", [16])
    sums = {f"y{n}": irc.builder.add(x, VALUES * (n + 1)) for n in range(len(OFFSETS))}
    irc.save_model(irc.builder.model(sums), folder / "m.xml")
    text = (folder / "m.xml").read_text()
    stored = np.fromfile(folder / "m.bin", np.float32).reshape(-1, 16)
    for position, row in enumerate(stored):
        old, new = f'offset="{position * 64}"', f'offset="@{OFFSETS[int(row[1]) - 1]}"'
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "m.xml").write_text(text.replace("@", ""))
    write_sparse(folder / "m.bin")
    return folder / "m.xml"


@pytest.mark.slow
@pytest.mark.skipif(resource is None, reason="not run: the system limits no address space")
@pytest.mark.parametrize("make", [onnx_model, xml_model])
def test_a_sparse_file_of_8_gib_loads(make: object, tmp_path: Path) -> None:
    assert callable(make)
    path = make(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 192 << 10, f"{done.stdout} KiB"  # LLVM's code, not the file


def parts_of(path: Path, max_memory: int | None = None) -> FileParts:
    return FileParts(OpenFile(path, "the weights"), max_memory)


def test_every_range_has_its_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    content = rng.integers(0, 256, 1 << 20, np.uint8)
    (tmp_path / "w").write_bytes(content.tobytes())
    for round_ in range(30):
        starts = rng.integers(0, content.size, 40)
        ranges = [(int(s), int(min(content.size, s + rng.integers(0, 5000)))) for s in starts]
        parts = parts_of(tmp_path / "w")
        if round_ % 3:
            parts.expect(ranges[: 20 * (round_ % 3)])
            parts.expect([(-1, 5), (5, 3), (0, content.size + 1)])
        for first, last in ranges:
            found = parts.part(first, last)
            assert (found == content[first:last]).all() and not found.flags.writeable
        assert parts.referred <= content.size * 2
        parts.close()


def test_neighbours_are_read_at_once_and_aligned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "w").write_bytes(bytes(1 << 20))
    read: list[tuple[int, int]] = []
    part = OpenFile.part
    monkeypatch.setattr(
        OpenFile, "part", lambda self, a, b: (read.append((a, b)), part(self, a, b))[1]
    )
    parts = parts_of(tmp_path / "w")
    parts.expect([(100, 200), (200, 5000), (70_000, 70_001), (900_000, 900_010)])
    first, again = parts.part(128, 192), parts.part(100, 5000)
    assert np.shares_memory(first, again) and first.ctypes.data % 16 == 0
    parts.part(70_000, 70_001)
    assert read == [(64, 70_001)]
    parts.part(900_000, 900_010)
    assert read[1:] == [(899_968, 900_010)]
    parts.close()


def test_overlaps_do_not_multiply_a_small_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_parts, "MAX_OVERLAP_BYTES", 0)
    (tmp_path / "w").write_bytes(bytes(1 << 20))
    parts = parts_of(tmp_path / "w")
    with pytest.raises(MemoryLimitError, match="again and again"):
        for step in range(100):
            parts.part(step * 64, (1 << 20) - 100 + step)
    assert parts.referred <= 3 << 20
    with pytest.raises(MemoryLimitError, match="max_memory"):
        parts_of(tmp_path / "w", 1000).part(0, 5000)


@pytest.mark.parametrize("make", [onnx_model, xml_model])
def test_a_file_that_becomes_shorter_is_an_error(
    make: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two reads of it: an error, where a mapped file would end the process."""
    assert callable(make)
    path = make(tmp_path)
    weights = tmp_path / ("m.data" if path.suffix == ".onnx" else "m.bin")
    part = OpenFile.part

    def shorten(self: OpenFile, first: int, last: int) -> object:
        if first >= 1 << 30:
            os.truncate(weights, 1 << 20)
        return part(self, first, last)

    monkeypatch.setattr(OpenFile, "part", shorten)
    with pytest.raises(ModelFormatError, match="became shorter"):
        irc.read_model(path)


@pytest.mark.slow
def test_no_file_is_mapped() -> None:
    """Every mmap of the package is anonymous, so that no file's change is a signal."""
    root, found = Path(irc.__file__).parent, 0
    for folder in ("ir", "compiler", "runtime", "cli", "compat", "ops"):
        for path in (root / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call):
                    continue
                called = ast.unparse(node.func)
                assert not called.endswith(("memmap", "open_memmap")), f"{path}:{node.lineno}"
                assert not any(k.arg == "mmap_mode" for k in node.keywords), f"{path}:{node.lineno}"
                if called == "mmap.mmap":
                    assert ast.unparse(node.args[0]) == "-1", f"{path}:{node.lineno}"
                    found += 1
    assert found


def test_handles_are_closed(tmp_path: Path) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("not run: the system does not list open files")
    paths = [onnx_model(tmp_path), xml_model(tmp_path)]
    before = len(os.listdir("/proc/self/fd"))
    for path in paths:
        irc.read_model(path)
        broken = path.with_stem("n")
        model = path.read_bytes()
        broken.write_bytes(model.replace(b"5368709120", b"9999999999"))
        (tmp_path / "n.bin").symlink_to("m.bin") if path.suffix == ".xml" else None
        with pytest.raises(ModelFormatError, match="outside"):
            irc.read_model(broken)
    assert len(os.listdir("/proc/self/fd")) == before


def test_onnx_loads_the_same(tmp_path: Path) -> None:
    """The onnx package's own reader finds the same values at these offsets."""
    path = onnx_model(tmp_path)
    model = onnx.load(path)
    values = [onnx.numpy_helper.to_array(w) for w in model.graph.initializer]
    assert all((v == VALUES * n).all() for n, v in enumerate(values, 1))


def test_a_refused_file_is_closed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be that of another file by the time that the object is collected."""
    gc.collect()  # files of other tests
    closed, close = list[int](), os.close

    def count(handle: int) -> None:
        closed.append(handle)
        close(handle)

    monkeypatch.setattr(os, "close", count)
    with pytest.raises(irc.Error, match="not a regular file"):
        OpenFile(tmp_path, "the weights")
    gc.collect()
    assert len(closed) == 1
    path = tmp_path / "weights.bin"
    path.write_bytes(b"abc")
    read = OpenFile(path, "the weights")
    assert bytes(read.part(1, 3)) == b"bc" and len(closed) == 1
    del read
    gc.collect()
    assert len(closed) == 2
