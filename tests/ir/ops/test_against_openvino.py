"""Every operation with a version against OpenVINO: version, attributes, types, numbers.

OpenVINO runs each case on constants and inputs of a fixed seed, in f32. Cases are (operation,
inputs); an input in `k(...)` is a constant of the graph.
"""

from __future__ import annotations

from typing import Any

import irc_compiler.ir.ops as o
import numpy as np
import openvino as ov
import pytest
from irc_compiler.ir.dims import compile_dims, symbol
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.op import Fact
from irc_compiler.ir.types import TensorType
from openvino.utils.node_factory import NodeFactory
from support.models.exact_int8 import OPENVINO_CONFIG

F = np.float32
_R = np.random.default_rng(5)


def f(*shape: int) -> Any:
    return _R.standard_normal(shape).astype(F)


def i(*shape: int, low: int = -6, high: int = 7, dtype: Any = np.int32) -> Any:
    return _R.integers(low, high, shape).astype(dtype)


def b(*shape: int) -> Any:
    return _R.integers(0, 2, shape).astype(bool)


class k:
    """A constant input."""

    def __init__(self, value: Any, dtype: Any = np.int64) -> None:
        self.value = np.array(value, dtype) if not isinstance(value, np.ndarray) else value


X = f(2, 3, 4)
POS = np.abs(f(2, 3, 4)) + F(0.1)
UNIT = np.tanh(f(2, 3, 4))
SIGNS = f(2, 3, 1) > 0
IMAGE = f(2, 4, 7, 6)

UNARY = [
    (o.Abs(), X), (o.Negative(), X), (o.Sign(), X), (o.Ceiling(), X), (o.Floor(), X),
    (o.Round(), X * 3), (o.Round("half_away_from_zero"), np.array([0.5, 1.5, -2.5], F)),
    (o.Sqrt(), POS), (o.Exp(), X), (o.Log(), POS), (o.Erf(), X), (o.Sin(), X), (o.Cos(), X),
    (o.Tan(), X), (o.Asin(), UNIT), (o.Acos(), UNIT), (o.Atan(), X), (o.Sinh(), X), (o.Cosh(), X),
    (o.Asinh(), X), (o.Acosh(), POS + 1), (o.Atanh(), UNIT), (o.Relu(), X), (o.Sigmoid(), X),
    (o.Tanh(), X), (o.Clamp(-0.5, 0.25), X), (o.Elu(0.7), X), (o.Gelu2(), X), (o.Gelu(), X),
    (o.Gelu("TANH"), X), (o.HSigmoid(), X * 3), (o.HSwish(), X * 3), (o.Mish(), X),
    (o.SoftPlus(), X), (o.SoftSign(), X), (o.LogicalNot(), b(2, 3)), (o.BitwiseNot(), i(2, 3)),
    (o.Swish(), X), (o.Identity(), X), (o.IsNaN(), np.array([1, np.nan, np.inf], F)),
    (o.IsInf(), np.array([1, np.nan, np.inf, -np.inf], F)),
    (o.IsInf(False, True), np.array([1, np.nan, np.inf, -np.inf], F)),
    (o.IsFinite(), np.array([1, np.nan, np.inf, -np.inf], F)),
    (o.Abs(), i(2, 3)), (o.Relu(), i(2, 3)), (o.Clamp(-1.5, 2.5), i(2, 3)),
    (o.Convert(DType.i32), X * 3), (o.Convert(DType.f16), X), (o.Convert(DType.boolean), i(2, 3)),
    (o.Softmax(-1), X), (o.Softmax1(1), X), (o.LogSoftmax(1), X), (o.MVN2(True, True, 1e-5), IMAGE),
    (o.MVN2(False, False, 1e-5), IMAGE), (o.ShapeOf1(), X), (o.ShapeOf(DType.i32), X),
]  # fmt: skip
BINARY = [
    (cls(), [X, f(3, 1)])
    for cls in (o.Add, o.Subtract, o.Multiply, o.Divide, o.Maximum, o.Minimum, o.SquaredDifference,
                o.FloorMod, o.Mod, o.Equal, o.NotEqual, o.Less, o.LessEqual, o.Greater,
                o.GreaterEqual)
] + [
    (cls(), [i(2, 3), i(3, low=1)])
    for cls in (o.Add, o.Subtract, o.Multiply, o.Maximum, o.Minimum, o.FloorMod, o.Mod,
                o.BitwiseAnd, o.BitwiseOr, o.BitwiseXor, o.Equal, o.Less)
] + [
    (cls(), [b(2, 3), b(2, 1)]) for cls in (o.LogicalAnd, o.LogicalOr, o.LogicalXor)
] + [
    # As constants, so that OpenVINO folds them: its CPU plugin truncates here.
    (o.Divide(), [k(i(2, 3)), k(i(3, low=1))]), (o.Power(), [POS, f(3, 1)]),
    (o.Divide(m_pythondiv=False), [i(2, 3), i(3, low=1)]),
    (o.BitwiseLeftShift(), [i(2, 3, low=0), i(3, low=0, high=5)]),
    (o.BitwiseRightShift(), [i(2, 3, low=0, high=99), i(3, low=0, high=5)]),
    (o.Select(), [b(3, 4), X, f(4)]), (o.PRelu(), [X, f(3)]), (o.PRelu(), [X, f(1)]),
    (o.Swish(), [X, k(1.7, F)]), (o.HardSigmoid(), [X, k(0.3, F), k(0.4, F)]),
    (o.Selu(), [X, k(1.6, F), k(1.1, F)]), (o.ConvertLike(), [X * 3, k([1, 2], np.int32)]),
    (o.FakeQuantize(16), [IMAGE, k(np.full((1, 1, 1, 1), -1, F)), k(np.full((1, 1, 1, 1), 1.5, F)),
                          k(np.full((1, 4, 1, 1), -2, F)), k(np.full((1, 4, 1, 1), 3, F))]),
    (o.MatMul(), [f(2, 1, 3, 4), f(5, 4, 6)]), (o.MatMul(True, True), [f(4, 3), f(6, 4)]),
    (o.MatMul(), [f(4), f(2, 4, 3)]), (o.MatMul(True, True), [f(3, 4), f(3)]),
    (o.MatMul(True, True), [f(4), f(4)]), (o.MatMul(), [f(2, 0), f(0, 3)]),
]  # fmt: skip
REDUCE = [
    (cls(keep), [POS, k(axes)])
    for cls in (o.ReduceSum, o.ReduceMean, o.ReduceMax, o.ReduceMin, o.ReduceProd, o.ReduceL1,
                o.ReduceL2)
    for keep, axes in ((False, [0, 2]), (True, [-1]))
] + [(cls(), [b(2, 3), k([1])]) for cls in (o.ReduceLogicalAnd, o.ReduceLogicalOr)]  # fmt: skip
MOVE = [
    (o.Reshape(True), [X, k([0, -1])]), (o.Reshape(False), [X, k([4, 1, 6])]),
    (o.Squeeze1(), [f(1, 3, 1), k([0])]), (o.Squeeze1(), [f(1, 3, 1)]),
    (o.Squeeze(True), [f(1, 3, 1), k([0, 1])]), (o.Unsqueeze(), [X, k([0, -1])]),
    (o.Transpose(), [X, k([2, 0, 1])]), (o.Transpose(), [X, k([])]),
    (o.Concat(1), [X, f(2, 1, 4), f(2, 2, 4)]), (o.Concat(-1), [X, X]),
    (o.Split(2), [X, k(2)]), (o.VariadicSplit(num_outputs=3), [X, k(-1), k([1, -1, 2])]),
    (o.Slice(), [X, k([1, -3]), k([2**31 - 1, -1]), k([1, 1]), k([1, 2])]),
    (o.Slice(), [X, k([5, -1]), k([-9, -4]), k([-1, -2]), k([1, 2])]),
    (o.Slice(), [X, k([1]), k([2]), k([1])]),
    (o.StridedSlice((0, 1, 0), (0, 0, 1)), [X, k([1, 1, 1]), k([2, 2, 3]), k([1, 1, 2])]),
    (o.StridedSlice((0, 0), (0, 0), (1, 0), (0, 1), (0, 0)),
     [k(X), k([0, 1]), k([1, 2]), k([1, 1])]),
    (o.StridedSlice((1, 0), (1, 0), (0, 0), (0, 0), (1, 0)), [X, k([0, 1]), k([0, 3])]),
    (o.StridedSlice((1, 1), (1, 1)), [X, k([0, 0]), k([0, 0]), k([-1, 1])]),
    (o.StridedSlice((0, 1), (0, 1), (1, 0), (1, 0), (1, 0)), [X, k([0, 0]), k([0, 1])]),
    (o.Range(DType.i32), [k(7, np.int32), k(-2, np.int32), k(-3, np.int32)]),
    (o.Range(DType.f32), [k(1.0, F), k(2.6, F), k(0.5, F)]),
    (o.Range1(), [k(1, np.int32), k(8, np.int32), k(3, np.int32)]),
    (o.Eye(DType.f32), [k(3), k(4), k(-1)]), (o.Eye(DType.i32), [k(2), k(2), k(1), k([3])]),
    (o.Broadcast1(), [f(3, 1), k([2, 3, 4])]), (o.Broadcast(), [f(3, 1), k([2, 3, 4])]),
    (o.Broadcast("bidirectional"), [f(3, 1), k([2, 1, 4])]),
    (o.Broadcast("explicit"), [f(3), k([2, 3, 4]), k([1])]),
    (o.Tile(), [X, k([2, 1, 3])]), (o.Tile(), [f(3), k([2, 2])]),
    (o.Gather1(), [X, k([[0, 2], [1, 1]]), k(1)]), (o.Gather7(1), [X, k([[0], [2]]), k(1)]),
    (o.Gather(), [X, k([0, -1, 2]), k(-1)]), (o.Gather(1), [X, k([[0, -1], [2, 1]]), k(2)]),
    (o.GatherElements(1), [X, k(i(2, 5, 4, low=0, high=3, dtype=np.int64))]),
    (o.GatherND(), [X, k([[0, 1], [1, 2]])]), (o.GatherND(1), [X, k([[0], [2]])]),
    (o.GatherND5(2), [X, k(i(2, 3, 1, low=0, high=4, dtype=np.int64))]),
]  # fmt: skip
MOVE += [
    (o.Pad("edge"), [X, k([1, 0, 2]), k([0, 1, 3])]),
    (o.Pad("reflect"), [X, k([1, 0, 2]), k([0, 1, 3])]),
    (o.Pad("symmetric"), [X, k([1, 0, 2]), k([0, 1, 3])]),
    (o.Pad(), [X, k([1, -1, 2]), k([0, 1, -3]), k(2.5, F)]),
    (o.Pad1(), [X, k([1] * 3), k([2] * 3)]),
    (o.Reverse(), [X, k([0, -1])]), (o.Reverse("mask"), [X, k([True, False, True], bool)]),
    (o.ReverseSequence(0, 1), [X, k([2, 3], np.int32)]),
    (o.ReverseSequence(2, 1), [X, k([2, 3, 1, 0], np.int32)]),
    (o.Roll(), [X, k([1, -2]), k([0, -1])]),
    (o.DepthToSpace("blocks_first", 2), [f(2, 8, 3, 5)]),
    (o.DepthToSpace("depth_first", 2), [f(2, 8, 3, 5)]),
    (o.SpaceToDepth("blocks_first", 2), [f(2, 3, 4, 6)]),
    (o.SpaceToDepth("depth_first", 2), [f(2, 3, 4, 6)]),
    (o.BatchToSpace(), [f(12, 3, 4, 2), k([1, 1, 2, 3]), k([0, 0, 1, 0]), k([0, 0, 0, 2])]),
    (o.SpaceToBatch(), [f(2, 3, 3, 5), k([1, 1, 2, 3]), k([0, 0, 1, 0]), k([0, 0, 0, 1])]),
    (o.ShuffleChannels(1, 2), [IMAGE]),
    (o.TopK1(1, "max", "value"), [X, k(2)]), (o.TopK3(-1, "min", "index"), [X, k(3)]),
    (o.TopK(1, "max", "value", DType.i64, True), [np.round(X), k(3)]),
    (o.OneHot1(1), [k([[0, 2], [1, 9]]), k(3), k(2.0, F), k(-1.0, F)]),
    (o.OneHot(-1), [k([0, 2, -1]), k(3), k(2.0, F), k(-1.0, F)]),
    (o.OneHot(-1, "normalize"), [k([0, 2, -1]), k(3), k(2.0, F), k(-1.0, F)]),
    (o.CumSum(), [X, k(1)]), (o.CumSum(True, True), [X, k(-1)]),
    (o.Bucketize(), [X, k([-1, 0, 0.5], F)]),
    (o.Bucketize(DType.i32, False), [k([1, 2, 3], np.int32), k([1, 3], np.int32)]),
    (o.ScatterUpdate(), [X, k([2, 0]), f(2, 2, 4), k(1)]),
    (o.ScatterElementsUpdate3(), [X, k([[[0, 1, 2, 1]], [[2, 1, 0, 1]]]), f(2, 1, 4), k(1)]),
    (o.ScatterElementsUpdate("sum"), [X, k([[[0], [0], [1]]] * 2), f(2, 3, 1), k(1)]),
    (o.ScatterElementsUpdate("mean", False), [X, k([[[0], [0], [1]]] * 2), f(2, 3, 1), k(1)]),
    (o.ScatterElementsUpdate("max", False), [X, k([[[0], [0], [1]]] * 2), f(2, 3, 1), k(1)]),
    (o.ScatterElementsUpdate("max", False), [X > 0, k([[[0], [0], [1]]] * 2), SIGNS, k(1)]),
    (o.ScatterElementsUpdate("min", False), [X > 0, k([[[0], [0], [1]]] * 2), SIGNS, k(1)]),
    (o.ScatterNDUpdate4(), [X, k([[0, 1], [1, 2]]), f(2, 4)]),
    (o.ScatterNDUpdate("prod"), [X, k([[0, 1], [0, 1]]), f(2, 4)]),
    (o.NonZero(), [b(3, 4)]), (o.NonZero(DType.i32), [np.round(X)]),
    (o.Unique(), [k([3, 1, 2, 1, 3])]), (o.Unique(False), [k([3, 1, 2, 1, 3])]),
]  # fmt: skip
_POOL = {"strides": (2, 1), "pads_begin": (1, 0), "pads_end": (0, 1), "kernel": (3, 2)}
NETWORK = [
    (o.MVN(True, 1e-5), [IMAGE, k([2, 3])]), (o.MVN(True, 0.1, "OUTSIDE_SQRT"), [IMAGE, k([-1])]),
    (o.MVN(False, 1e-5), [IMAGE, k([1])]),
    (o.BatchNormInference(1e-3), [IMAGE, f(4), f(4), f(4), np.abs(f(4))]),
    (o.GroupNormalization(2, 1e-5), [IMAGE, f(4), f(4)]),
    (o.NormalizeL2(1e-3, "max"), [IMAGE, k([1])]), (o.NormalizeL2(1e-3), [IMAGE, k([1, 2])]),
    (o.LRN(0.5, 0.75, 1.0, 3), [IMAGE, k([1])]), (o.LRN(0.5, 0.75, 1.0, 3), [IMAGE, k([2, 3])]),
    (o.ScaledDotProductAttention(), [f(2, 3, 5, 4), f(2, 3, 6, 4), f(2, 3, 6, 4)]),
    (o.ScaledDotProductAttention(True), [f(2, 3, 5, 4), f(2, 3, 6, 4), f(2, 3, 6, 4)]),
    (o.ScaledDotProductAttention(),
     [f(2, 3, 5, 4), f(2, 3, 6, 4), f(2, 3, 6, 4), f(2, 1, 5, 6), k(0.3, F)]),
    (o.ScaledDotProductAttention(),
     [f(2, 3, 5, 4), f(2, 3, 6, 4), f(2, 3, 6, 4), f(2, 1, 5, 6), k(0.3, F), f(1, 3, 1, 1)]),
    (o.Convolution((2, 1), (1, 0), (0, 2), (1, 2)), [IMAGE, f(3, 4, 3, 2)]),
    (o.Convolution((2, 2), (0, 0), (0, 0), (1, 1), "same_upper"), [IMAGE, f(3, 4, 3, 2)]),
    (o.Convolution((1, 1), (0, 0), (0, 0), (1, 1), "same_lower"), [IMAGE, f(3, 4, 2, 2)]),
    (o.Convolution((1,), (1,), (1,), (1,)), [f(2, 3, 9), f(5, 3, 3)]),
    (o.Convolution((1,) * 3, (0,) * 3, (0,) * 3, (1,) * 3), [f(1, 2, 4, 5, 3), f(2, 2, 2, 3, 2)]),
    (o.GroupConvolution((1, 1), (1, 1), (1, 1), (1, 1)), [IMAGE, f(2, 3, 2, 3, 3)]),
    (o.GroupConvolution((2, 1), (1, 1), (1, 1), (1, 1)), [IMAGE, f(4, 1, 1, 3, 3)]),
    (o.ConvolutionBackpropData((2, 1), (1, 0), (0, 1), (1, 2)), [IMAGE, f(4, 3, 3, 2)]),
    (o.ConvolutionBackpropData((2, 2), (0, 0), (0, 0), (1, 1), "same_upper"),
     [IMAGE, f(4, 3, 3, 3)]),
    (o.ConvolutionBackpropData((2, 2), (1, 1), (1, 1), (1, 1), "explicit", (1, 0)),
     [IMAGE, f(4, 3, 3, 3)]),
    (o.ConvolutionBackpropData((2, 2), (0, 0), (0, 0), (1, 1), "same_lower"),
     [IMAGE, f(4, 3, 3, 3), k([13, 12])]),
    (o.ConvolutionBackpropData((2, 2), (0, 0), (0, 0), (1, 1), "same_upper"),
     [IMAGE, f(4, 3, 3, 3), k([13, 12])]),
    (o.ConvolutionBackpropData((2, 2), (1, 0), (1, 0), (1, 1), "explicit"),
     [IMAGE, f(4, 3, 3, 3), k([13, 12])]),
    (o.GroupConvolutionBackpropData((2, 1), (1, 0), (0, 1), (1, 1)), [IMAGE, f(2, 2, 3, 3, 2)]),
    (o.MaxPool1(**_POOL), [IMAGE]), (o.MaxPool1(**_POOL, rounding_type="ceil"), [IMAGE]),
    (o.MaxPool8(**_POOL, dilations=(1, 2)), [IMAGE]),
    (o.MaxPool8(**_POOL, dilations=(1, 1), axis=2), [IMAGE]),
    (o.MaxPool(**_POOL, dilations=(1, 1), rounding_type="ceil_torch"), [IMAGE]),
    (o.AvgPool1(**_POOL), [IMAGE]), (o.AvgPool1(**_POOL, exclude_pad=True), [IMAGE]),
    (o.AvgPool1(**_POOL, rounding_type="ceil"), [IMAGE]),
    (o.AvgPool14(**_POOL, rounding_type="ceil_torch", exclude_pad=True), [IMAGE]),
    (o.AdaptiveAvgPool(), [IMAGE, k([3, 4])]), (o.AdaptiveMaxPool(DType.i32), [IMAGE, k([3, 4])]),
    (o.RNNCell(5), [f(2, 3), f(2, 5), k(f(5, 3)), k(f(5, 5)), k(f(5))]),
    (o.GRUCell(5), [f(2, 3), f(2, 5), k(f(15, 3)), k(f(15, 5)), k(f(15))]),
    (o.GRUCell(5, linear_before_reset=True),
     [f(2, 3), f(2, 5), k(f(15, 3)), k(f(15, 5)), k(f(20))]),
    (o.LSTMCell(5), [f(2, 3), f(2, 5), f(2, 5), k(f(20, 3)), k(f(20, 5)), k(f(20))]),
    (o.RNNSequence(5, ("tanh",), direction="reverse"),
     [f(2, 4, 3), f(2, 1, 5), k([4, 4], np.int32), k(f(1, 5, 3)), k(f(1, 5, 5)), k(f(1, 5))]),
    (o.GRUSequence(5, ("sigmoid", "tanh"), direction="forward"),
     [f(2, 4, 3), f(2, 1, 5), k([4, 2], np.int32), k(f(1, 15, 3)), k(f(1, 15, 5)), k(f(1, 15))]),
    (o.LSTMSequence(5, ("sigmoid", "tanh", "tanh"), direction="bidirectional"),
     [f(2, 4, 3), f(2, 2, 5), f(2, 2, 5), k([4, 3], np.int32), k(f(2, 20, 3)), k(f(2, 20, 5)),
      k(f(2, 20))]),
]  # fmt: skip


def _resize(mode: str, how: str, to: Any, at: str = "half_pixel", **more: Any) -> Any:
    pads = {"pads_begin": (0, 0, 0, 0), "pads_end": (0, 0, 0, 0)}
    op = o.Interpolate(mode, how, at, **{**pads, **more})
    return op, [IMAGE, k(to, np.int64 if how == "sizes" else F), k([2, 3])]


BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11],
                   [0, 10.1, 1, 11.1], [0, 100, 1, 101]]] * 2, F)  # fmt: skip
SCORES = np.abs(f(2, 2, 6)) + F(0.1)
GRID = (_R.random((2, 3, 5, 2)) * 2.4 - 1.2).astype(F)
SAMPLED = [
    _resize("nearest", "scales", [2.0, 0.5], "asymmetric", nearest_mode="floor"),
    _resize("nearest", "sizes", [11, 4]), _resize("nearest", "sizes", [3, 9], nearest_mode="ceil"),
    _resize("nearest", "sizes", [5, 9], "tf_half_pixel_for_nn", nearest_mode="simple"),
    _resize("nearest", "sizes", [4, 8], "align_corners", nearest_mode="round_prefer_ceil"),
    _resize("linear_onnx", "sizes", [13, 4]), _resize("linear_onnx", "scales", [2.0, 1.5]),
    _resize("linear_onnx", "sizes", [13, 1], "pytorch_half_pixel"),
    _resize("linear_onnx", "sizes", [13, 4], "align_corners"),
    _resize("linear", "sizes", [13, 4]),
    _resize("cubic", "sizes", [13, 4]), _resize("cubic", "scales", [0.6, 2.0], "asymmetric"),
    _resize("bilinear_pillow", "sizes", [3, 9]), _resize("bicubic_pillow", "sizes", [3, 9]),
    (o.Interpolate4("nearest", "sizes", pads_begin=(0,) * 4, pads_end=(0,) * 4),
     [IMAGE, k([9, 3]), k([1.0, 1.0], F), k([2, 3])]),
    (o.Einsum("bij,bjk->bik"), [f(2, 3, 4), f(2, 4, 5)]), (o.Einsum("ij->ji"), [f(3, 4)]),
    (o.Einsum("i,i->"), [f(3), f(3)]), (o.Einsum("...ii->...i"), [f(2, 3, 3)]),
    (o.DFT(), [f(2, 5, 6, 2), k([1, 2])]), (o.IDFT(), [f(2, 5, 6, 2), k([2]), k([4])]),
    (o.RDFT(), [f(2, 5, 6), k([1, 2])]), (o.RDFT(), [f(2, 5, 6), k([2]), k([4])]),
    (o.IRDFT(), [f(2, 5, 4, 2), k([2])]),
    (o.STFT(), [f(2, 32), f(8), k(8), k(3)]), (o.STFT(True), [f(2, 32), f(5), k(8), k(40)]),
    (o.STFT(), [f(9), f(4), k(7), k(1)]), (o.STFT(True), [f(9), f(9), k(9), k(1)]),
    (o.GridSample(), [IMAGE, GRID]), (o.GridSample(True, "bilinear", "border"), [IMAGE, GRID]),
    (o.GridSample(False, "bilinear", "reflection"), [IMAGE, GRID]),
    (o.GridSample(True, "bilinear", "reflection"), [IMAGE, GRID]),
    (o.GridSample(False, "nearest", "zeros"), [IMAGE, GRID]),
    (o.GridSample(False, "nearest", "border"), [IMAGE, GRID]),
    (o.GridSample(False, "bicubic", "zeros"), [IMAGE, GRID]),
    (o.GridSample(True, "bicubic", "border"), [IMAGE, GRID]),
    (o.GridSample(False, "bicubic", "reflection"), [IMAGE, GRID]),
    (o.ROIAlign(3, 2, 2, 0.5, "avg"),
     [IMAGE, k([[0, 1, 9, 11], [2, 2, 5, 6]], F), k([0, 1], np.int32)]),
    (o.ROIAlign(2, 2, 2, 0.9, "avg", "half_pixel"),
     [IMAGE, k([[0, 1, 4, 5], [1, 1, 4, 3]], F), k([1, 0], np.int32)]),
    (o.Col2Im((1, 2), (2, 1), (1, 0), (0, 1)), [f(2, 12, 20), k([6, 8]), k([2, 2])]),
    (o.FakeConvert("f8e4m3"), [X * 9, k([1.5], F)]),
    (o.FakeConvert("f8e5m2"), [X * 9, k([1.5], F), k([0.25], F)]),
    (o.NonMaxSuppression(),
     [BOXES, SCORES, k(3), k(0.5, F), k(0.2, F)]),
    (o.NonMaxSuppression("center", False),
     [np.abs(BOXES) + F(0.3), SCORES, k(4), k(0.4, F), k(0.1, F)]),
]  # fmt: skip
CASES = [(op, list(x) if isinstance(x, list) else [x]) for op, x in
         [*UNARY, *BINARY, *REDUCE, *MOVE, *NETWORK, *SAMPLED]]  # fmt: skip


def arrays_of(inputs: list[Any]) -> list[Any]:
    return [x.value if isinstance(x, k) else np.asarray(x) for x in inputs]


def run_openvino(op: Any, inputs: list[Any]) -> tuple[list[Any], str]:
    """OpenVINO's outputs, and the version of the class it made."""
    parameters, nodes = [], []
    for x in inputs:
        if isinstance(x, k):
            nodes.append(ov.opset13.constant(x.value))
        else:
            parameters.append(ov.opset13.parameter(x.shape, x.dtype))
            nodes.append(parameters[-1])
    attributes: dict[str, Any] = {}
    for a in op.attributes():
        value = getattr(op, a.name)
        if a.name not in ("num_outputs", "out_of_range") and value != ():
            value = value.value if isinstance(value, DType) else value
            attributes[a.xml] = list(value) if isinstance(value, tuple) else value
    node = NodeFactory(f"opset{op.version}").create(op.kind, nodes, attributes)
    model = ov.Model(node.outputs(), parameters, "case")
    hints = OPENVINO_CONFIG
    compiled = ov.Core().compile_model(model, "CPU", hints)
    found = compiled([x for x in inputs if not isinstance(x, k)])
    return [found[n] for n in range(len(node.outputs()))], node.get_type_info().version_id


def label(case: Any) -> str:
    return f"{type(case[0]).__name__}-{','.join(str(list(a.shape)) for a in arrays_of(case[1]))}"


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=label)
def test_numbers_and_version(case: Any) -> None:
    op, inputs = case
    copies = [a.copy() for a in arrays_of(inputs)]
    expected, version = run_openvino(op, inputs)
    # OpenVINO's class of LogicalXor calls itself opset2, but opset1 has it.
    assert version == f"opset{op.version}" or op.kind == "LogicalXor"
    found = op.evaluate(*op.slots(arrays_of(inputs)))
    for a, was in zip(arrays_of(inputs), copies, strict=True):
        np.testing.assert_array_equal(a, was)
    for ours, theirs in zip(found, expected, strict=False):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


def facts_of(inputs: list[Any], *, symbolic: bool) -> tuple[list[Fact], dict[str, int]]:
    facts, env = [], {}
    for n, x in enumerate(inputs):
        array = x.value if isinstance(x, k) else x
        shape: list[Any] = list(array.shape)
        if symbolic and not isinstance(x, k):
            for axis, size in enumerate(shape):
                name = f"s{n}.{axis}"
                shape[axis], env[name] = symbol(name, min(size, 1)), size
        type_ = TensorType(DType.from_numpy(array.dtype), tuple(shape))
        facts.append(Fact(type_, array if isinstance(x, k) else None))
    return facts, env


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("case", CASES, ids=label)
def test_inference_agrees_with_evaluation(case: Any, symbolic: bool) -> None:
    op, inputs = case
    facts, env = facts_of(inputs, symbolic=symbolic)
    types = op.infer(*op.slots(facts))
    found = op.evaluate(*op.slots(arrays_of(inputs)))
    assert len(types) == op.output_count()
    for type_, array in zip(types, found, strict=True):
        assert type_.dtype is DType.from_numpy(array.dtype)
        if type_.shape is None:
            assert symbolic
            continue
        assert len(type_.shape) == array.ndim
        known = [
            d for d in type_.shape if isinstance(d, int) or all(s.name in env for s in d.symbols())
        ]
        if len(known) == array.ndim:
            assert tuple(compile_dims(tuple(known))(env)) == array.shape
        else:
            assert symbolic or op.data_dependent


@pytest.mark.parametrize("kind", ["DFT", "IDFT", "RDFT", "IRDFT"])
def test_a_transform_of_nothing_is_zero(kind: str) -> None:
    """An empty axis padded to four: what NumPy makes of it is memory that nobody wrote."""
    data = np.zeros((3, 0) if kind == "RDFT" else (3, 0, 2))
    for _ in range(3):
        np.full((3, 4), 7.7)  # what such memory held before
        (found,) = getattr(o, kind)().evaluate(data, np.array([1]), np.array([4]))
        assert found.shape[:1] == (3,) and found.size and not found.any()
