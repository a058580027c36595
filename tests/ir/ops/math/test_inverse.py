"""Inverse and ConvertPromoteTypes against OpenVINO; Multinomial's distribution."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino as ov
import openvino.opset13 as o13
import openvino.opset14 as o14
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import ConvertPromoteTypes, Inverse, Multinomial
from irc_compiler.ir.types import parse_type
from support.openvino_operations import check, first_fast, k, model_of

F = np.float32


@pytest.mark.slow
@pytest.mark.parametrize("adjoint", [True, False])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (2, 1, 2, 2)], ids=str)
def test_inverse(adjoint: bool, shape: tuple[int, ...]) -> None:
    data = np.random.default_rng(1).standard_normal(shape).astype(F) + 2 * np.eye(
        shape[-1], dtype=F
    )
    check(lambda x: o14.inverse(x, adjoint), [data], tolerance=1e-4)


def test_a_singular_matrix_is_an_error() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        Inverse().evaluate(np.array([[1, 2], [2, 4]], F))


SAFE = [(F, np.int16), (np.int32, np.uint8), (np.float16, F), (np.int64, np.int8), (bool, F)]
UNSAFE = [(np.int64, np.float16), (np.int8, np.uint32), (np.int64, np.uint64)]


@pytest.mark.slow
@pytest.mark.parametrize("pair", first_fast(SAFE + UNSAFE, 2), ids=str)
def test_convert_promote_types(pair: Any) -> None:
    one, two = pair
    unsafe = pair in UNSAFE
    given = [np.array([1, 0, 3]).astype(one), np.array([[2, 5, 1]]).astype(two)]
    check(lambda *x: o14.convert_promote_types(*x, unsafe), given)


@pytest.mark.parametrize("unsafe", [True, False])
def test_promotion_of_scalars(unsafe: bool) -> None:
    given = [np.array([1, 2, 3], np.int32), k(np.array(2, np.int16))]
    check(lambda *x: o14.convert_promote_types(*x, unsafe, True), given)


def test_every_pair_of_types_promotes_as_openvino_promotes_it() -> None:
    names = "boolean u4 u8 u16 u32 u64 i4 i8 i16 i32 i64 f16 bf16 f32 f64 f8e4m3 f8e5m2".split()
    differing = []
    for a in names:
        for b in names:
            for unsafe in (True, False):
                op = ConvertPromoteTypes(unsafe)
                try:
                    ours = op.infer(Fact(parse_type(f"{a}[2]")), Fact(parse_type(f"{b}[2]")))[
                        0
                    ].dtype.value
                except ShapeError:
                    ours = "refused"
                sides = [ov.opset13.parameter([2], getattr(ov.Type, t)) for t in (a, b)]
                try:
                    node = o14.convert_promote_types(*sides, unsafe)
                    theirs = node.output(0).get_element_type().to_string()
                except RuntimeError:
                    theirs = "refused"
                if ours != theirs:
                    differing.append((a, b, unsafe, ours, theirs))
    assert not differing


@pytest.mark.parametrize("log", [True, False])
def test_multinomial_draws_by_probability(log: bool) -> None:
    probs = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]], F)
    with np.errstate(divide="ignore"):
        given = np.log(probs) if log else probs

    def build(*x: Any) -> Any:
        return o13.multinomial(*x, "i64", True, log, 3, 4)

    with tempfile.TemporaryDirectory() as folder:
        ov.serialize(model_of(build, [given, k([4000])]), Path(folder) / "m.xml")
        read = irc.read_model(Path(folder) / "m.xml")
        net = irc.compile_model(read)
        irc.save_model(read, Path(folder) / "n.xml")
        ov.Core().read_model(Path(folder) / "n.xml")
        found = net({net.inputs[0].name: given})[0]
        assert np.array_equal(found, net({net.inputs[0].name: given})[0])
    assert found.shape == (2, 4000) and found.dtype == np.int64
    for row, expected in zip(found, probs, strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / 4000, expected, atol=0.03)


def test_multinomial_without_replacement_draws_a_class_once() -> None:
    op = Multinomial(DType.i32, False, False, 1, 2)
    (found,) = op.evaluate(np.array([0.2, 0.3, 0.4, 0.1], F), np.array(4))
    assert sorted(found.tolist()) == [0, 1, 2, 3] and found.dtype == np.int32
    with pytest.raises(ShapeError, match="num_samples is out of range"):
        op.evaluate(np.ones(3, F), np.array(4))


def test_bad_inputs() -> None:
    with pytest.raises(ShapeError, match="not square"):
        Inverse().infer(Fact(parse_type("f32[2, 3]")))
    with pytest.raises(ShapeError, match="takes matrices"):
        Inverse().infer(Fact(parse_type("f32[2]")))
