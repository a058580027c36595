"""Arrays that are made each time they are read, and constants that hold them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import builder as ops
from irc_compiler.builder.tensor import Tensor
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.ir import ops as o
from irc_compiler.ir.deferred_array import DeferredArray, unpack_stored
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.int4 import Int4Bytes, pack_int4
from irc_compiler.ir.op import Array
from irc_compiler.ir.types import TensorType

CODES = np.random.default_rng(0).integers(0, 16, (256, 128)).astype(np.uint8)


class Made:
    """Counts how often an array is made."""

    def __init__(self, array: Array) -> None:
        self.array, self.count = array, 0

    def __call__(self) -> Array:
        self.count += 1
        return self.array


def packed_codes() -> Int4Bytes:
    return Int4Bytes(DType.u4, CODES.shape, pack_int4(CODES))


def test_nothing_is_made_before_it_is_read() -> None:
    made = Made(CODES)
    op = o.DeferredConstant(DeferredArray(DType.u8, CODES.shape, made))
    assert op.infer() == (TensorType(DType.u8, (256, 128)),)
    assert op.nbytes == CODES.nbytes and made.count == 0
    assert op.data is CODES and made.count == 1
    assert op.data is CODES and made.count == 2
    assert isinstance(op.content, DeferredArray) and op.content is op.content


def test_types_of_four_bits_are_unpacked_for_readers_of_elements() -> None:
    array = DeferredArray(DType.u4, CODES.shape, packed_codes)
    assert isinstance(array.load(), Int4Bytes) and array.nbytes == CODES.nbytes
    assert np.array_equal(array.unpack().view(np.uint8), CODES)
    assert np.array_equal(unpack_stored(array).view(np.uint8), CODES)
    assert unpack_stored(CODES) is CODES


@pytest.mark.parametrize("make", [lambda: CODES[1:], lambda: packed_codes()])
def test_another_shape_is_refused(make: Callable[[], Array | Int4Bytes]) -> None:
    with pytest.raises(VerificationError, match="another shape"):
        DeferredArray(DType.u8, (257, 128), make).load()


def test_a_copy_in_another_process_holds_the_numbers() -> None:
    op = o.DeferredConstant(DeferredArray(DType.u8, CODES.shape, Made(CODES)))
    again = pickle.loads(pickle.dumps(op))
    assert type(again) is o.Constant and np.array_equal(again.data, CODES)
    with pytest.raises(AttributeError):
        op.number  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def product(codes: o.Constant) -> irc.Model:
    """x f32 [rows, 128] times codes of 4 bits [256, 128] in groups of 32."""
    scale = np.full((256, 4), 0.125, np.float32)
    stored, factors = (ops.apply(c) for c in (codes, o.Constant.of(scale, DType.f32)))
    weight: Tensor = ops.apply(o.Dequantize(1, 32), stored, factors, None)
    return ops.model({"y": ops.matmul(ops.parameter("x", ("rows", 128)), weight, transpose_b=True)})


def test_a_compile_makes_an_array_once_and_computes_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.random.default_rng(1).standard_normal((3, 128)).astype(np.float32)
    stored = o.Constant.of(CODES.view(DType.u4.numpy), DType.u4)
    wanted = irc.compile_model(product(stored))([x])[0]
    loads = list[DeferredArray]()
    load = DeferredArray.load

    def count(self: DeferredArray) -> Array | Int4Bytes:
        loads.append(self)
        return load(self)

    monkeypatch.setattr(DeferredArray, "load", count)
    array = DeferredArray(DType.u4, CODES.shape, packed_codes)
    net = irc.compile_model(product(o.DeferredConstant(array)))
    assert loads == [array]
    assert np.array_equal(net([x])[0], wanted)


def test_equal_constants_are_shared_by_what_makes_them() -> None:
    big = np.zeros((256, 512), np.uint8)
    array = DeferredArray(DType.u8, big.shape, Made(big))
    other = DeferredArray(DType.u8, big.shape, Made(big))
    ids = ops.parameter("ids", ("n",), "i64")
    tables = [ops.apply(o.DeferredConstant(a)) for a in (array, array, other)]
    graph = ops.model({f"y{i}": ops.gather(t, ids) for i, t in enumerate(tables)}).graph
    optimize(graph, Options())
    assert len([n for n in graph.ids() if graph.op(n).kind == "Constant"]) == 3  # with the axis
    assert array._make.count == other._make.count == 0  # type: ignore[attr-defined]


def test_files_hold_the_numbers(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((3, 128)).astype(np.float32)
    model = product(o.DeferredConstant(DeferredArray(DType.u4, CODES.shape, packed_codes)))
    wanted = irc.compile_model(model)([x])[0]
    irc.save_model(model, tmp_path / "m.xml")
    assert np.array_equal(irc.compile_model(tmp_path / "m.xml")([x])[0], wanted)
    irc.compile_model(model).export(tmp_path / "m.irc")
    assert np.array_equal(irc.CompiledModel.load(tmp_path / "m.irc")([x])[0], wanted)
