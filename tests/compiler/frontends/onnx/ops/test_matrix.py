"""Gemm of every version: which element types and which shapes of C each one takes."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from onnx import helper

P = onnx.TensorProto
FLOATS = (P.FLOAT16, P.FLOAT, P.DOUBLE)
INTEGERS = (P.INT32, P.INT64, P.UINT32, P.UINT64)
VERSIONS = {1: FLOATS, 6: FLOATS, 7: FLOATS, 9: (*FLOATS, *INTEGERS), 11: (*FLOATS, *INTEGERS)}
VERSIONS[13] = (*FLOATS, *INTEGERS, P.BFLOAT16)


def gemm(
    opset: int, a: Any, b: Any, c: Any = None, *, absent: str = "left out", **attributes: Any
) -> Any:
    given = {"a": a, "b": b} | ({} if c is None else {"c": c})
    names = [*given, *([""] if c is None and absent == "empty name" else [])]
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in given.items()
    ]
    node = helper.make_node("Gemm", names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", ports, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return irc.compile_model(model)(given)["y"]


def whole(*shape: int, dtype: Any = np.float32) -> Any:
    return np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape).astype(dtype)


@pytest.mark.parametrize("opset", VERSIONS)
@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS, P.BFLOAT16, P.INT8, P.BOOL])
def test_element_types_by_version(opset: int, kind: int) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    a, b, c = (whole(*s, dtype=dtype) for s in ((3, 2), (3, 4), (2, 4)))
    if kind not in VERSIONS[opset]:
        with pytest.raises(irc.Error, match="element type") as caught:
            gemm(opset, a, b, c, transA=1)
        assert "allowed" in str(caught.value) or "expected" in str(caught.value)
        return
    y = gemm(opset, a, b, c, transA=1, alpha=2.0)
    assert y.dtype == dtype
    exact = 2 * (whole(3, 2).T @ whole(3, 4)) + whole(2, 4)
    np.testing.assert_array_equal(y.astype(np.float64), exact)


@pytest.mark.parametrize("opset", VERSIONS)
@pytest.mark.parametrize("trans", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_transposes(opset: int, trans: tuple[int, int]) -> None:
    a, b, c = whole(2, 3), whole(3, 4), whole(2, 4)
    given = [v.T if flag else v for v, flag in zip((a, b), trans, strict=True)]
    got = gemm(opset, *given, c, transA=trans[0], transB=trans[1], alpha=2.0, beta=0.5)
    np.testing.assert_array_equal(got, 2 * (a @ b) + 0.5 * c)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [7, 9, 11, 13])
@pytest.mark.parametrize("shape", [(), (1,), (4,), (1, 4), (2, 1), (2, 4), (1, 1)])
def test_c_broadcasts_to_the_product(opset: int, shape: tuple[int, ...]) -> None:
    a, b, c = whole(2, 3), whole(3, 4), whole(*shape) + 1
    np.testing.assert_array_equal(gemm(opset, a, b, c, beta=3.0), a @ b + 3 * c)


@pytest.mark.parametrize("shape", [(3,), (2,), (4, 1), (1, 2, 4), (3, 4)])
def test_c_never_broadcasts_the_product(shape: tuple[int, ...]) -> None:
    with pytest.raises(irc.ShapeError):
        gemm(13, whole(2, 3), whole(3, 4), whole(*shape))


def test_a_row_of_c_does_not_broadcast_a_product_of_one_row() -> None:
    with pytest.raises(irc.ShapeError):
        gemm(13, whole(1, 3), whole(3, 4), whole(2, 4))


@pytest.mark.parametrize("opset", [1, 6])
def test_c_has_the_full_shape_before_version_7(opset: int) -> None:
    a, b, row = whole(2, 3), whole(3, 4), whole(4)
    np.testing.assert_array_equal(gemm(opset, a, b, row, broadcast=1), a @ b + row)
    with pytest.raises(irc.ShapeError, match="without broadcast"):
        gemm(opset, a, b, row)


@pytest.mark.parametrize("absent", ["left out", "empty name"])
def test_c_is_optional_since_version_11(absent: str) -> None:
    a, b = whole(2, 3), whole(3, 4)
    np.testing.assert_array_equal(gemm(11, a, b, absent=absent), a @ b)
    with pytest.raises(irc.ModelFormatError):
        gemm(9, a, b, absent=absent)


@pytest.mark.parametrize("beta", [0.0, -0.0])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_c_that_counts_nothing_is_not_read(beta: float, dtype: Any) -> None:
    """BLAS's rule, and onnxruntime's: what is not a number does not show through 0 * C."""
    a, b, c = whole(2, 3, dtype=dtype), whole(3, 4, dtype=dtype), np.full((2, 4), np.nan, dtype)
    np.testing.assert_array_equal(gemm(13, a, b, c, beta=beta), a @ b)
