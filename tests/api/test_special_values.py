"""NaN payloads and signed zeros, as docs/numerics.md promises them: operations that move elements
copy every bit, a maximum of zeros is a zero, and a NaN reaches each result of it."""

from __future__ import annotations

import irc_compiler as irc
import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

# An element type, the integers of its width, and bits of NaNs with sign and payload, quiet or not.
TYPES = {
    "f32": (np.float32, TensorProto.FLOAT, np.uint32, [0x7FC00001, 0xFFC12345, 0x7F800001]),
    "f64": (np.float64, TensorProto.DOUBLE, np.uint64, [0x7FF8000000000001, 0xFFF0000000000123]),
    "f16": (np.float16, TensorProto.FLOAT16, np.uint16, [0x7E01, 0xFE55, 0x7C01]),
    "bf16": (ml_dtypes.bfloat16, TensorProto.BFLOAT16, np.uint16, [0x7FC1, 0xFFD5, 0x7F81]),
}
# Operator, attributes, further constant inputs, and what NumPy makes of x[4, 6, 70].
MOVES = {
    "transpose": ("Transpose", {"perm": [2, 0, 1]}, [], lambda x: x.transpose(2, 0, 1)),
    "reshape": ("Reshape", {}, [[24, 70]], lambda x: x.reshape(24, 70)),
    "slice": ("Slice", {}, [[5, 69], [0, 1], [1, 2], [-2, -1]], lambda x: x[:, 5:0:-2, 69:1:-1]),
    "gather": ("Gather", {"axis": 1}, [[4, 0, 4]], lambda x: x[:, [4, 0, 4]]),
    "expand": ("Expand", {}, [[2, 4, 6, 70]], lambda x: np.broadcast_to(x, (2, 4, 6, 70))),
    "tile": ("Tile", {}, [[1, 2, 1]], lambda x: np.tile(x, (1, 2, 1))),
    "pad": ("Pad", {}, [[0, 1, 0, 0, 1, 0]], lambda x: np.pad(x, ((0, 0), (1, 1), (0, 0)))),
    "depth_to_space": (
        "DepthToSpace",
        {"blocksize": 2},
        [],
        lambda x: x.reshape(1, 2, 2, 1, 6, 70).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 12, 140),
    ),
}


def compile_move(name: str, element: int, shape: list[int]) -> irc.CompiledModel:
    operator, attributes, constants, _ = MOVES[name]
    lists = [np.array(c, np.int64) for c in constants]
    names = [f"c{i}" for i in range(len(lists))]
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", *names], ["y"], **attributes)],
        "moves",
        [helper.make_tensor_value_info("x", element, shape)],
        [helper.make_tensor_value_info("y", element, None)],
        [
            helper.make_tensor(n, TensorProto.INT64, c.shape, c)
            for n, c in zip(names, lists, strict=True)
        ],
    )
    opsets = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return irc.compile_model(model.SerializeToString())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", MOVES)
def test_moves_copy_the_bits_of_nan(name: str, dtype: str) -> None:
    element, code, integer, nans = TYPES[dtype]
    shape = (1, 4, 6, 70) if name == "depth_to_space" else (4, 6, 70)
    rng = np.random.default_rng(3)
    bits = rng.choice(
        np.array([*nans, 0, 1 << (np.dtype(integer).itemsize * 8 - 1)], integer), shape
    )
    (y,) = compile_move(name, code, list(shape))(bits.view(element))
    np.testing.assert_array_equal(np.asarray(y).view(integer), MOVES[name][3](bits))


SIZES = [(1, 5), (3, 64), (2, 1000)]


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin", "Max", "Min"])
@pytest.mark.parametrize("shape", SIZES)
def test_a_maximum_of_both_zeros_is_a_zero(operator: str, shape: tuple[int, int]) -> None:
    """Its sign is not promised."""
    rng = np.random.default_rng(4)
    x = np.where(rng.random(shape) < 0.5, np.float32(0), np.float32(-0.0))
    reduced = operator.startswith("Reduce")
    attributes = {"axes": [1]} if reduced else {}
    inputs = ["x"] if reduced else ["x", "z"]
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, ["y"], **attributes)],
        "zeros",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (y,) = irc.compile_model(model.SerializeToString())([x, -x][: len(inputs)])
    assert y.size and not y.any()  # zeros of either sign are false, NaN and all else are true


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin", "ReduceSum", "Softmax"])
@pytest.mark.parametrize("shape", SIZES)
def test_a_nan_reaches_every_result_of_its_row(operator: str, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    x[-1, -1] = np.nan
    attributes = {"axes": [1]} if operator in ("ReduceMax", "ReduceMin", "ReduceSum") else {}
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], **attributes)],
        "nan",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opset = 11 if attributes else 13
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    (y,) = irc.compile_model(model.SerializeToString())(x)
    assert np.isnan(y[-1]).all() and not np.isnan(y[:-1]).any()
