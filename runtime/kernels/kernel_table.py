"""The generator of each family of kernel specs: a pure function of (spec, Target, symbol)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ...ir.errors import UnsupportedOperationError
from ...plan import specs
from ...plan.specs.base import Spec
from ...plan.target import Target
from . import attention, conv, gemm
from .elementwise import kernel as elementwise
from .emit.contract import Kernel
from .indexing import (
    ctc_decode,
    gather,
    gather_scatter_nd,
    iota,
    scan_topk,
    tree_ensemble,
)
from .recurrent import kernel as recurrent
from .rows import norm, reduce, row_codes, softmax
from .spatial import pool, resample, roi_align, roi_pool

Generate: TypeAlias = Callable[[Any, Target, str], Kernel]

KERNELS: Final[dict[type[Spec], Generate]] = {
    specs.AttentionSpec: attention.generate,
    specs.CTCDecodeSpec: ctc_decode.generate,
    specs.ConvSpec: conv.generate,
    specs.ElementwiseSpec: elementwise.generate,
    specs.GatherScatterSpec: gather_scatter_nd.generate,
    specs.GatherSpec: gather.generate,
    specs.GemmSpec: gemm.generate,
    specs.IotaSpec: iota.generate,
    specs.NormSpec: norm.generate,
    specs.PoolSpec: pool.generate,
    specs.ROIAlignSpec: roi_align.generate,
    specs.ROIPoolSpec: roi_pool.generate,
    specs.RecurrentSpec: recurrent.generate,
    specs.ReduceSpec: reduce.generate,
    specs.ResampleSpec: resample.generate,
    specs.RowCodesSpec: row_codes.generate,
    specs.ScanSpec: scan_topk.scan,
    specs.SoftmaxSpec: softmax.generate,
    specs.TopKSpec: scan_topk.rank,
    specs.TreeEnsembleSpec: tree_ensemble.generate,
}


def generate(spec: Spec, target: Target, symbol: str) -> Kernel:
    """The kernel of any spec. UnsupportedOperationError where there is none for it."""
    made = KERNELS.get(type(spec))
    if made is None:
        raise UnsupportedOperationError("no kernel family of that name", got=spec.family)
    return made(spec, target, symbol)
