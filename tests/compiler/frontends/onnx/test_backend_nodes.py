"""ONNX's backend tests of single nodes: imported, evaluated, and compared in type, shape, values.

PASSING lists the operators all of whose cases pass, PARTLY those of which some do not (with the
cases), OTHERS those without an importer of their own.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.ir.errors import UnsupportedOperationError
from support.frontends.onnx_cases import node_cases, operators, run_case

PASSING = """
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool
    BatchNormalization BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast
    CastLike CausalConvWithState Ceil Celu CenterCropPad Clip Compress Concat Constant
    ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumSum DepthToSpace DequantizeLinear
    Div DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten FlexAttention
    Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater
    GreaterOrEqual GroupNormalization HammingWindow HannWindow HardSigmoid HardSwish Hardmax
    InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual
    LinearAttention Log LogSoftmax LpNormalization LpPool MatMul MatMulInteger Max Mean
    MeanVarianceNormalization Min Mish Mod Mul Neg NegativeLogLikelihoodLoss NonMaxSuppression
    NonZero Not OneHot Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear
    RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape
    ReverseSequence RoiAlign RotaryEmbedding Round STFT Scan Scatter ScatterElements ScatterND Selu
    Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign
    SpaceToDepth Split Sqrt Squeeze Sub Sum SwiGLU Swish Tan Tanh TensorScatter ThresholdedRelu
    Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where Xor
""".split()
# Half-precision cases whose expected values carry the rounding of every single step.
_ROUNDED_BY_STEP = {
    *(f"test_attention_4d_{part}" for part in """
        causal_bf16 causal_fp16 padded_kv_bf16 causal_padded_kv_bf16 attn_mask_causal_bf16
    """.split()),
    "test_attention_3d_causal_bf16",
}  # fmt: skip
# Operators of which some cases are refused or not equal, and which.
PARTLY: dict[str, set[str]] = {
    "Attention": _ROUNDED_BY_STEP,
    "Col2Im": {"test_col2im_5d"},
    "DFT": {"test_dft_inverse", "test_dft_inverse_opset19"},  # expected values are f32 noise
    "Dropout": {
        f"test_training_dropout{part}" for part in (
            "", "_mask", "_default", "_default_mask", "_zero_ratio", "_zero_ratio_mask"
        )
    },
    "GridSample": {
        f"test_gridsample_volumetric_{mode}_align_corners_{flag}"
        for mode in ("nearest", "bilinear") for flag in (0, 1)
    },
    "Identity": {"test_identity_sequence", "test_identity_opt"},
    "If": {"test_if_seq", "test_if_opt"},
    "Loop": {"test_loop13_seq", "test_loop16_seq_none"},
    "MaxPool": {"test_maxpool_with_argmax_2d_precomputed_strides"},
    "Resize": {
        f"test_resize_{part}" for part in """
            upsample_scales_linear_align_corners downsample_scales_linear_align_corners
            upsample_scales_cubic_align_corners downsample_scales_cubic_align_corners
            upsample_scales_cubic_A_n0p5_exclude_outside
            downsample_scales_cubic_A_n0p5_exclude_outside
            tf_crop_and_resize tf_crop_and_resize_extrapolation_value
            tf_crop_and_resize_axes_2_3 tf_crop_and_resize_axes_3_2
            downsample_scales_linear_antialias downsample_sizes_linear_antialias
            downsample_scales_cubic_antialias downsample_sizes_cubic_antialias
            downsample_scales_linear_half_pixel_symmetric
            upsample_scales_linear_half_pixel_symmetric
        """.split()
    },
    "expanded": {
        *(f"{name}_expanded" for name in _ROUNDED_BY_STEP),
        *(f"test_bernoulli{part}_expanded" for part in ("", "_double", "_seed")),  # random
        *(f"test_sequence_map_{part}_expanded" for part in """
            identity_1_sequence identity_2_sequences identity_1_sequence_1_tensor
            add_2_sequences add_1_sequence_1_tensor extract_shapes
        """.split()),
    },
}  # fmt: skip
OTHERS = """
    Adagrad Adam ArrayFeatureExtractor Binarizer BitCast CumProd DeformConv Det ImageDecoder
    LabelEncoder MaxUnpool MelWeightMatrix Momentum OptionalGetElement OptionalHasElement
    RegexFullMatch SequenceInsert SequenceMap SplitToSequence StringConcat StringNormalizer
    StringSplit TfIdfVectorizer TreeEnsemble
""".split()
# Cases that pass by the lists above with onnx 1.23.
COUNT = 1722


def _by_operator() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for case in node_cases():
        found[operators(case)].append(case)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("operator", [*PASSING, *PARTLY])
def test_cases_of_an_operator_pass(operator: str) -> None:
    cases = _by_operator()[operator]
    assert cases, "the installed onnx package has no such cases"
    failed: list[str] = []
    for case in cases:
        if case.name in PARTLY.get(operator, ()):
            continue
        try:
            run_case(case)
        except Exception as error:  # one report for all cases of the operator
            failed.append(f"{case.name}: {type(error).__name__}: {str(error)[:300]}")
    assert not failed, "\n".join(failed)


@pytest.mark.slow
@pytest.mark.parametrize("operator", OTHERS)
def test_other_operators_are_refused_clearly_or_imported(operator: str) -> None:
    for case in _by_operator()[operator]:
        try:
            read_onnx(case.model)
        except UnsupportedOperationError as error:
            assert "<ModelProto>" in str(error.where)


def test_the_number_of_passing_cases() -> None:
    found = _by_operator()
    count = sum(len(found[o]) - len(PARTLY.get(o, ())) for o in (*PASSING, *PARTLY))
    assert count >= COUNT
    # A case that is listed as failing exists.
    names = {case.name for case in node_cases()}
    assert all(cases <= names for cases in PARTLY.values())
