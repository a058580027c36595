"""Crops, windows and embedded words against onnxruntime."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from support.frontends.ml_models import compare, one_node

MS = "com.microsoft"
_R = np.random.default_rng(51)


def f(*shape: int) -> Any:
    return _R.standard_normal(shape).astype(np.float32)


def i32(*values: int) -> Any:
    return np.array(values, np.int32)


BOXES = np.array(
    [[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [-0.3, 0.5, 1.2, 0.2], [0.5, 0.5, 0.5, 0.5]], np.float32
)
WORDS = np.array([[3, 1, 4, 1, 5, 0], [2] + [0] * 5, [1, 2, 3, 4, 5, 6]], np.int32)
TRANSPOSE = [f(1, 3, 5, 6), f(3, 4, 3, 3)]

NODES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("SampleOp", [f(3, 4)], {}),
    ("UnfoldTensor", [f(3, 9)], {"size": 3}),
    ("UnfoldTensor", [f(3, 9, 2)], {"size": 4, "step": 2, "dim": 1}),
    ("UnfoldTensor", [_R.integers(0, 9, (7, 2))], {"size": 2, "step": 3, "dim": 0}),
    ("CropAndResize", [f(2, 3, 8, 9), BOXES, i32(0, 1, 1, 0), i32(4, 5)], {}),
    ("CropAndResize", [f(2, 3, 8, 9), BOXES, i32(0, 1, 1, 0), i32(1, 3)],
     {"extrapolation_value": 7.0}),
    ("CropAndResize", [f(2, 3, 8, 9), BOXES, i32(0, 1, 1, 0), i32(5, 4)], {"mode": "nearest"}),
    ("CropAndResize", [f(2, 3, 1, 9), BOXES, i32(0, 1, 1, 0), i32(2, 4)], {}),
    ("ConvTransposeWithDynamicPads", [*TRANSPOSE, np.array([1, 0, 2, 1])], {"strides": [2, 2]}),
    ("ConvTransposeWithDynamicPads", [*TRANSPOSE, np.array([0, 0, 0, 0]), f(4)], {}),
    ("WordConvEmbedding", [WORDS, f(5, 1, 3, 4), f(5), f(7, 4)], {}),
    ("WordConvEmbedding", [WORDS, f(5, 1, 2, 4), f(5), f(7, 4)],
     {"char_embedding_size": 4, "conv_window_size": 2, "embedding_size": 5}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", NODES, ids=lambda c: c[0])
def test_nodes(case: tuple[str, list[Any], dict[str, Any]]) -> None:
    op_type, inputs, attributes = case
    compare(*one_node(op_type, inputs, ["y"], domain=MS, **attributes), rtol=1e-5, atol=1e-5)


def test_a_word_without_letters_is_zeros() -> None:
    """onnxruntime leaves its memory as it was."""
    words = np.array([[0] * 6, [1] * 6], np.int32)
    inputs = [words, f(5, 1, 3, 4), f(5), f(7, 4)]
    model, feeds = one_node("WordConvEmbedding", inputs, ["y"], domain=MS)
    (found,) = irc.compile_model(model)(feeds)
    assert not found[0].any() and found[1].all()
