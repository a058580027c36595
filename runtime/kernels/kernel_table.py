"""The generator of each family of kernel specs: a pure function of (spec, Target, symbol)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ...ir.errors import UnsupportedOperationError
from ...plan.specs.attention import AttentionSpec
from ...plan.specs.base import Spec
from ...plan.specs.convolution import ConvSpec
from ...plan.specs.ctc_decode import CTCDecodeSpec
from ...plan.specs.elementwise import ElementwiseSpec
from ...plan.specs.gather_scatter import GatherScatterSpec, GatherSpec
from ...plan.specs.gemm import GemmSpec
from ...plan.specs.iota import IotaSpec
from ...plan.specs.pooling import PoolSpec
from ...plan.specs.recurrent import RecurrentSpec
from ...plan.specs.resample import GridSampleSpec, ResampleSpec
from ...plan.specs.roi_align import ROIAlignSpec
from ...plan.specs.roi_pool import ROIPoolSpec
from ...plan.specs.row_codes import RowCodesSpec
from ...plan.specs.rows import NormSpec, ReduceSpec, SoftmaxSpec
from ...plan.specs.scan_topk import ScanSpec, TopKSpec
from ...plan.specs.suppress_boxes import SuppressBoxesSpec
from ...plan.specs.tree_ensemble import TreeEnsembleSpec
from ...plan.target import Target
from . import attention
from .conv import kernel as conv
from .elementwise import kernel as elementwise
from .emit.contract import Kernel
from .gemm import kernel as gemm
from .indexing import (
    ctc_decode,
    gather,
    gather_scatter_nd,
    iota,
    scan,
    suppress_boxes,
    topk,
    tree_ensemble,
)
from .recurrent import kernel as recurrent
from .rows import norm, reduce, row_codes, softmax
from .spatial import grid_sample, pool, resample, roi_align, roi_pool

Generate: TypeAlias = Callable[[Any, Target, str], Kernel]

KERNELS: Final[dict[type[Spec], Generate]] = {
    AttentionSpec: attention.generate,
    CTCDecodeSpec: ctc_decode.generate,
    ConvSpec: conv.generate,
    ElementwiseSpec: elementwise.generate,
    GatherScatterSpec: gather_scatter_nd.generate,
    GatherSpec: gather.generate,
    GemmSpec: gemm.generate,
    GridSampleSpec: grid_sample.generate,
    IotaSpec: iota.generate,
    NormSpec: norm.generate,
    PoolSpec: pool.generate,
    ROIAlignSpec: roi_align.generate,
    ROIPoolSpec: roi_pool.generate,
    RecurrentSpec: recurrent.generate,
    ReduceSpec: reduce.generate,
    ResampleSpec: resample.generate,
    RowCodesSpec: row_codes.generate,
    ScanSpec: scan.scan,
    SoftmaxSpec: softmax.generate,
    SuppressBoxesSpec: suppress_boxes.generate,
    TopKSpec: topk.rank,
    TreeEnsembleSpec: tree_ensemble.generate,
}


def generate(spec: Spec, target: Target, symbol: str) -> Kernel:
    """The kernel of any spec. UnsupportedOperationError where there is none for it."""
    made = KERNELS.get(type(spec))
    if made is None:
        raise UnsupportedOperationError("no kernel family of that name", got=spec.family)
    return made(spec, target, symbol)
