"""DeformableConvolution and BinaryConvolution against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
import openvino.opset1 as o1
import openvino.opset8 as o8
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import BinaryConvolution, DeformableConvolution
from irc_compiler.ir.types import parse_type
from support.openvino_operations import check, first_fast

F = np.float32
_R = np.random.default_rng(2)
DATA = _R.standard_normal((2, 4, 6, 7)).astype(F)
WINDOWS: list[dict[str, Any]] = [
    {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]},
    {"strides": [2, 1], "pads_begin": [0, 2], "pads_end": [1, 0], "dilations": [1, 2]},
    {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1],
     "auto_pad": "SAME_UPPER"},
]  # fmt: skip


def sizes(window: dict[str, Any]) -> tuple[int, int]:
    if "auto_pad" in window:
        return 6, 7
    names = ("strides", "pads_begin", "pads_end", "dilations")
    found = []
    for a, n in ((0, 6), (1, 7)):
        stride, begin, end, rate = (window[name][a] for name in names)
        found.append((n + begin + end - 2 * rate - 1) // stride + 1)
    return found[0], found[1]


@pytest.mark.slow
@pytest.mark.parametrize("window", first_fast(WINDOWS), ids=str)
@pytest.mark.parametrize("groups", [(1, 1), (2, 2), (1, 4)], ids=str)
def test_deformable_convolution(window: dict[str, Any], groups: tuple[int, int]) -> None:
    group, deformable = groups
    places = sizes(window)
    offsets = _R.standard_normal((2, 18 * deformable, *places)).astype(F)
    mask = _R.random((2, 9 * deformable, *places)).astype(F)
    filters = _R.standard_normal((4, 4 // group, 3, 3)).astype(F)
    more = {**window, "group": group, "deformable_group": deformable}
    check(
        lambda *x: o1.deformable_convolution(*x, **more),
        [DATA, offsets, filters],
        native=group == 1,
    )
    check(
        lambda a, b, c, d: o8.deformable_convolution(a, b, c, mask=d, **more),
        [DATA, offsets, filters, mask],
        native=group == 1,
    )
    check(
        lambda *x: o8.deformable_convolution(*x, bilinear_interpolation_pad=True, **more),
        [DATA, offsets, filters],
        native=group == 1,
    )


@pytest.mark.slow
@pytest.mark.parametrize("pad", [0.0, 1.0, -1.0])
def test_binary_convolution(pad: float) -> None:
    bits = _R.integers(0, 2, (4, 8, 3, 3)).astype(np.uint8)
    data = _R.integers(0, 2, (2, 8, 5, 6)).astype(F)
    packed = np.packbits(bits.reshape(-1), bitorder="little")

    def build(x: Any) -> Any:
        filters = ov.op.Constant(ov.Tensor(packed, [4, 8, 3, 3], ov.Type.u1))
        return o1.binary_convolution(
            x, filters, [1, 2], [1, 1], [1, 0], [1, 1], "xnor-popcount", pad
        )

    signs = np.pad(2 * data - 1, [(0, 0), (0, 0), (1, 1), (1, 0)], constant_values=pad)
    view = np.lib.stride_tricks.sliding_window_view(signs, (3, 3), axis=(2, 3))[:, :, :, ::2]
    expected = np.einsum("nchwij,ocij->nohw", view, 2 * bits.astype(F) - 1)
    (found,) = check(build, [data], native=True)
    np.testing.assert_array_equal(found, expected)


def test_bad_inputs() -> None:
    op = DeformableConvolution((1, 1), (0, 0), (0, 0), (1, 1))
    data, filters = Fact(parse_type("f32[1, 4, 5, 5]")), Fact(parse_type("f32[2, 4, 3, 3]"))
    op.infer(data, Fact(parse_type("f32[1, 18, 3, 3]")), filters)
    with pytest.raises(ShapeError, match="channels per tap"):
        op.infer(data, Fact(parse_type("f32[1, 9, 3, 3]")), filters)
    with pytest.raises(ShapeError, match="channels per tap"):
        op.infer(data, Fact(parse_type("f32[1, 18, 4, 3]")), filters)
    with pytest.raises(ShapeError, match="differ in channels"):
        op.infer(data, Fact(parse_type("f32[1, 18, 3, 3]")), Fact(parse_type("f32[2, 3, 3, 3]")))
    with pytest.raises(ShapeError, match="not allowed"):
        BinaryConvolution((1, 1)).infer(data, filters)
