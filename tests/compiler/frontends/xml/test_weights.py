"""Constants: every element type, packing as OpenVINO unpacks it, strings, odd offsets."""

from __future__ import annotations

import struct
from pathlib import Path

import irc_compiler as irc
import numpy as np
import openvino as ov
import pytest
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.compiler.frontends.xml.subbyte import pack, packed_bytes, unpack
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import MemoryLimitError, ModelFormatError
from irc_compiler.ir.op import Array
from irc_compiler.ir.ops import Constant
from openvino import opset13 as opset
from support.frontends.ir_text import DATA, constant, constant_net, edge, layer, net, port, result
from support.models.exact_int8 import OPENVINO_CONFIG

PACKED = [DType.u1, DType.u2, DType.u3, DType.u4, DType.u6, DType.i4, DType.nf4, DType.f4e2m1]


def only_constant(text: bytes, weights: bytes) -> Constant:
    graph = read_xml(text, weights)
    (op,) = [graph.op(n) for n in graph.ids() if graph.op(n).kind == "Constant"]
    assert isinstance(op, Constant)
    return op


def values_of(text: bytes, weights: bytes) -> list[object]:
    data = only_constant(text, weights).data
    return (data.astype(np.float32) if data.dtype.kind == "V" else data).reshape(-1).tolist()


def by_openvino(dtype: str, count: int, data: bytes) -> Array:
    """What OpenVINO's own Convert to f32 makes of packed bytes."""
    text = net(
        [
            layer(
                0,
                "Const",
                data=f'element_type="{dtype}" shape="{count}" offset="0" size="{len(data)}"',
                outputs=port(0, (count,), "BIN" if dtype == "u1" else dtype.upper()),
            ),
            layer(1, "Convert", data='destination_type="f32"', inputs=port(0), outputs=port(1)),
            result(2),
        ],
        [edge(0, 0, 1, 0), edge(1, 1, 2, 0)],
    )
    core = ov.Core()
    model = core.read_model(text, ov.Tensor(np.frombuffer(data, dtype=np.uint8)))
    return np.array(core.compile_model(model, "CPU")([])[0])


# OpenVINO gives nf4's -1 as 255 of u8, where ours saturates, and has no conversion to i32.
CONVERSIONS = [
    (dtype, to)
    for dtype in ("u1", "u2", "u3", "u4", "u6", "i4", "nf4")
    for to in ("f32", "f16", *(() if dtype == "nf4" else ("u8", "i32")))
]


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "to"), CONVERSIONS)
def test_conversions_of_stored_types_are_openvinos(dtype: str, to: str, tmp_path: Path) -> None:
    """A weight of 24 elements, converted and multiplied, as compressed models do."""
    bits = DType(dtype).bits
    raw = np.random.default_rng(bits).integers(0, 256, 3 * bits, np.uint8)
    weights = opset.constant(ov.Tensor(raw, ov.Shape([24]), getattr(ov.Type, dtype)))
    x = opset.parameter([1], ov.Type.f32, name="x")
    product = opset.multiply(opset.convert(weights, to), opset.convert(x, to))
    path = tmp_path / "m.xml"
    ov.save_model(ov.Model([opset.result(product)], [x], "m"), path, compress_to_fp16=False)
    one = [np.ones(1, np.float32)]
    exact = OPENVINO_CONFIG
    expected = ov.Core().compile_model(path, "CPU", exact)(one)[0]
    found = irc.compile_model(path)(one)[0]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    irc.save_model(irc.read_model(path), tmp_path / "again.xml")
    again = ov.Core().compile_model(tmp_path / "again.xml", "CPU", exact)(one)[0]
    np.testing.assert_array_equal(again, expected)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["u1", "u2", "u3", "u4", "u6", "i4"])
@pytest.mark.parametrize("count", [1, 3, 8, 13, 16])
def test_packing_is_openvinos(dtype: str, count: int) -> None:
    kind = DType(dtype)
    data = np.random.default_rng(count).bytes(packed_bytes(kind, count))
    expected = by_openvino(dtype, count, data)
    found = unpack(kind, np.frombuffer(data, dtype=np.uint8), count)
    np.testing.assert_array_equal(found.astype(np.float32), expected)


@pytest.mark.parametrize("dtype", PACKED, ids=str)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 23])
def test_pack_then_unpack(dtype: DType, count: int) -> None:
    codes = np.random.default_rng(0).integers(0, 1 << dtype.bits, count).astype(np.uint8)
    if dtype is DType.i4:
        array = ((codes ^ 8).astype(np.int8) - 8).astype(dtype.numpy)
    elif dtype is DType.f4e2m1:
        array = codes.view(dtype.numpy)
    else:
        array = codes.astype(dtype.numpy)
    packed = pack(dtype, array)
    assert len(packed) == packed_bytes(dtype, count)
    again = unpack(dtype, np.frombuffer(packed, dtype=np.uint8), count)
    assert again.dtype == dtype.numpy
    np.testing.assert_array_equal(again.view(np.uint8), array.view(np.uint8))


def test_bit_order() -> None:
    assert values_of(constant_net("u4", "3", 0, 2), b"\x21\x03") == [1, 2, 3]
    assert values_of(constant_net("i4", "2", 0, 1), b"\xf1") == [1, -1]
    assert values_of(constant_net("u2", "4", 0, 1), b"\xe4") == [0, 1, 2, 3]
    assert values_of(constant_net("u1", "9", 0, 2), b"\x80\x80") == [1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert values_of(constant_net("f8e8m0", "1", 0, 1), b"\x7f") == [1.0]
    assert np.isnan(values_of(constant_net("f8e4m3", "1", 0, 1), b"\x7f")).all()  # type: ignore[arg-type]
    assert values_of(constant_net("f8e5m2", "1", 0, 1), b"\x7c") == [np.inf]
    assert values_of(constant_net("boolean", "3", 0, 3), b"\x00\x01\xff") == [False, True, True]


def test_every_element_type_of_the_sample() -> None:
    graph = read_xml(DATA / "consts.xml")
    held = {}
    for result_ in graph.results:
        op = graph.op(graph.input(result_, 0).node)
        assert isinstance(op, Constant)
        assert op.data.dtype == op.dtype.numpy and not op.data.flags.writeable
        held[graph.node(result_).name] = op
    assert held["Result_69"].data.tolist() == ["ab", "cde", ""]
    assert held["Result_56"].data.shape == (0, 2)
    assert held["Result_51"].data.shape == ()
    assert len({op.dtype for op in held.values()}) == 20


@pytest.mark.parametrize("offset", range(9))
@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "i64", "u16"])
def test_unaligned_offsets(dtype: str, offset: int) -> None:
    kind = DType(dtype)
    expected = np.arange(5).astype(kind.numpy)
    data = b"\xff" * offset + expected.tobytes() + b"\xff" * 3
    found = only_constant(constant_net(dtype, "5", offset, 5 * kind.bits // 8), data).data
    np.testing.assert_array_equal(found, expected)
    assert found.flags.aligned and not found.flags.writeable


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [("i16", "1", 7), ("i16", "1", 3), ("u4", "3", 3), ("f32", "0, 2", 4), ("f32", "", 8)],
)
def test_larger_sizes_than_needed_are_refused(dtype: str, shape: str, size: int) -> None:
    """The values that were written have another shape or type than the layer states."""
    with pytest.raises(ModelFormatError, match="too large for its shape") as caught:
        values_of(constant_net(dtype, shape, 0, size), bytes(8))
    assert f"size {size}" in str(caught.value) and "fix:" in str(caught.value)


def test_empty_constants_and_overlaps_are_accepted() -> None:
    assert values_of(constant_net("f32", "0, 2", 7, 0), b"\x05\0\1\1\1\1\1") == []
    assert values_of(constant_net("u8", "2", 1, 2), b"\x05\x06\x07") == [6, 7]


def test_an_empty_constant_that_openvino_wrote(tmp_path: Path) -> None:
    empty = opset.constant(np.zeros(0, np.int64))
    x = opset.parameter([2], np.int64)
    joined = opset.concat([x, empty], 0)
    ov.serialize(ov.Model([joined], [x]), tmp_path / "m.xml")
    assert 'size="1"' in (tmp_path / "m.xml").read_text(encoding="utf-8")
    net = irc.compile_model(tmp_path / "m.xml")
    assert net(np.array([3, 4]))[0].tolist() == [3, 4]


def test_inline_value() -> None:
    data = 'element_type="u8" shape="3" value="abc"'
    text = net(
        [layer(0, "Const", data=data, outputs=port(0, (), "U8")), result(1)], [edge(0, 0, 1, 0)]
    )
    assert values_of(text, b"") == [97, 98, 99]


def strings(count: int, *offsets: int, text: bytes = b"abcde") -> bytes:
    return struct.pack(f"<{1 + len(offsets)}i", count, *offsets) + text


def test_strings() -> None:
    data = strings(2, 0, 2, 5)
    assert values_of(constant_net("string", "2", 0, len(data)), data) == ["ab", "cde"]
    data = strings(2, 0, 3, 5, text="a\u00e9bc".encode())
    assert values_of(constant_net("string", "2, 1", 0, len(data)), data) == ["a\u00e9", "bc"]


@pytest.mark.parametrize(
    ("data", "shape", "part"),
    [
        (b"\x01", "1", "too short"),
        (strings(2, 0, 2, 5), "3", "count differs"),
        (strings(-1, 0, 2, 5), "2", "count differs"),
        (strings(2, 0, 2)[:12], "2", "too short for its offsets"),
        (strings(2, 0, 2, 6), "2", "offsets are broken"),
        (strings(2, 1, 2, 5), "2", "offsets are broken"),
        (strings(2, 0, 5, 2), "2", "offsets are broken"),
        (strings(2, 0, -1, 5), "2", "offsets are broken"),
        (strings(2, 0, 2, 2**31 - 1), "2", "offsets are broken"),
        (strings(1, 0, 2, text=b"\xff\xff"), "1", "not UTF-8"),
        (strings(2, 0, 2, 5), str(2**61), "count differs"),
    ],
)
def test_broken_strings(data: bytes, shape: str, part: str) -> None:
    with pytest.raises(ModelFormatError, match=part) as caught:
        read_xml(constant_net("string", shape, 0, len(data)), data)
    assert "layer 0" in str(caught.value)


def test_arrays_do_not_change_with_the_callers_buffer() -> None:
    data = bytearray(np.arange(4, dtype=np.float32).tobytes())
    found = only_constant(constant_net("f32", "4", 0, 16), data).data  # type: ignore[arg-type]
    data[:] = bytes(16)
    assert found.tolist() == [0, 1, 2, 3]


def many_constants(dtype: str, count: int, size: int, places: range) -> bytes:
    layers, edges = [], []
    for i, offset in enumerate(places):
        layers += [constant(2 * i, dtype, str(count), offset, size), result(2 * i + 1)]
        edges.append(edge(2 * i, 0, 2 * i + 1, 0))
    return net(layers, edges)


@pytest.mark.slow
def test_overlapping_constants_cannot_exhaust_memory() -> None:
    weights = bytes(1 << 20)
    half = 1 << 19
    # As views, and decoded once, any number of them is free.
    for dtype, step in (("u8", 1), ("u4", 0)):
        places = range(0, 400 * step, step) if step else range(1)
        count = half if dtype == "u8" else 2 * half
        graph = read_xml(many_constants(dtype, count, half, places), weights)
        assert len(graph.results) == len(places)
    same = many_constants("u1", 8 * half, half, range(1)).replace(b'offset="1"', b'offset="0"')
    assert len(read_xml(same, weights).results) == 1
    with pytest.raises(MemoryLimitError, match="more memory than"):
        read_xml(many_constants("u1", 8 * half, half, range(400)), weights)
    with pytest.raises(MemoryLimitError, match="more memory than"):
        read_xml(many_constants("f32", half // 4, half, range(1, 4 * 400, 4)), weights)


def test_equal_constants_share_their_memory() -> None:
    text = constant_net("u4", "4", 0, 2)
    double = net(
        [constant(0, "u4", "4", 0, 2), constant(2, "u4", "2, 2", 0, 2), result(1), result(3)],
        [edge(0, 0, 1, 0), edge(2, 0, 3, 0)],
    )
    assert values_of(text, b"\x21\x43") == [1, 2, 3, 4]
    graph = read_xml(double, b"\x21\x43")
    one, two = (graph.op(graph.input(r, 0).node) for r in graph.results)
    assert isinstance(one, Constant) and isinstance(two, Constant)
    assert np.shares_memory(one.data, two.data) and two.data.shape == (2, 2)
