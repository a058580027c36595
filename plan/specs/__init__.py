"""Kernel specs: one class per family of kernels, which holds all facts about it."""

from __future__ import annotations

from .attention import AttentionSpec
from .base import Spec
from .convolution import ConvSpec
from .ctc_decode import CTCDecodeSpec
from .elementwise import ElementwiseSpec
from .gather_scatter import GatherScatterSpec, GatherSpec
from .gemm import GemmSpec
from .iota import IotaSpec
from .pooling import PoolSpec
from .recurrent import RecurrentSpec
from .resample import ResampleSpec
from .roi_align import ROIAlignSpec
from .roi_pool import ROIPoolSpec
from .row_codes import RowCodesSpec
from .rows import NormSpec, ReduceSpec, SoftmaxSpec
from .scan_topk import ScanSpec, TopKSpec
from .tree_ensemble import TreeEnsembleSpec

SPECS: tuple[type[Spec], ...] = (
    GemmSpec,
    ElementwiseSpec,
    ReduceSpec,
    SoftmaxSpec,
    NormSpec,
    GatherSpec,
    ConvSpec,
    PoolSpec,
    RecurrentSpec,
    IotaSpec,
    AttentionSpec,
    GatherScatterSpec,
    ScanSpec,
    TopKSpec,
    ResampleSpec,
    TreeEnsembleSpec,
    ROIPoolSpec,
    CTCDecodeSpec,
    ROIAlignSpec,
    RowCodesSpec,
)
