"""ISTFT and GRN against OpenVINO."""

from __future__ import annotations

import numpy as np
import openvino.opset1 as o1
import openvino.opset16 as o16
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import GRN, ISTFT
from irc_compiler.ir.types import parse_type
from support.openvino_operations import check, first_fast, k

F = np.float32
_R = np.random.default_rng(3)


@pytest.mark.slow
@pytest.mark.parametrize("center", first_fast([True, False]))
@pytest.mark.parametrize("normalized", [True, False])
def test_istft(center: bool, normalized: bool) -> None:
    data = _R.standard_normal((2, 5, 6, 2)).astype(F)
    data[:, [0, -1], :, 1] = 0
    window = (np.hanning(8) + 0.1).astype(F)
    check(lambda *x: o16.istft(*x, center, normalized), [data, window, k(8), k(3)])
    check(lambda *x: o16.istft(*x, center, normalized), [data[0], window[:6], k(8), k(2)])
    for length in (9, 40):
        check(
            lambda a, b, c, d, e: o16.istft(a, b, c, d, center, normalized, e),
            [data, window, k(8), k(3), k(length)],
        )


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 5)], ids=str)
def test_grn(shape: tuple[int, ...]) -> None:
    check(lambda x: o1.grn(x, 0.1), [_R.standard_normal(shape).astype(F)], native=True)


def test_bad_inputs() -> None:
    data, window = Fact(parse_type("f32[5, 6, 2]")), Fact(parse_type("f32[8]"))
    eight, two = (Fact(parse_type("i64[]"), np.array(n)) for n in (8, 2))
    ISTFT().infer(data, window, eight, two)
    with pytest.raises(ShapeError, match="values per frame"):
        ISTFT().infer(Fact(parse_type("f32[4, 6, 2]")), window, eight, two)
    with pytest.raises(ShapeError, match="pair on the last axis"):
        ISTFT().infer(Fact(parse_type("f32[5, 6, 3]")), window, eight, two)
    with pytest.raises(ShapeError, match="longer than its frame"):
        ISTFT().infer(data, Fact(parse_type("f32[9]")), eight, two)
    with pytest.raises(ShapeError, match="wrong rank"):
        GRN(1.0).infer(Fact(parse_type("f32[5]")))
