"""All families of kernel specs, by name and by the class that a stored plan names."""

from __future__ import annotations

from .specs import (
    ElementwiseSpec,
    GemmSpec,
    NormSpec,
    ReduceSpec,
    SoftmaxSpec,
    Spec,
)
from .specs_attention import AttentionSpec
from .specs_conv import ConvSpec, PoolSpec
from .specs_excite import ExciteSpec
from .specs_iota import IotaSpec
from .specs_picks import GatherSpec, PickSpec, RankSpec, ScanSpec
from .specs_recurrent import RecurrentSpec
from .specs_regions import RegionSpec
from .specs_resample import ResampleSpec

SPECS: dict[str, type[Spec]] = {
    s.family: s
    for s in (
        *(GemmSpec, ElementwiseSpec, ReduceSpec, SoftmaxSpec, NormSpec, GatherSpec),
        *(ConvSpec, PoolSpec, RecurrentSpec, IotaSpec, AttentionSpec, ExciteSpec),
        *(PickSpec, ScanSpec, RankSpec, ResampleSpec, RegionSpec),
    )
}
