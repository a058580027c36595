"""Operators that onnxruntime had before ONNX, against onnxruntime."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from support.frontends.ml_models import compare, one_node

MS = "com.microsoft"
_R = np.random.default_rng(3)
I64 = np.int64


def f(*shape: int, dtype: Any = np.float32) -> Any:
    return _R.standard_normal(shape).astype(dtype)


NODES: list[tuple[str, list[Any], list[str], dict[str, Any]]] = [
    ("Trilu", [f(2, 4, 5)], ["y"], {"upper": 1}),
    ("Trilu", [f(4, 5), np.array(-1, I64)], ["y"], {"upper": 0}),
    ("GatherND", [f(2, 3, 4), np.array([[0, 2], [1, 0]], I64)], ["y"], {}),
    ("GridSample", [f(1, 2, 4, 5), f(1, 3, 3, 2)], ["y"], {"mode": "bilinear"}),
    ("GridSample", [f(1, 2, 4, 5), f(1, 3, 3, 2)], ["y"],
     {"mode": "bicubic", "padding_mode": "border", "align_corners": 1}),
    ("Pad", [f(2, 3), np.array([0, 2, 1, 0], I64)], ["y"], {"mode": "constant"}),
    ("Pad", [f(2, 3), np.array([[0, 2, 1, 0]], I64), np.array([1.5], np.float32)], ["y"], {}),
    ("Pad", [f(4, 3), np.array([1, 2, 1, 0], I64)], ["y"], {"mode": "reflect"}),
    ("Pad", [f(4, 3), np.array([1, -1, 1, 0], I64)], ["y"], {"mode": "edge"}),
    ("ExpandDims", [f(4, 3), np.array(-1, np.int32)], ["y"], {}),
    ("ExpandDims", [f(4, 3), np.array(1, np.int32)], ["y"], {}),
    ("Range", [np.array(1, I64), np.array([9], I64), np.array([3], I64)], ["y"], {}),
    ("Range", [np.array(1, np.float32), np.array(4, np.float32)], ["y"], {}),
    ("Unique", [np.array([2, 1, 1, 3, 4, 3], np.float32)], ["y", "i", "c"], {}),
    ("Inverse", [f(2, 4, 4) + 3 * np.eye(4, dtype=np.float32)], ["y"], {}),
    ("Inverse", [f(3, 3, dtype=np.float64)], ["y"], {}),
    ("CDist", [f(5, 3), f(4, 3)], ["y"], {"metric": "sqeuclidean"}),
    ("CDist", [f(5, 3, dtype=np.float64), f(4, 3, dtype=np.float64)], ["y"],
     {"metric": "euclidean"}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", NODES, ids=lambda c: c[0])
def test_nodes(case: tuple[str, list[Any], list[str], dict[str, Any]]) -> None:
    op_type, inputs, outputs, attributes = case
    compare(*one_node(op_type, inputs, outputs, domain=MS, **attributes), rtol=1e-5, atol=1e-5)


def test_a_metric_that_is_not_supported_is_named() -> None:
    model, _ = one_node("CDist", [f(5, 3), f(4, 3)], ["y"], domain=MS, metric="cosine")
    with pytest.raises(irc.UnsupportedOperationError, match="cosine"):
        irc.read_model(model)
