"""RegionYolo and ReorgYolo against OpenVINO."""

from __future__ import annotations

import numpy as np
import openvino.opset1 as o1
import openvino.opset2 as o2
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import RegionYolo, ReorgYolo
from irc_compiler.ir.types import parse_type
from support.openvino_operations import check

F = np.float32


def image(*shape: int, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F) * 2


def test_region_yolo_with_softmax() -> None:
    check(lambda x: o1.region_yolo(x, 4, 5, 3, True, [0], 1, 3), [image(2, 30, 3, 4)], native=True)
    check(lambda x: o1.region_yolo(x, 4, 5, 3, True, [0], 1, 2), [image(1, 30, 3, 4)], native=True)


def test_region_yolo_with_a_mask() -> None:
    check(
        lambda x: o1.region_yolo(x, 4, 5, 9, False, [3, 4, 5], 1, 3, [1.0, 2.0]),
        [image(2, 30, 3, 4)],
        native=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16, np.uint8])
def test_reorg_yolo(dtype: type) -> None:
    data = np.arange(2 * 8 * 6 * 4).reshape(2, 8, 6, 4).astype(dtype)
    check(lambda x: o2.reorg_yolo(x, [2]), [data], native=dtype in (np.float32, np.int32))


def test_bad_inputs() -> None:
    fact = Fact(parse_type("f32[1, 30, 3, 4]"))
    with pytest.raises(ShapeError, match="too few channels"):
        RegionYolo(4, 20, 3, 1, 3).infer(fact)
    with pytest.raises(ShapeError, match="end_axis is before axis"):
        RegionYolo(4, 5, 3, 3, 1).infer(fact)
    with pytest.raises(ShapeError, match="coords, classes or num"):
        RegionYolo(4, 0, 3, 1, 3).infer(fact)
    with pytest.raises(ShapeError, match="not a multiple"):
        ReorgYolo(2).infer(fact)
    with pytest.raises(ShapeError, match="stride is not positive"):
        ReorgYolo(0).infer(fact)
