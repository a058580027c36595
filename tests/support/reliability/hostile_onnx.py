"""The classes of hostile and broken ONNX files."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from support.reliability.hostile_case import DIGITS, Hostile, inspect, sparse

# isort: split
from support.frontends.onnx_broken import model_of, node, tensor

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def _onnx(data: bytes | onnx.ModelProto, folder: Path) -> Sequence[str]:
    held = data if isinstance(data, bytes) else data.SerializeToString()
    (folder / "m.onnx").write_bytes(held)
    return inspect("m.onnx")


def weighted(**fields: Any) -> onnx.ModelProto:
    return model_of([node("Add", ["x", "w"], ["y"])], tensors=[tensor(**fields)])


def external(location: str, offset: str, length: str, folder: Path) -> Sequence[str]:
    """A weight that lies elsewhere, besides what must not be read."""
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


def unlike_branches(condition: TensorProto | None) -> onnx.ModelProto:
    """An If of one output whose then-branch has two."""
    branches = [
        helper.make_graph([node("Relu", ["x"], [n]) for n in names], "b", [], ports(names))
        for names in (["p", "q"], ["r"])
    ]
    chosen = node("If", ["w" if condition else "c"], ["y"])
    for name, branch in zip(("then_branch", "else_branch"), branches, strict=True):
        chosen.attribute.append(helper.make_attribute(name, branch))
    made = model_of([chosen], tensors=[condition] if condition else [])
    made.graph.input.append(helper.make_tensor_value_info("c", BOOL, []))
    return made


def ports(names: list[str]) -> list[onnx.ValueInfoProto]:
    return [onnx.ValueInfoProto(name=name) for name in names]


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


DOUBLED = [node("StringConcat", [f"t{n}"] * 2, [f"t{n + 1}"]) for n in range(50)]
STRINGS = helper.make_model(
    helper.make_graph(
        [*DOUBLED, node("Identity", ["t50"], ["y"])],
        "text",
        [],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [1])],
        [constant("t0", np.array(["eight of"], object))],
    ),
    ir_version=9,
    opset_imports=[helper.make_opsetid("", 20)],
)


def _strings(folder: Path) -> Sequence[str]:
    _onnx(STRINGS, folder)
    return ["run", "m.onnx", "--max-memory", "1M"]


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
    wide = weighted(data_type=TensorProto.INT8, int32_data=[1, 2, 3, 300, 5, 6])
    yield case("values out of range", "int8", wide, "300", "-128..127")
    two = weighted(raw_data=bytes(24), float_data=[1.0] * 6)
    yield case("two payloads", "raw and float", two, "twice")
    axes = constant("w", np.arange(2, 102))
    made = model_of([node("Unsqueeze", ["x", "w"], ["y"])], tensors=[axes])
    yield case("overflowing shapes", "rank", made, "too many axes", "got: 102", "Unsqueeze to")
    grown = node("ConvTranspose", ["w", "w"], ["y"], strides=[2**62, 1])
    made = model_of([grown], tensors=[constant("w", np.ones((1, 1, 4, 1), np.float32))])
    yield case("overflowing shapes", "inferred", made, "64 bits", str(3 * 2**62 + 4), "ConvT")
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
        inner = model_of([node("Relu", ["x"], ["t"]), node("Relu", ["t"], ["y"])])
        inner.graph.value_info.append(helper.make_tensor_value_info("t", kind, shape))
        yield case("contradicting declarations", f"onnx inner {name}", inner, way_out, '"t"')
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
    new = model_of([node("Relu", ["x"], ["y"])])
    new.ir_version = 999
    yield case("wrong root or version", "IR of ONNX", new, "999", f"at most {onnx.IR_VERSION}")
    for name, condition in (("known", constant("w", np.array(True))), ("asked", None)):
        yield case("an If's branches", name, unlike_branches(condition), "2 outputs", "If to")
    for depth in (20, 40, 1000):
        # Protobuf's own limit applies to the deeper ones.
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
        "a negative offset": ("w.bin", "-8", "24", "not a number"),
    }
    for name, (*entries, word) in places.items():
        make = functools.partial(external, *entries)
        yield Hostile("external data", name, make, words=(word,))
    yield Hostile("bombs", "StringConcat", _strings, 5, ("max_memory", "strings"))
    yield Hostile("huge files", "onnx", functools.partial(sparse, "m.onnx"), words=("too large",))
    for name in BOMBS:
        make = functools.partial(_bomb, name)
        # A good file of a few bytes that asks for terabytes: it fails when it is run.
        yield Hostile("bombs", name, make, 5, ("max_memory",))
