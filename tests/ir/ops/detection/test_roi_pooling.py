"""ROIPooling, PSROIPooling and DeformablePSROIPooling against OpenVINO."""

from __future__ import annotations

import numpy as np
import openvino.opset1 as o1
import openvino.opset2 as o2
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import DeformablePSROIPooling, PSROIPooling, ROIPooling
from irc_compiler.ir.types import parse_type
from support.openvino_operations import check, first_fast

F = np.float32
_R = np.random.default_rng(6)
PIXELS = np.array([[0, 0, 0, 9, 7], [1, 2, 1, 14, 9], [1, 5, 5, 5, 5], [0, 3.4, 2.6, 8.5, 11.5]], F)
RELATIVE = np.array([[0, 0, 0, 1, 1], [1, 0.2, 0.1, 0.7, 0.9], [1, 0.5, 0.5, 1.2, 0.6]], F)


def image(channels: int, rows: int = 6, columns: int = 7) -> np.ndarray:
    return _R.standard_normal((2, channels, rows, columns)).astype(F)


@pytest.mark.parametrize("size", first_fast([[3, 2], [1, 1], [4, 4]]), ids=str)
def test_roi_pooling(size: list[int]) -> None:
    check(
        lambda *x: o2.roi_pooling(*x, output_roi=size, spatial_scale=0.5),
        [image(3), PIXELS],
        native=True,
    )
    check(
        lambda *x: o2.roi_pooling(*x, output_roi=size, spatial_scale=1.0, method="bilinear"),
        [image(3), RELATIVE],
        native=True,
    )


@pytest.mark.parametrize("group", [1, 3])
def test_psroi_pooling(group: int) -> None:
    check(
        lambda *x: o1.psroi_pooling(*x, 2, group, 0.5, 1, 1, "average"),
        [image(2 * group * group), PIXELS],
    )
    check(
        lambda *x: o1.psroi_pooling(*x, 2, group, 1.0, 2, 3, "bilinear"),
        [image(12), RELATIVE[:2]],
    )


@pytest.mark.slow
@pytest.mark.parametrize("bins", [1, 2])
def test_deformable_psroi_pooling(bins: int) -> None:
    data = image(2 * 9)
    check(
        lambda *x: o1.deformable_psroi_pooling(
            *x, 2, 0.5, 3, spatial_bins_x=bins, spatial_bins_y=bins, trans_std=0.1, part_size=3
        ),
        [data, PIXELS],
    )
    offsets = _R.standard_normal((len(PIXELS), 2, 3, 3)).astype(F)
    check(
        lambda a, b, c: o1.deformable_psroi_pooling(
            a, b, 2, 0.5, 3, "bilinear_deformable", bins, bins, 0.1, 3, c
        ),
        [data, PIXELS, offsets],
    )


def test_bad_inputs() -> None:
    data, rois = Fact(parse_type("f32[2, 18, 6, 7]")), Fact(parse_type("f32[4, 5]"))
    ROIPooling(2, 2, 0.5).infer(data, rois)
    with pytest.raises(ShapeError, match="five columns"):
        ROIPooling(2, 2, 0.5).infer(data, Fact(parse_type("f32[4, 4]")))
    with pytest.raises(ShapeError, match="pooled size is not positive"):
        ROIPooling(0, 2, 0.5).infer(data, rois)
    with pytest.raises(ShapeError, match="channels for each bin"):
        PSROIPooling(5, 0.5, 2).infer(data, rois)
    with pytest.raises(ShapeError, match="channels for each bin"):
        DeformablePSROIPooling(5, 0.5, 2).infer(data, rois)
    for number in (7, -1, np.nan, np.inf):
        with pytest.raises(ShapeError, match="names an image"):
            ROIPooling(2, 2, 0.5).evaluate(image(3), np.array([[number, 0, 0, 1, 1]], F))
