"""All operations on one screen, and how to find one by kind and operation set.

A kind may have several classes: one per operation set in which its definition changed. The plain
name is the latest (`Gather`), older ones carry their number (`Gather1`, `Gather7`).
"""

# The imports stay in this short form: one line per family.
# ruff: noqa: I001

from __future__ import annotations

from ..extensions import find_by_kind
from ..op import Op
from .math.activation_table import ACTIVATIONS as ACTIVATIONS
from .math.activations import (
    Activation, Clamp, Elu, Gelu, Gelu2, HardSigmoid, HSigmoid, HSwish, Mish, PRelu, Relu, Selu,
    Sigmoid, SoftPlus, SoftSign, Swish, Tanh,
)  # fmt: skip
from .math.arithmetic import (
    Add, BitwiseAnd, BitwiseLeftShift, BitwiseNot, BitwiseOr, BitwiseRightShift, BitwiseXor, Divide,
    Equal, FloorMod, Greater, GreaterEqual, Less, LessEqual, LogicalAnd, LogicalNot, LogicalOr,
    LogicalXor, Maximum, Minimum, Mod, Multiply, NotEqual, Power, SquaredDifference, Subtract,
)  # fmt: skip
from .tensor.constants import Constant, Parameter, Result, TypedParameter
from .tensor.constants import DeferredConstant as DeferredConstant
from .detection.detection_output import DetectionOutput, DetectionOutput1
from .detection.detectron import (
    ExperimentalDetectronDetectionOutput, ExperimentalDetectronGenerateProposalsSingleImage,
    ExperimentalDetectronPriorGridGenerator, ExperimentalDetectronROIFeatureExtractor,
    ExperimentalDetectronTopKROIs,
)  # fmt: skip
from .detection.multiclass_nms import MatrixNms, MulticlassNms, MulticlassNms8
from .detection.prior_box import PriorBox, PriorBox1, PriorBoxClustered
from .detection.proposal import GenerateProposals, Proposal, Proposal1
from .detection.region_yolo import RegionYolo, ReorgYolo
from .detection.roi_pooling import DeformablePSROIPooling, PSROIPooling, ROIPooling
from .detection.rotated_boxes import NMSRotated, ROIAlignRotated
from .tensor.depth_to_space import (
    BatchToSpace,
    DepthToSpace,
    ShuffleChannels,
    SpaceToBatch,
    SpaceToDepth,
)
from .nn.attention import Attention, ScaledDotProductAttention
from .math.bitcast import BitCast
from .control_flow.conditional import Fail, If
from .math.convert_promote_types import ConvertPromoteTypes
from .math.convert import Convert, ConvertE8M0, ConvertLike, Select
from .nn.convolution import (
    Convolution, ConvolutionBackpropData, GroupConvolution, GroupConvolutionBackpropData,
)  # fmt: skip
from .nn.nms import ListBoxes, NonMaxSuppression, SuppressBoxes
from .count_text_ngrams import CountTextNgrams
from .ml.dict_vectorizer import CastMap, DictVectorizer, ZipMap
from .math.einsum import Einsum
from .math.elementwise import Elementwise as Elementwise, program_of as program_of
from .tensor.broadcast import Broadcast, Broadcast1, Tile
from .tensor.gather import Gather, Gather1, Gather7, GatherElements, GatherND, GatherND5
from .control_flow.group import Group
from .nn.interpolate import Interpolate, Interpolate4
from .tensor.concat_split import Concat, Split, VariadicSplit
from .math.inverse import Inverse
from .ml.label_encoder import LabelEncoder
from .control_flow.loops import (
    BodyInput as BodyInput,
    BodyOutput as BodyOutput,
    Loop,
    TensorIterator,
)
from .math.matmul import Gemm, MatMul
from .nn.normalize import (
    GRN, LRN, MVN, MVN2, BatchNormInference, BatchNormInference1, GroupNormalization, LayerNorm,
    NormalizeL2, RMSNorm,
)  # fmt: skip
from .control_flow.onnx_node import OnnxNode
from .control_flow.optionals import Optional, OptionalGetElement, OptionalHasElement
from .tensor.padding import Pad, Pad1, Reverse, ReverseSequence, Roll
from .nn.pooling import (
    AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, AvgPool1, AvgPool14, MaxPool, MaxPool1, MaxPool8,
)  # fmt: skip
from .quantization.quantize import FakeQuantize
from .quantization.integer_products import (
    AffineDequantize,
    ConvInteger,
    Dequantize,
    GroupConvInteger,
    MatMulInteger,
    Quantize,
)
from .quantization.row_codes import DequantizeRows, QuantizeRows
from .math.random_values import FakeConvert, Multinomial, RandomUniform
from .nn.older_versions import (
    Interpolate1, LSTMCell1, NonMaxSuppression1, NonMaxSuppression3, NonMaxSuppression4,
    NonMaxSuppression5, ROIAlign3,
)  # fmt: skip
from .nn.recurrent import (
    GRUCell,
    GRUSequence,
    LSTMCell,
    LSTMSequence,
    PeepholeLSTM,
    RNNCell,
    RNNSequence,
)
from .math.reduce import (
    ReduceL1, ReduceL2, ReduceLogicalAnd, ReduceLogicalOr, ReduceMax, ReduceMean, ReduceMin,
    ReduceProd, ReduceSum, Reduction as Reduction,
)  # fmt: skip
from .tensor.reshape import Reshape, Squeeze, Squeeze1, Transpose, Unsqueeze
from .shape_inference import naming as naming, fresh_symbol as fresh_symbol
from .nn.grid_sample_roi import Col2Im, GridSample, ROIAlign
from .tensor.scatter import (
    ScatterElementsUpdate, ScatterElementsUpdate3, ScatterNDUpdate, ScatterNDUpdate4, ScatterUpdate,
)  # fmt: skip
from .control_flow.sequences import (
    ConcatFromSequence, SequenceAt, SequenceConstruct, SequenceEmpty, SequenceErase, SequenceInsert,
    SequenceLength, SplitToSequence,
)  # fmt: skip
from .tensor.shape_values import Eye, Range, Range1, ShapeOf, ShapeOf1
from .nn.signal import DFT, IDFT, IRDFT, RDFT, STFT
from .nn.istft import ISTFT
from .tensor.search_sorted import SearchSorted
from .tensor.slice import Slice, StridedSlice
from .tensor.slice_scatter import SliceScatter
from .tensor.string_tensors import StringTensorPack, StringTensorUnpack
from .nn.softmax import LogSoftmax, Softmax, Softmax1
from .tensor.sorting import (
    Bucketize, CumProd, CumSum, NonZero, OneHot, OneHot1, TopK, TopK1, TopK3, Unique,
)  # fmt: skip
from .control_flow.variables import Assign, Assign3, ReadValue, ReadValue3
from .control_flow.variables import ReadCache as ReadCache
from .ml.tree_ensemble import TreeEnsemble
from .sequence.ctc import CTCGreedyDecoder, CTCGreedyDecoderSeqLen, CTCLoss
from .sequence.gather_tree import GatherTree
from .sparse.embedding_bags import (
    EmbeddingBagOffsets, EmbeddingBagOffsetsSum, EmbeddingBagPacked, EmbeddingBagPackedSum,
    EmbeddingSegmentsSum,
)  # fmt: skip
from .sparse.segments import SegmentMax, SparseFillEmptyRows
from .vision.color_conversion import I420toBGR, I420toRGB, NV12toBGR, NV12toRGB
from .vision.deformable_convolution import (
    BinaryConvolution, DeformableConvolution, DeformableConvolution1,
)  # fmt: skip
from .vision.image_patches import ExtractImagePatches
from .math.unary import (
    Abs, Acos, Acosh, Asin, Asinh, Atan, Atanh, Ceiling, Cos, Cosh, Erf, Exp, Floor, Identity,
    IsFinite, IsInf, IsNaN, Log, Negative, Round, Sign, Sin, Sinh, Sqrt, Tan,
)  # fmt: skip
from .ml.svm import SupportVotes

ALL_OPS: tuple[type[Op], ...] = (
    Parameter, TypedParameter, Constant, Result,
    # elementwise
    Add, Subtract, Multiply, Divide, FloorMod, Mod, Power, Maximum, Minimum, SquaredDifference,
    BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, BitwiseLeftShift, BitwiseRightShift,
    Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual,
    LogicalAnd, LogicalOr, LogicalXor, LogicalNot, Select, Convert, ConvertLike, ConvertE8M0,
    BitCast,
    Identity,
    Abs, Negative, Sign, Ceiling, Floor, Round, Sqrt, Exp, Log, Erf, IsNaN, IsInf, IsFinite,
    Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Asinh, Acosh, Atanh,
    Relu, PRelu, Clamp, Sigmoid, Tanh, Elu, Selu, Gelu2, Gelu, HardSigmoid, HSigmoid, HSwish,
    Swish, Mish, SoftPlus, SoftSign, Activation, Group,
    # matrix products, softmax, reductions
    MatMul, Gemm, Softmax1, Softmax, LogSoftmax,
    ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2,
    ReduceLogicalAnd, ReduceLogicalOr,
    # shapes and movement
    Reshape, Squeeze1, Squeeze, Unsqueeze, Transpose, Concat, Split, VariadicSplit,
    Slice, StridedSlice, ShapeOf1, ShapeOf, Range1, Range, Eye, Broadcast1, Broadcast, Tile,
    Gather1, Gather7, Gather, GatherElements, GatherND5, GatherND, ScatterUpdate,
    ScatterElementsUpdate3, ScatterElementsUpdate, ScatterNDUpdate4, ScatterNDUpdate,
    Pad1, Pad, Reverse, ReverseSequence, Roll,
    DepthToSpace, SpaceToDepth, BatchToSpace, SpaceToBatch, ShuffleChannels,
    TopK1, TopK3, TopK, NonZero, OneHot1, OneHot, CumSum, CumProd, Bucketize, Unique,
    # networks
    MVN2, MVN, BatchNormInference1, BatchNormInference, LayerNorm, RMSNorm, GroupNormalization,
    NormalizeL2, LRN, GRN, ScaledDotProductAttention, Attention, FakeQuantize,
    Quantize, Dequantize, AffineDequantize, MatMulInteger, ConvInteger, GroupConvInteger,
    QuantizeRows, DequantizeRows,
    Convolution, GroupConvolution, ConvolutionBackpropData, GroupConvolutionBackpropData,
    MaxPool1, MaxPool8, MaxPool, AvgPool1, AvgPool14, AvgPool, AdaptiveAvgPool, AdaptiveMaxPool,
    RNNCell, GRUCell, LSTMCell1, LSTMCell, RNNSequence, GRUSequence, LSTMSequence, PeepholeLSTM,
    Interpolate1, Interpolate4, Interpolate, Einsum, DFT, IDFT, RDFT, IRDFT, STFT, ISTFT,
    GridSample, ROIAlign3, ROIAlign, Col2Im, NonMaxSuppression1, NonMaxSuppression3,
    NonMaxSuppression4, NonMaxSuppression5,
    NonMaxSuppression, SuppressBoxes, ListBoxes, RandomUniform, Multinomial, FakeConvert,
    Inverse, ConvertPromoteTypes, SearchSorted, SliceScatter,
    StringTensorPack, StringTensorUnpack,
    # detection
    PriorBox1, PriorBox, PriorBoxClustered, DetectionOutput1, DetectionOutput, Proposal1, Proposal,
    GenerateProposals, RegionYolo, ReorgYolo, ROIPooling, PSROIPooling, DeformablePSROIPooling,
    MatrixNms, MulticlassNms8, MulticlassNms, NMSRotated, ROIAlignRotated,
    ExperimentalDetectronDetectionOutput, ExperimentalDetectronGenerateProposalsSingleImage,
    ExperimentalDetectronPriorGridGenerator, ExperimentalDetectronROIFeatureExtractor,
    ExperimentalDetectronTopKROIs,
    # images
    NV12toRGB, NV12toBGR, I420toRGB, I420toBGR, ExtractImagePatches, DeformableConvolution1,
    DeformableConvolution, BinaryConvolution,
    # sparse data and sequences
    EmbeddingBagOffsetsSum, EmbeddingBagOffsets, EmbeddingBagPackedSum, EmbeddingBagPacked,
    EmbeddingSegmentsSum, SegmentMax, SparseFillEmptyRows,
    CTCGreedyDecoder, CTCGreedyDecoderSeqLen, CTCLoss, GatherTree,
    # classical models (ai.onnx.ml)
    TreeEnsemble, LabelEncoder, SupportVotes, ZipMap, DictVectorizer, CastMap, CountTextNgrams,
    # control flow and state
    If, Fail, Loop, TensorIterator, ReadValue3, ReadValue, Assign3, Assign,
    # values that are not tensors; single nodes that onnx.reference evaluates
    SequenceConstruct, SequenceEmpty, SequenceAt, SequenceInsert, SequenceErase, SequenceLength,
    SplitToSequence, ConcatFromSequence, Optional, OptionalGetElement, OptionalHasElement, OnnxNode,
)  # fmt: skip

# Names of the kinds in XML where they differ (OpenVINO reads both).
XML_NAMES = {"Constant": "Const", "Relu": "ReLU", "PRelu": "PReLU", "Softmax": "SoftMax"}

_ALIASES = {xml.lower(): kind.lower() for kind, xml in XML_NAMES.items()} | {"xor": "logicalxor"}
_BY_KIND: dict[str, list[type[Op]]] = {}
for _cls in sorted(ALL_OPS, key=lambda c: c.version):
    _BY_KIND.setdefault(_cls.kind.lower(), []).append(_cls)
# Kinds that OpenVINO looks up in a later set where a file says opset1.
_FROM_OPSET2 = ("mvn", "roipooling", "reorgyolo")


def find(kind: str, opset: int) -> type[Op] | None:
    """The definition of `kind` that operation set `opset` contains: the latest class with a
    version <= opset, in any case and by XML's names too. Set 0 is irc's dialect."""
    listed = _ops_of_kind(kind)
    if opset == 1 and kind.lower() in _FROM_OPSET2:
        opset = 2
    if opset == 0:
        return next((c for c in listed if c.version == 0), None)
    return next((c for c in reversed(listed) if 0 < c.version <= opset), None)


def find_exact(kind: str, version: int) -> type[Op] | None:
    """The class of exactly this kind and version, of an extension too."""
    found = next((c for c in _ops_of_kind(kind) if c.version == version), None)
    return find_by_kind(kind, version) if found is None else found


def _ops_of_kind(kind: str) -> list[type[Op]]:
    name = kind.lower()
    return _BY_KIND.get(_ALIASES.get(name, name), [])
