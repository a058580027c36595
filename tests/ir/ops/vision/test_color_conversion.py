"""Colour conversions against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset8 as o8
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import I420toRGB, NV12toRGB
from irc_compiler.ir.types import parse_type
from support.openvino_operations import check, first_fast


def planes(dtype: Any, *shapes: tuple[int, ...]) -> list[Any]:
    """Planes of noise, of integers without halves, which OpenVINO's CPU plugin rounds to even."""
    rng = np.random.default_rng(1)
    if dtype == np.float32:
        return [rng.random(shape, dtype) * 255 for shape in shapes]
    return [rng.integers(0, 256, shape).astype(dtype) for shape in shapes]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("colours", first_fast(["bgr", "rgb"]))
def test_nv12(dtype: Any, colours: str) -> None:
    make = getattr(o8, f"nv12_to_{colours}")
    check(lambda x: make(x), planes(dtype, (2, 6, 6, 1)), native=True)
    check(lambda *x: make(*x), planes(dtype, (2, 4, 6, 1), (2, 2, 3, 2)), native=True)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("colours", first_fast(["bgr", "rgb"]))
def test_i420(dtype: Any, colours: str) -> None:
    make = getattr(o8, f"i420_to_{colours}")
    check(lambda x: make(x), planes(dtype, (2, 6, 6, 1)), native=True)
    frame = planes(dtype, (2, 4, 6, 1), (2, 2, 3, 1), (2, 2, 3, 1))
    check(lambda *x: make(*x), frame, native=True)


def test_ties_are_rounded_away_from_zero() -> None:
    """As in OpenVINO's reference; its CPU plugin rounds them to even."""
    y = np.full((1, 2, 2, 1), 195, np.uint8)
    u, v = np.full((1, 1, 1, 1), 136, np.uint8), np.full((1, 1, 1, 1), 16, np.uint8)
    # 1.164 * (195 - 16) + 2.018 * (136 - 128) is 224.5.
    (colours,) = I420toRGB().evaluate(y, u, v)
    assert (colours[..., 2] == 225).all()


def test_bad_inputs() -> None:
    frame = Fact(parse_type("u8[1, 6, 4, 1]"))
    NV12toRGB().infer(frame)
    with pytest.raises(ShapeError, match="not a multiple of 3"):
        NV12toRGB().infer(Fact(parse_type("u8[1, 4, 4, 1]")))
    with pytest.raises(ShapeError, match="half the sides"):
        NV12toRGB().infer(frame, Fact(parse_type("u8[1, 3, 3, 2]")))
    with pytest.raises(ShapeError, match="side is odd"):
        NV12toRGB().infer(Fact(parse_type("u8[1, 6, 5, 1]")))
    with pytest.raises(ShapeError, match="one input or all planes"):
        I420toRGB().infer(frame, Fact(parse_type("u8[1, 3, 2, 1]")), None)
