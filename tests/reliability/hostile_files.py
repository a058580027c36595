"""Every class of hostile and broken file, by name: how one is made, what irc says, with what code.

`make(folder)` writes files and returns the arguments of the command that meets them. Every class
of the reliability page stands here; the readers' own tests have many more cases of each.
"""

from __future__ import annotations

import functools
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

for beside in ("frontends", "runtime"):
    sys.path.append(str(Path(__file__).parents[1] / beside))
from artifacts import Parts  # noqa: E402
from irc.ir.errors import UnsupportedOperationError  # noqa: E402
from onnx_broken import model_of, node, tensor  # noqa: E402
from xml_broken_nets import CONST, NETS  # noqa: E402
from xml_broken_values import VALUES  # noqa: E402

DIGITS = Path(__file__).parents[2] / "samples" / "digits" / "digits.onnx"
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Make = Callable[[Path], Sequence[str]]


@dataclass(frozen=True)
class Hostile:
    """code: the command's exit code. words: parts of its message, beside where, got and so on."""

    kind: str
    name: str
    make: Make
    code: int = 3
    words: tuple[str, ...] = ()


def inspect(name: str) -> Sequence[str]:
    return ["inspect", name]


# XML ------------------------------------------------------------------------------------------

# Classes, and the cases of tests/frontends/xml_broken_*.py that belong to them.
XML_CLASSES: dict[str, tuple[str, ...]] = {
    "not XML": ("empty", "spaces", "garbage", "not utf-8", "nul"),
    "git-lfs pointers": ("git-lfs", "bin is a git-lfs pointer"),
    "DOCTYPE or entities": ("doctype", "entity", "undefined entity", "billion laughs"),
    "deep nesting": ("deep nesting", "deep and closed"),
    "wrong root or version": ("root", "version 9", "version 12", "version 011", "no version"),
    "missing numbers": ("no id", "port without id", "edge without from-port", "const without size"),
    "duplicate numbers": ("duplicate id", "two ports of one id"),
    "negative numbers": ("negative id", "negative layer in edge", "negative offset", "dim -2"),
    "huge numbers": ("huge id", "offset + size overflows"),
    "non-ASCII numbers": ("non-ASCII id",),
    "mixed content": ("mixed content", "text after a layer", "text in ports"),
    "unknown layer, opset": ("unknown type", "unknown opset", "too early opset"),
    "unknown port": ("edge from unknown port", "edge to unknown port"),
    "unknown element type": ("unknown precision", "const element type", "type attribute"),
    "unconnected inputs": ("unconnected input 0", "unconnected input 1", "result without edge"),
    "doubly connected inputs": ("two edges into one port",),
    "cycles": ("cycle", "self-loop"),
    "no Result": ("no result", "empty net"),
    "bad booleans": ("bool attribute",),
    "bad lists": ("const shape 2,,3", "const shape 2,3,", "parameter shape"),
    "overflowing shapes": ("shape product overflows",),
    "contradicting declarations": ("declared shape", "declared rank", "declared type"),
    ".bin missing": ("no weights",),
    ".bin short": ("bin short by one", "offset past end", "size too small"),
}


def xml_classes() -> Iterator[Hostile]:
    cases = NETS | VALUES
    for kind, names in XML_CLASSES.items():
        for name in names:
            source, weights, error, parts = cases[name]
            code = 4 if error is UnsupportedOperationError else 3
            words = tuple(parts) if name != "no weights" else ("weights is missing", "m.bin")
            yield Hostile(kind, name, functools.partial(_xml, source, weights), code, words)
    whole = cases["declared shape"][0]
    for share in (0.1, 0.5, 0.9, 0.99):
        cut = whole[: int(len(whole) * share)]
        make = functools.partial(_xml, cut, None)
        yield Hostile("XML truncated", f"at {share:.0%}", make, words=("not well-formed", "line"))
    yield Hostile(".bin a directory", "folder", _bin_folder, words=("a directory", "m.bin"))
    yield Hostile(".bin a FIFO", "pipe", _bin_pipe, words=("a pipe", "m.bin"))
    yield Hostile(".bin a device", "zero", _bin_device, words=("a device", "m.bin"))


def _xml(source: bytes, weights: bytes | None, folder: Path) -> Sequence[str]:
    (folder / "m.xml").write_bytes(source)
    if weights is not None:
        (folder / "m.bin").write_bytes(weights)
    return inspect("m.xml")


def _bin_folder(folder: Path) -> Sequence[str]:
    (folder / "m.bin").mkdir()
    return _xml(CONST, None, folder)


def _bin_pipe(folder: Path) -> Sequence[str]:
    os.mkfifo(folder / "m.bin")
    return _xml(CONST, None, folder)


def _bin_device(folder: Path) -> Sequence[str]:
    os.symlink("/dev/zero", folder / "m.bin")
    return _xml(CONST, None, folder)


# ONNX -----------------------------------------------------------------------------------------


def _onnx(data: bytes | onnx.ModelProto, folder: Path) -> Sequence[str]:
    held = data if isinstance(data, bytes) else data.SerializeToString()
    (folder / "m.onnx").write_bytes(held)
    return inspect("m.onnx")


def weighted(**fields: Any) -> onnx.ModelProto:
    return model_of([node("Add", ["x", "w"], ["y"])], tensors=[tensor(**fields)])


def external(location: str, offset: str, length: str, folder: Path) -> Sequence[str]:
    """A weight that lies elsewhere, beside what must not be read."""
    inner = folder / "model"
    inner.mkdir()
    (folder / "secret.bin").write_bytes(bytes(100))
    (inner / "w.bin").write_bytes(bytes(24))
    os.symlink(folder / "secret.bin", inner / "link")
    os.symlink("/dev/zero", inner / "device")
    os.mkfifo(inner / "pipe")
    model = weighted(data_location=TensorProto.EXTERNAL)
    entries = {"location": location, "offset": offset, "length": length}
    for key, value in entries.items():
        model.graph.initializer[0].external_data.add(key=key, value=value)
    _onnx(model, inner)
    return inspect("model/m.onnx")


def own(name: str, body: list[onnx.NodeProto]) -> onnx.FunctionProto:
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], body, sets)


def call(name: str, source: str, target: str) -> onnx.NodeProto:
    return node(name, [source], [target], domain="own")


def recursive() -> onnx.ModelProto:
    functions = [own("One", [call("Two", "a", "b")]), own("Two", [call("One", "a", "b")])]
    return model_of([call("One", "x", "y")], functions=functions)


def exponential() -> onnx.ModelProto:
    functions = [own("F0", [node("Relu", ["a"], ["b"])])]
    for i in range(1, 60):
        body = [call(f"F{i - 1}", "a", "t"), call(f"F{i - 1}", "t", "b")]
        functions.append(own(f"F{i}", body))
    return model_of([call("F59", "x", "y")], functions=functions)


def nested_ifs(depth: int) -> bytes:
    """If inside If inside If, put together as bytes: protobuf's own writer refuses such depths."""
    leaf = helper.make_graph(
        [node("Relu", ["x"], ["z"])], "leaf", [], [onnx.ValueInfoProto(name="z")]
    ).SerializeToString()
    branch = leaf
    for _ in range(depth):
        # AttributeProto: name 1, g 6, type 20 (5: a graph); NodeProto: input 1, output 2, op_type
        # 4, attribute 5; GraphProto: node 1, name 2, output 12.
        attributes = [
            _field(5, _field(1, name) + _field(6, graph) + b"\xa0\x01\x05")
            for name, graph in ((b"then_branch", branch), (b"else_branch", leaf))
        ]
        inner = _field(1, b"c") + _field(2, b"z") + _field(4, b"If") + b"".join(attributes)
        branch = _field(1, inner) + _field(2, b"b") + _field(12, _field(1, b"z"))
    ports = [
        helper.make_tensor_value_info(name, kind, shape).SerializeToString()
        for name, kind, shape in (("x", FLOAT, [2, 3]), ("c", BOOL, []))
    ]
    whole = branch + b"".join(_field(11, p) for p in ports)
    opset = helper.make_opsetid("", 17).SerializeToString()
    return b"\x08\x0a" + _field(7, whole) + _field(8, opset)


def _field(number: int, data: bytes) -> bytes:
    """A length-delimited field of protobuf."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def constant(name: str, values: Any) -> TensorProto:
    return numpy_helper.from_array(np.asarray(values), name)


HUGE = [1 << 20, 1 << 18]
BOMBS: dict[str, onnx.ModelProto] = {
    "Expand": model_of(
        [node("Expand", ["w", "s"], ["y"])],
        tensors=[constant("w", np.float32(1)), constant("s", np.array(HUGE))],
    ),
    "ConstantOfShape": model_of(
        [node("ConstantOfShape", ["s"], ["y"])], tensors=[constant("s", np.array(HUGE))]
    ),
    "Range": model_of(
        [node("Range", ["a", "b", "c"], ["y"])],
        tensors=[
            constant("a", np.int64(0)),
            constant("b", np.int64(1 << 38)),
            constant("c", np.int64(1)),
        ],
    ),
    "Tile": model_of(
        [node("Tile", ["w", "s"], ["y"])],
        tensors=[constant("w", np.ones((1, 1), np.float32)), constant("s", np.array(HUGE))],
    ),
}


def _bomb(name: str, folder: Path) -> Sequence[str]:
    _onnx(BOMBS[name], folder)
    np.save(folder / "x.npy", np.zeros((2, 3), np.float32))
    return ["run", "m.onnx", "--input", "x=x.npy"]


def onnx_classes() -> Iterator[Hostile]:
    def case(kind: str, name: str, data: Any, *words: str, code: int = 3) -> Hostile:
        return Hostile(kind, name, functools.partial(_onnx, data), code, words)

    whole = DIGITS.read_bytes()
    yield case("protobuf garbage", "bytes", b"\x00\xff" * 500, "no ONNX model")
    yield case("protobuf garbage", "empty", b"", "empty")
    yield case("protobuf garbage", "zip", b"PK\x03\x04" + bytes(3000), "no ONNX model")
    for share in (0.02, 0.5, 0.999):
        cut = whole[: int(len(whole) * share)]
        yield case("protobuf truncated", f"at {share:.1%}", cut, "cut short")
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    yield case("git-lfs pointers", "onnx", pointer, "git lfs pull")
    yield case("wrong payload sizes", "short", weighted(raw_data=bytes(20)), "20 bytes")
    yield case("wrong payload sizes", "long", weighted(raw_data=bytes(28)), "24 bytes")
    yield case("wrong payload sizes", "none", weighted(), "no data")
    two = weighted(raw_data=bytes(24), float_data=[1.0] * 6)
    yield case("two payloads", "raw and float", two, "twice")
    huge = weighted(dims=[1 << 40, 1 << 40], raw_data=bytes(24))
    yield case("overflowing shapes", "onnx", huge, "overflows")
    for name, kind, shape in (
        ("shape", FLOAT, [2, 4]),
        ("rank", FLOAT, [6]),
        ("type", INT64, [2, 3]),
    ):
        said = model_of([node("Relu", ["x"], ["y"])])
        said.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", kind, shape))
        way_out = 'declared_shapes="ignore"'
        yield case("contradicting declarations", f"onnx {name}", said, way_out, '"y"')
    again = model_of([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])])
    yield case("duplicate names", "output", again, "defined twice", '"y"')
    lost = model_of([node("Relu", ["nothing"], ["y"])])
    yield case("undefined names", "input", lost, "nothing defines", '"nothing"')
    circle = model_of([node("Add", ["x", "t"], ["y"]), node("Relu", ["y"], ["t"])])
    yield case("cycles", "onnx", circle, "cycle", "->")
    odd = model_of([node("NoSuch", ["x"], ["y"], name="n")])
    yield case("unknown layer, opset", "onnx", odd, "NoSuch", '"n"', code=4)
    yield case("recursive functions", "two", recursive(), "calls itself", "->")
    yield case("exponential functions", "2^59", exponential(), "too many nodes")
    for depth in (20, 40, 1000):
        # Protobuf's own limit says of the deeper ones what is no less true.
        said = "nested too deeply" if depth < 30 else "damaged, cut short"
        yield case("deep If nesting", str(depth), nested_ifs(depth), said)
    places: dict[str, tuple[str, str, str, str]] = {
        "absolute": ("/etc/passwd", "0", "24", "absolute"),
        "climbs out": ("../secret.bin", "0", "24", "climbs out"),
        "a link out": ("link", "0", "24", "link out of"),
        "a device": ("device", "0", "24", "link out of"),
        "a FIFO": ("pipe", "0", "24", "not a regular file"),
        "a NUL": ("w.bin\0x", "0", "24", "NUL"),
        "offset lies": ("w.bin", "8", "24", "outside its file"),
        "length lies": ("w.bin", "0", "1000000000", "outside its file"),
        "a negative offset": ("w.bin", "-8", "24", "no number"),
    }
    for name, (*entries, word) in places.items():
        make = functools.partial(external, *entries)
        yield Hostile("external data", name, make, words=(word,))
    for name in BOMBS:
        make = functools.partial(_bomb, name)
        # A good file of a few bytes that asks for terabytes: it fails when it is run.
        yield Hostile("bombs", name, make, 5, ("max_memory",))


# Artefacts and arrays ----------------------------------------------------------------------------


@functools.cache
def artifact() -> bytes:
    import irc

    stream = io.BytesIO()
    irc.compile_model(DIGITS)._write(stream)
    return stream.getvalue()


def _irc(change: Callable[[bytes], bytes], folder: Path) -> Sequence[str]:
    (folder / "m.irc").write_bytes(change(artifact()))
    np.save(folder / "x.npy", np.zeros((1, 64), np.float32))
    return ["run", "m.irc", "--input", "image=x.npy"]


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def reseal(kind: str, old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    """A change inside a section, every digest right again."""

    def change(data: bytes) -> bytes:
        parts = Parts(data)
        content = parts.section(kind)
        assert old in content
        parts.replace(kind, content.replace(old, new, 1))
        if kind == "graph":
            parts.manifest["plans"].clear()
        return parts.seal()

    return change


def artifact_classes() -> Iterator[Hostile]:
    def case(kind: str, name: str, change: Callable[[bytes], bytes], *words: str) -> Hostile:
        return Hostile(kind, name, functools.partial(_irc, change), words=words)

    for keep, said in ((0, "empty file"), (7, "no irc artefact"), (100, "cut"), (5000, "cut")):
        yield case("artefact truncated", str(keep), lambda d, n=keep: d[:n], said)
    yield case("artefact truncated", "-1", lambda d: d[:-1], "cut short")
    places = {3: "no irc", 20: "cut short", 130: "SHA-256", 3000: "SHA-256", -30: "manifest"}
    for at, said in places.items():
        yield case("artefact changed", f"byte {at}", lambda d, n=at: flip(d, n % len(d)), said)
    forged = {
        "plan": (reseal("plan", b'"strides"', b'"strikes"'), "stored Operand is broken"),
        "a buffer": (reseal("plan", b'"arena"', b'"marena"'), "kind is not known"),
        "graph": (reseal("graph", b'type="', b'type="No'), "graph is broken"),
    }
    for name, (change, said) in forged.items():
        yield case("artefact forged", name, change, said)
    yield case("artefact of another version", "9", lambda d: d[:8] + b"\x09" + d[9:], "version 9")
    yield case("another format renamed", "onnx", lambda _: DIGITS.read_bytes(), "no irc artefact")
    yield case("another format renamed", "text", lambda _: b"<net/>", "XML")


def _npy(data: bytes, folder: Path) -> Sequence[str]:
    shutil.copy(DIGITS, folder / "m.onnx")
    (folder / "x.npy").write_bytes(data)
    return ["run", "m.onnx", "--input", "image=x.npy"]


def array_classes() -> Iterator[Hostile]:
    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}], object), allow_pickle=True)
    pickled, stream = stream.getvalue(), io.BytesIO()
    np.save(stream, np.zeros((1, 64), np.float32))
    good = stream.getvalue()
    cases = {
        "a pickled object": pickled,
        "cut short": good[:-5],
        "empty": b"",
        "garbage": b"\x00\xff" * 100,
        "an open bracket": good.replace(b"'shape'", b"'shap(("),
        "a shape that lies": good.replace(b"(1, 64), }", b"(9, 64), }"),
        "a huge shape": good.replace(b"(1, 64), }          ", b"(99999999999, 64), }"),
        "a broken zip": b"PK\x03\x04" + bytes(100),
    }
    for name, data in cases.items():
        assert data != good, name
        make = functools.partial(_npy, data)
        yield Hostile("bad .npy inputs", name, make, words=("x.npy", "no array of numbers"))


ALL: tuple[Hostile, ...] = (
    *xml_classes(), *onnx_classes(), *artifact_classes(), *array_classes()
)  # fmt: skip
