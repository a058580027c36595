"""A case of every operation with operands of about a mebielement: (operation, inputs)."""

from __future__ import annotations

from typing import Any

import irc_compiler.ir.ops as o
import numpy as np
from irc_compiler.ir.dtype import DType

F = np.float32
_R = np.random.default_rng(5)


def f(*shape: int, dtype: Any = F) -> Any:
    return _R.standard_normal(shape, F).astype(dtype)


def i(*shape: int, low: int = 0, high: int = 7, dtype: Any = np.int64) -> Any:
    return _R.integers(low, high, shape).astype(dtype)


def k(value: Any, dtype: Any = np.int64) -> Any:
    return np.array(value, dtype)


X = f(16, 256, 256)
IMAGE = f(1, 16, 256, 256)
BITS = X > 0
WINDOW = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "kernel": (3, 3)}
EDGES: Any = ((1, 1), (1, 1), (1, 1), (1, 1))
NO_PADS: Any = {"pads_begin": (0,) * 4, "pads_end": (0,) * 4}
BOX = k([[0, 0, 200, 200]] * 16, F)

UNARY = [
    (o.Abs(), X), (o.Negative(), X), (o.Sign(), X), (o.Ceiling(), X), (o.Floor(), X),
    (o.Round(), X), (o.Round("half_away_from_zero"), X), (o.Sqrt(), X), (o.Exp(), X), (o.Log(), X),
    (o.Erf(), X), (o.Sin(), X), (o.Cos(), X), (o.Tan(), X), (o.Asin(), X), (o.Acos(), X),
    (o.Atan(), X), (o.Sinh(), X), (o.Cosh(), X), (o.Asinh(), X), (o.Acosh(), X), (o.Atanh(), X),
    (o.Relu(), X), (o.Sigmoid(), X), (o.Tanh(), X), (o.Clamp(-0.5, 0.25), X), (o.Elu(0.7), X),
    (o.Gelu2(), X), (o.Gelu(), X), (o.Gelu("TANH"), X), (o.HSigmoid(), X), (o.HSwish(), X),
    (o.Mish(), X), (o.SoftPlus(), X), (o.SoftSign(), X), (o.LogicalNot(), BITS),
    (o.BitwiseNot(), i(1024, 1024)), (o.Swish(), X), (o.Identity(), X), (o.IsNaN(), X),
    (o.IsInf(), X), (o.IsFinite(), X), (o.Convert(DType.i32), X), (o.Convert(DType.bf16), X),
    (o.Convert(DType.f8e4m3), X), (o.Convert(DType.nf4), X), (o.BitCast(DType.i32), X),
    (o.ConvertE8M0(), X), (o.Activation("elu"), X), (o.Softmax(-1), X), (o.Softmax1(1), X),
    (o.LogSoftmax(1), X), (o.MVN2(True, True, 1e-5), IMAGE), (o.ShapeOf1(), X), (o.ShapeOf(), X),
    (o.RMSNorm(), X),
]  # fmt: skip
BINARY = [
    (cls(), [X, f(256, 1)])
    for cls in (o.Add, o.Subtract, o.Multiply, o.Divide, o.Maximum, o.Minimum, o.SquaredDifference,
                o.FloorMod, o.Mod, o.Equal, o.NotEqual, o.Less, o.LessEqual, o.Greater, o.Power,
                o.GreaterEqual)
] + [
    (cls(), [i(1024, 1024, high=99), i(1024, low=1)])
    for cls in (o.BitwiseAnd, o.BitwiseOr, o.BitwiseXor, o.Divide, o.Mod, o.Power,
                o.BitwiseLeftShift, o.BitwiseRightShift)
] + [
    (cls(), [BITS, BITS]) for cls in (o.LogicalAnd, o.LogicalOr, o.LogicalXor)
] + [
    (o.Select(), [BITS, X, f(256)]), (o.PRelu(), [X, f(256)]), (o.Swish(), [X, k(1.7, F)]),
    (o.HardSigmoid(), [X, k(0.3, F), k(0.4, F)]), (o.Selu(), [X, k(1.6, F), k(1.1, F)]),
    (o.ConvertLike(), [X, k([1, 2], np.int32)]),
    (o.FakeQuantize(16), [X, k(-1, F), k(1.5, F), k(-2, F), k(3, F)]),
    (o.FakeConvert("f8e4m3"), [X, k([1.5], F)]),
    (o.Quantize(DType.i8), [X, k(0.5, F), k(3, np.int8)]),
    (o.Dequantize(), [i(1024, 1024, dtype=np.int8), f(1024), i(1024, dtype=np.int8)]),
    (o.Dequantize(-1, 32), [i(1024, 1024, dtype=np.int8), f(1024, 32)]),
    (o.AffineDequantize(-1, 32), [i(1024, 1024, dtype=np.int8), f(1024, 32), f(1024, 32)]),
    *((o.QuantizeRows(bits), [f(16384, 64)]) for bits in (8, 4)),
    (o.DequantizeRows(8), [i(16384, 68, dtype=np.uint8)]),
    (o.DequantizeRows(4), [i(16384, 40, dtype=np.uint8)]),
    (o.MatMul(), [f(1024, 1024), f(1024, 1024)]),
    (o.MatMul(True, True), [f(512, 1024), f(1024, 512)]),
    (o.MatMul(), [i(512, 512, dtype=np.int8), i(512, 512, dtype=np.int8)]),
    (o.Gemm(), [f(1024, 1024), f(1024, 1024), f(1024)]),
    (o.MatMulInteger(), [i(1024, 1024, dtype=np.int8), i(1024, 1024, dtype=np.int8)]),
    (o.Einsum("bij,bjk->bik"), [f(4, 512, 512), f(4, 512, 512)]),
    (o.Einsum("ij->ji"), [f(1024, 1024)]), (o.Einsum("i,j,k->ik"), [f(1024), f(64), f(1024)]),
]  # fmt: skip
REDUCE = [
    (cls(), [X, k([0, 2])])
    for cls in (o.ReduceSum, o.ReduceMean, o.ReduceMax, o.ReduceMin, o.ReduceProd, o.ReduceL1,
                o.ReduceL2)
] + [(cls(), [BITS, k([1])]) for cls in (o.ReduceLogicalAnd, o.ReduceLogicalOr)]  # fmt: skip
MOVE = [
    (o.Reshape(False), [X, k([4096, 256])]), (o.Squeeze1(), [f(1, 1024, 1024), k([0])]),
    (o.Squeeze(), [f(1, 1024, 1024), k([0])]), (o.Unsqueeze(), [X, k([0])]),
    (o.Transpose(), [X, k([2, 0, 1])]), (o.Concat(1), [X, X]), (o.Split(2), [X, k(2)]),
    (o.VariadicSplit(num_outputs=2), [X, k(-1), k([1, -1])]),
    (o.Slice(), [X, k([1]), k([200]), k([1]), k([1])]),
    (o.StridedSlice((0,), (0,)), [X, k([15]), k([-99]), k([-1])]),
    (o.Range(DType.f32), [k(0, np.int64), k(1 << 20), k(1)]),
    (o.Range1(), [k(0), k(1 << 20), k(1)]), (o.Eye(DType.f32), [k(1024), k(1024), k(0)]),
    (o.Broadcast1(), [f(1024, 1), k([1024, 1024])]), (o.Broadcast(), [f(1024, 1), k([1024, 1024])]),
    (o.Tile(), [f(1024, 64), k([2, 16])]), (o.Gather1(), [X, i(256), k(1)]),
    (o.Gather7(), [X, i(256), k(1)]), (o.Gather(1), [X, i(16, 256), k(2)]),
    (o.GatherElements(1), [X, i(16, 256, 256)]), (o.GatherND(), [X, i(4096, 2)]),
    (o.GatherND5(1), [X, i(16, 1 << 16, 2)]), (o.Pad("edge"), [X, k([1] * 3), k([2] * 3)]),
    (o.Pad("reflect"), [X, k([1] * 3), k([2] * 3)]), (o.Pad(), [X, k([1] * 3), k([2] * 3)]),
    (o.Pad1(), [X, k([1] * 3), k([2] * 3)]), (o.Reverse(), [X, k([0, -1])]),
    (o.ReverseSequence(0, 1), [X, i(16)]), (o.Roll(), [X, k([1]), k([0])]),
    (o.DepthToSpace("blocks_first", 2), [IMAGE]), (o.SpaceToDepth("depth_first", 2), [IMAGE]),
    (o.BatchToSpace(), [f(16, 4, 128, 128), k([1, 1, 2, 2]), k([0] * 4), k([0] * 4)]),
    (o.SpaceToBatch(), [IMAGE, k([1, 1, 2, 2]), k([0] * 4), k([0] * 4)]),
    (o.ShuffleChannels(1, 2), [IMAGE]), (o.TopK1(-1, "max", "value"), [X, k(99)]),
    (o.TopK3(-1, "min", "index"), [X, k(99)]), (o.TopK(1, "max", "value"), [X, k(99)]),
    (o.OneHot1(), [i(1024), k(1024), k(2.0, F), k(-1.0, F)]),
    (o.OneHot(), [i(1024), k(1024), k(2.0, F), k(-1.0, F)]), (o.CumSum(), [X, k(1)]),
    (o.CumSum(True, True), [X, k(1)]), (o.CumProd(), [X, k(1)]),
    (o.Bucketize(), [X, k([-1, 0, 0.5], F)]), (o.ScatterUpdate(), [X, i(4), f(4, 256, 256), k(0)]),
    (o.ScatterElementsUpdate3(), [X, i(16, 256, 256), X, k(1)]),
    (o.ScatterElementsUpdate("sum"), [X, i(16, 256, 256), X, k(1)]),
    (o.ScatterElementsUpdate("mean", False), [X, i(16, 256, 256), X, k(1)]),
    (o.ScatterNDUpdate4(), [X, i(4096, 2), f(4096, 256)]),
    (o.ScatterNDUpdate("prod"), [X, i(4096, 2), f(4096, 256)]), (o.NonZero(), [X]),
    (o.NonZero(DType.i32), [BITS]), (o.Unique(), [X]), (o.Unique(False), [X]),
    (o.Unique(), [f(1024, 1024), k(0)]),
    (o.RandomUniform(DType.f32), [k([1024, 1024]), k(0, F), k(1, F)]),
]  # fmt: skip
NETWORK = [
    (o.MVN(True, 1e-5), [IMAGE, k([2, 3])]), (o.LayerNorm(), [X, f(256), f(256)]),
    (o.BatchNormInference(1e-3), [IMAGE, f(16), f(16), f(16), np.abs(f(16))]),
    (o.BatchNormInference1(1e-3), [f(16), f(16), IMAGE, f(16), np.abs(f(16))]),
    (o.GroupNormalization(2, 1e-5), [IMAGE, f(16), f(16)]),
    (o.NormalizeL2(1e-3), [IMAGE, k([1])]), (o.LRN(0.5, 0.75, 1.0, 3), [IMAGE, k([1])]),
    (o.ScaledDotProductAttention(), [f(4, 512, 64)] * 3),
    (o.ScaledDotProductAttention(True), [f(4, 512, 64)] * 3),
    (o.ScaledDotProductAttention(),
     [*[f(4, 512, 64)] * 3, f(512, 512), np.array(0.1, np.float32), f(4, 1, 1)]),
    (o.Attention(causal="last"), [f(4, 512, 64)] * 3),
    (o.Attention(cap=3.0), [f(4, 512, 64), f(4, 512, 64), f(4, 512, 64), f(512, 512)]),
    (o.Convolution(*EDGES), [IMAGE, f(16, 16, 3, 3)]),
    (o.Convolution((1,), (30,), (30,), (1,)), [f(1, 1, 1 << 17), f(1, 1, 61)]),
    (o.GroupConvolution(*EDGES), [IMAGE, f(16, 1, 1, 3, 3)]),
    (o.ConvInteger(*EDGES), [i(1, 16, 256, 256, dtype=np.uint8), i(16, 16, 3, 3, dtype=np.int8)]),
    (o.GroupConvInteger(*EDGES),
     [i(1, 16, 256, 256, dtype=np.uint8), i(16, 1, 1, 3, 3, dtype=np.int8)]),
    (o.ConvolutionBackpropData(*EDGES), [IMAGE, f(16, 16, 3, 3)]),
    (o.GroupConvolutionBackpropData(*EDGES), [IMAGE, f(16, 1, 1, 3, 3)]),
    (o.MaxPool1(**WINDOW), [IMAGE]), (o.MaxPool8(**WINDOW, dilations=(1, 1)), [IMAGE]),
    (o.MaxPool(**WINDOW, dilations=(1, 1)), [IMAGE]), (o.AvgPool1(**WINDOW), [IMAGE]),
    (o.AvgPool14(**WINDOW), [IMAGE]), (o.AvgPool(**WINDOW, dilations=(1, 1)), [IMAGE]),
    (o.AdaptiveAvgPool(), [IMAGE, k([32, 32])]), (o.AdaptiveMaxPool(), [IMAGE, k([128, 128])]),
    (o.RNNCell(64), [f(1024, 64), f(1024, 64), f(64, 64), f(64, 64), f(64)]),
    (o.GRUCell(64), [f(1024, 64), f(1024, 64), f(192, 64), f(192, 64), f(192)]),
    (o.LSTMCell(64), [f(1024, 64), f(1024, 64), f(1024, 64), f(256, 64), f(256, 64), f(256)]),
    (o.RNNSequence(64, ("tanh",), direction="reverse"),
     [f(64, 64, 64), f(64, 1, 64), k([64] * 64), f(1, 64, 64), f(1, 64, 64), f(1, 64)]),
    (o.GRUSequence(64, ("sigmoid", "tanh"), direction="forward"),
     [f(64, 64, 64), f(64, 1, 64), k([64] * 64), f(1, 192, 64), f(1, 192, 64), f(1, 192)]),
    (o.LSTMSequence(64, ("sigmoid", "tanh", "tanh"), direction="forward"),
     [f(64, 64, 64), f(64, 1, 64), f(64, 1, 64), k([64] * 64), f(1, 256, 64), f(1, 256, 64),
      f(1, 256)]),
    (o.PeepholeLSTM(64, ("sigmoid", "tanh", "tanh"), direction="forward"),
     [f(64, 64, 64), f(64, 1, 64), f(64, 1, 64), k([64] * 64), f(1, 256, 64), f(1, 256, 64),
      f(1, 256), f(1, 192)]),
    (o.DFT(), [f(1024, 512, 2), k([0])]), (o.IDFT(), [f(1024, 512, 2), k([0, 1])]),
    (o.RDFT(), [f(1024, 1024), k([1])]), (o.IRDFT(), [f(1024, 512, 2), k([1])]),
    (o.STFT(), [f(1, 1 << 18), f(512), k(512), k(128)]),
    (o.GridSample(), [IMAGE, f(1, 256, 256, 2)]),
    (o.GridSample(False, "bicubic", "zeros"), [IMAGE, f(1, 256, 256, 2)]),
    (o.GridSample(False, "nearest", "border"), [IMAGE, f(1, 256, 256, 2)]),
    (o.ROIAlign(32, 32, 2, 1.0, "avg"), [IMAGE, BOX, k([0] * 16)]),
    (o.Col2Im((1, 1), (1, 1), (0, 0), (0, 0)), [f(1, 36, 254 * 254), k([256, 256]), k([3, 3])]),
    (o.NonMaxSuppression(),
     [np.abs(f(1, 1024, 4)), np.abs(f(1, 8, 1024)), k(10), k(0.5, F), k(0.2, F)]),
    (o.SuppressBoxes("corner", 100, 0.5, 0.2), [np.abs(f(1, 4096, 4)), np.abs(f(1, 8, 4096))]),
    (o.ListBoxes(True, DType.i64),
     [k(np.zeros((8, 16, 1024))), k(np.full((8, 16), 1000)), np.abs(f(8, 16, 1024))]),
]  # fmt: skip
RESIZED = [
    (o.Interpolate(mode, "sizes", "half_pixel", **NO_PADS), [IMAGE, k(to), k([2, 3])])
    for mode in ("nearest", "linear_onnx", "linear", "cubic", "bilinear_pillow", "bicubic_pillow")
    for to in ([300, 300], [100, 100])
] + [
    (o.Interpolate4("nearest", "sizes", **NO_PADS), [IMAGE, k([300, 300]), k([1, 1], F), k([2, 3])])
]  # fmt: skip
NARROW = [
    (op, [a.astype(np.float16) if a.dtype == F else a for a in arrays])
    for op, arrays in (
        (o.Exp(), [X]), (o.ReduceSum(), [X, k([1])]), (o.MatMul(), [f(1024, 512), f(512, 1024)]),
        (o.Softmax(-1), [X]), (o.TopK(1, "max", "value"), [X, k(99)]), (o.CumSum(), [X, k(1)]),
        (o.Unique(), [X]), (o.Convolution(*EDGES), [IMAGE, f(16, 16, 3, 3)]),
        (o.MaxPool1(**WINDOW), [IMAGE]), (o.MVN(True, 1e-5), [IMAGE, k([2, 3])]),
    )
] + [
    (op, [i(1024, 1024, dtype=np.int8), *more])
    for op, more in (
        (o.CumSum(), [k(1)]), (o.TopK(1, "max", "value"), [k(99)]), (o.NonZero(), []),
        (o.Gather(), [i(1024), k(1)]),
    )
]  # fmt: skip
H = np.float16
# Boxes side by side: none overlaps another, so all are kept.
APART = np.arange(2048, dtype=F)[:, None] * 2 + k([0, 0, 1, 1], F)
ROTATED = np.abs(f(1, 8192, 5)) + 1
ROIS = k([[0, 0, 0, 200, 200]] * 16, F)
TEXTS = np.array([f"text {n}" for n in range(1 << 17)], object)
ENDS = np.cumsum([len(text) for text in TEXTS]).astype(np.int32)
MARGIN = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}
SSD: Any = {
    "nms_threshold": 0.5,
    "normalized": True,
    "code_type": "caffe.PriorBoxParameter.CENTER_SIZE",
}
PRIOR_SIZES: Any = {"min_size": (10.0, 20.0), "aspect_ratio": (2.0, 3.0), "flip": True}
ANCHORS: Any = {"ratio": (0.5, 1.0, 2.0), "scale": (8.0, 16.0), "base_size": 16, "feat_stride": 16}
BAGS = k(range(0, 1 << 14, 4))
SEGMENTS = np.repeat(np.arange(1 << 14), 4)
DETECTION = [
    (o.DetectionOutput((200,), top_k=400, **SSD),
     [f(1, 1 << 18), f(1, 1 << 18), np.abs(f(1, 2, 1 << 18))]),
    (o.DetectionOutput((200,), top_k=400, share_location=False, **SSD),
     [f(1, 1 << 18), f(1, 1 << 16), np.abs(f(1, 2, 1 << 16)), f(1, 1 << 15), f(1, 1 << 16)]),
    (o.DetectionOutput((-1,), nms_threshold=0.5, normalized=True, confidence_threshold=-9),
     [np.zeros((1, 1 << 13), F), f(1, 1 << 14), np.stack([APART, APART]).reshape(1, 2, -1)]),
    (o.ExperimentalDetectronDetectionOutput(0.999, 0.5, 64, 100, 100),
     [np.abs(f(1 << 13, 4)), f(1 << 13, 256), i(1 << 13, 64, high=1).astype(F), k([[9, 9, 1]], F)]),
    (o.ExperimentalDetectronGenerateProposalsSingleImage(0.0, 0.7, 100, 1000),
     [k([999, 999, 1], F), np.abs(f(1 << 18, 4)), f(16, 256, 256), f(4, 256, 256)]),
    (o.ExperimentalDetectronPriorGridGenerator(),
     [f(4, 4), f(1, 1, 256, 256), f(1, 3, 256, 256)]),
    (o.ExperimentalDetectronROIFeatureExtractor(14, 2, (4, 8)),
     [np.abs(f(256, 4)) + k([0, 0, 99, 99], F), f(1, 64, 128, 128), f(1, 64, 64, 64)]),
    (o.ExperimentalDetectronTopKROIs(1000), [f(1 << 19, 4), f(1 << 19)]),
    (o.ExperimentalDetectronTopKROIs(1 << 18), [f(1 << 18, 4), f(1 << 18)]),
    (o.Proposal(pre_nms_topn=1000, post_nms_topn=99, nms_thresh=0.7, min_size=1, **ANCHORS),
     [f(1, 12, 256, 256), f(1, 24, 256, 256), k([999, 999, 1], F)]),
    (o.GenerateProposals(1.0, 0.7, 1000, 99),
     [k([[999, 999, 1]], F), np.abs(f(256, 256, 4, 4)), f(1, 16, 256, 256), f(1, 4, 256, 256)]),
    (o.MatrixNms(nms_top_k=1024), [np.abs(f(1, 4096, 4)), np.abs(f(1, 4, 4096))]),
    (o.MatrixNms(post_threshold=9, decay_function="gaussian"),
     [np.abs(f(1, 1500, 4)), np.abs(f(1, 2, 1500))]),
    (o.MulticlassNms(iou_threshold=0.1, nms_top_k=500),
     [np.abs(f(1, 1 << 17, 4)), f(1, 4, 1 << 17)]),
    (o.MulticlassNms(iou_threshold=0.1, score_threshold=-9), [APART[None], f(1, 2, 2048)]),
    (o.NMSRotated(), [ROTATED, f(1, 2, 8192), k(20), k(0.5, F), k(-9, F)]),
    (o.ROIAlignRotated(64, 64, 4, 1.0), [IMAGE, k([[99, 99, 150, 150, 1]] * 16, F), k([0] * 16)]),
    (o.ROIAlignRotated(64, 64, 2, 1.0),
     [IMAGE.astype(H), k([[99, 99, 150, 150, 1]] * 16, H), k([0] * 16)]),
    (o.ROIPooling(32, 32, 1.0), [IMAGE, ROIS]),
    (o.ROIPooling(128, 128, 1.0, "bilinear"), [IMAGE.astype(H), (ROIS / 400).astype(H)]),
    (o.PSROIPooling(16, 1.0, 4), [f(1, 256, 64, 64), ROIS]),
    (o.PSROIPooling(16, 0.001, 128, 2, 2, "bilinear"), [f(1, 64, 128, 128), ROIS]),
    (o.DeformablePSROIPooling(16, 0.1, 7, spatial_bins_x=8, spatial_bins_y=8),
     [f(1, 784, 32, 32), ROIS]),
    (o.PriorBox(0.5, **PRIOR_SIZES), [k([128, 128]), k([999, 999])]),
    (o.PriorBoxClustered(0.5, (1.0, 2.0), (3.0, 4.0), clip=True), [k([512, 128]), k([999, 999])]),
    (o.RegionYolo(4, 20, 5, 1, 3), [f(1, 125, 128, 128)]),
    (o.RegionYolo(4, 20, 5, 1, 3, False, (0, 1, 2)), [f(1, 75, 128, 128, dtype=H)]),
    (o.ReorgYolo(2), [IMAGE]),
]  # fmt: skip
VISION = [
    (o.BinaryConvolution(*EDGES), [IMAGE, i(16, 16, 3, 3, high=2, dtype=np.uint8)]),
    (o.DeformableConvolution(**MARGIN),
     [f(1, 8, 128, 128), f(1, 18, 128, 128), f(8, 8, 3, 3), f(1, 9, 128, 128)]),
    (o.DeformableConvolution(**MARGIN, bilinear_interpolation_pad=True, deformable_group=4),
     [f(1, 4, 128, 128, dtype=H), f(1, 72, 128, 128, dtype=H), f(8, 4, 3, 3, dtype=H)]),
    (o.ExtractImagePatches((3, 3), (1, 1), (1, 1), "same_upper"), [IMAGE]),
    (o.NV12toRGB(), [i(1, 1536, 1024, 1, high=256, dtype=np.uint8)]),
    (o.NV12toBGR(), [f(1, 1024, 1024, 1, dtype=H), f(1, 512, 512, 2, dtype=H)]),
    (o.I420toRGB(), [f(1, 1536, 1024, 1)]),
    (o.I420toBGR(), [i(1, n, n, 1, high=256, dtype=np.uint8) for n in (1024, 512, 512)]),
    (o.GRN(1.0), [IMAGE]), (o.GRN(1.0), [f(1024, 1, 1024, dtype=H)]),
    (o.Inverse(), [f(16, 256, 256)]), (o.Inverse(True), [f(64, 128, 128, dtype=H)]),
    (o.ISTFT(), [f(257, 2048, 2), f(512), k(512), k(128)]),
    (o.ISTFT(True), [f(2, 129, 2048, 2, dtype=H), f(256, dtype=H), k(256), k(256), k(1 << 19)]),
]  # fmt: skip
SEQUENCES = [
    (o.CTCGreedyDecoder(), [f(4096, 8, 32), np.ones((4096, 8), F)]),
    (o.CTCGreedyDecoder(), [f(1 << 15, 16, 2, dtype=H), np.ones((1 << 15, 16), H)]),
    (o.CTCGreedyDecoderSeqLen(), [f(8, 4096, 32), k([4096] * 8)]),
    (o.CTCGreedyDecoderSeqLen(), [f(16, 1 << 15, 2, dtype=H), k([1 << 15] * 16)]),
    (o.CTCLoss(), [f(2, 512, 1024), k([512] * 2), i(2, 512), k([99] * 2)]),
    (o.CTCLoss(), [f(1, 1 << 14, 9), k([1 << 14]), i(1, 1 << 14), k([1 << 12])]),
    (o.GatherTree(), [i(256, 64, 64), i(256, 64, 64), k([256] * 64), k(6)]),
    (o.GatherTree(), [f(256, 64, 64), i(256, 64, 64).astype(F), k([9] * 64, F), k(6, F)]),
    (o.SearchSorted(), [np.sort(X.reshape(-1)), X]),
    (o.SearchSorted(True, DType.i32), [np.sort(f(1024, 1024, dtype=H)), f(1024, 1024, dtype=H)]),
    (o.StringTensorUnpack(), [TEXTS]),
    (o.StringTensorPack(),
     [np.append(0, ENDS[:-1]).astype(np.int32), ENDS,
      np.frombuffer("".join(TEXTS).encode(), np.uint8)]),
    (o.ConvertPromoteTypes(), [X, X.astype(H)]),
    (o.SliceScatter(), [X, f(15, 256, 256), k([1]), k([16]), k([1]), k([0])]),
    (o.Multinomial(DType.i64, True, False), [np.abs(f(1024, 1024)), k(99)]),
    (o.Multinomial(DType.i32, True, True), [f(256, 9), k(4096)]),
    (o.Multinomial(DType.i64, False, True), [f(1024, 1024), k(999)]),
]  # fmt: skip
SPARSE = [
    (op, [table, *more])
    for table in (f(4096, 64), f(4096, 64, dtype=H), i(4096, 64, dtype=np.int8))
    for op, more in (
        (o.EmbeddingBagOffsets("mean"), [i(1 << 14, high=4096), BAGS]),
        (o.EmbeddingBagOffsetsSum(),
         [i(1 << 14, high=4096), BAGS, k(3), f(1 << 14).astype(table.dtype)]),
        (o.EmbeddingBagPacked("mean"), [i(4096, 4, high=4096)]),
        (o.EmbeddingBagPackedSum(), [i(4096, 4, high=4096), f(4096, 4).astype(table.dtype)]),
        (o.EmbeddingSegmentsSum(),
         [i(1 << 16, high=4096), SEGMENTS, k(1 << 15), k(3), f(1 << 16).astype(table.dtype)]),
        (o.SegmentMax("zero"), [np.sort(i(4096, high=4096))]),
        (o.SegmentMax("lowest"), [np.sort(i(4096, high=4096)), k(1 << 15)]),
    )
    if table.dtype != np.int8 or "mean" not in repr(op)
] + [
    (o.SegmentMax("zero"), [i(1 << 19), np.arange(1 << 19)]),
    (o.SparseFillEmptyRows(),
     [f(1 << 18), k([1 << 19, 9]), np.stack([np.arange(1 << 18) * 2, i(1 << 18)], 1), k(1, F)]),
    (o.SparseFillEmptyRows(), [f(9), k([1 << 20, 9]), i(9, 2), k(1, F)]),
]  # fmt: skip
CASES: list[tuple[Any, list[Any]]] = [
    (op, list(x) if isinstance(x, list) else [x])
    for op, x in [
        *UNARY,
        *BINARY,
        *REDUCE,
        *MOVE,
        *NETWORK,
        *RESIZED,
        *NARROW,
        *DETECTION,
        *VISION,
        *SEQUENCES,
        *SPARSE,
    ]
]
