"""ExtractImagePatches against OpenVINO."""

from __future__ import annotations

import numpy as np
import openvino.opset3 as o3
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import ExtractImagePatches
from irc_compiler.ir.types import parse_type
from support.openvino_operations import check, first_fast

IMAGE = np.random.default_rng(5).standard_normal((2, 3, 9, 10)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("pad", first_fast(["SAME_UPPER", "VALID", "SAME_LOWER"]))
@pytest.mark.parametrize(
    "windows",
    [([3, 3], [5, 5], [1, 1]), ([2, 3], [1, 2], [2, 1]), ([4, 4], [8, 8], [1, 1])],
    ids=str,
)
def test_extract_image_patches(pad: str, windows: tuple[list[int], ...]) -> None:
    check(lambda x: o3.extract_image_patches(x, *windows, pad), [IMAGE], native=True)


def test_bad_attributes() -> None:
    with pytest.raises(ShapeError, match="two numbers"):
        ExtractImagePatches((3,), (1,), (1,), "valid").infer(Fact(parse_type("f32[1, 2, 9, 9]")))
    with pytest.raises(ShapeError, match="larger than the padded axis"):
        ExtractImagePatches((3, 3), (1, 1), (1, 1), "valid").infer(
            Fact(parse_type("f32[1, 2, 2, 9]"))
        )
