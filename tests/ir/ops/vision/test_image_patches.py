"""ExtractImagePatches against OpenVINO."""

from __future__ import annotations

import numpy as np
import openvino.opset3 as o3
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.op import Fact
from irc_compiler.ir.ops import ExtractImagePatches
from irc_compiler.ir.text.graph_text import parse_graph
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


def test_strides_and_rates_are_1_where_none_are_given(compile_graph) -> None:
    graph = parse_graph("""graph "g"
%0 = Parameter.1() {element_type=f32, shape=[2, 3, 9, 10]} "x"
%1 = ExtractImagePatches.3(%0) {sizes=[2, 3], strides=[], rates=[], auto_pad="valid"}
%2 = Result.1(%1) "y"
""")
    (found,) = compile_graph(graph, True, 1)([IMAGE])
    op = ExtractImagePatches((2, 3), (1, 1), (1, 1), "valid")
    np.testing.assert_array_equal(found, op.evaluate(IMAGE)[0])
