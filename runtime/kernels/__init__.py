"""Kernels: one generator per family of specs, each a pure function of (spec, Target, symbol)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ...ir.errors import UnsupportedOperationError
from ...plan.specs.base import Spec
from ...plan.target import Target
from .conv import squeeze_excite as excite
from .elementwise import kernel as elementwise
from .emit.contract import Kernel
from .indexing import gather, iota
from .indexing import gather_scatter_nd as picks
from .indexing import scan_topk as ranks
from .rows import norm, reduce, softmax
from .spatial import pool, resample
from .spatial import roi_align as regions

Generate: TypeAlias = Callable[[Any, Target, str], Kernel]


def _gemm(spec: Any, target: Target, symbol: str) -> Kernel:
    from .gemm import generate as made

    return made(spec, target, symbol)


def _attention(spec: Any, target: Target, symbol: str) -> Kernel:
    from .attention import generate as made

    return made(spec, target, symbol)


def _conv(spec: Any, target: Target, symbol: str) -> Kernel:
    from .conv import generate as made

    return made(spec, target, symbol)


def _recurrent(spec: Any, target: Target, symbol: str) -> Kernel:
    from .recurrent.kernel import generate as made

    return made(spec, target, symbol)


KERNELS: dict[str, Generate] = {
    "attention": _attention,
    "conv": _conv,
    "elementwise": elementwise.generate,
    "excite": excite.generate,
    "gather": gather.generate,
    "gemm": _gemm,
    "iota": iota.generate,
    "norm": norm.generate,
    "pick": picks.generate,
    "pool": pool.generate,
    "rank": ranks.rank,
    "recurrent": _recurrent,
    "reduce": reduce.generate,
    "regions": regions.generate,
    "scan": ranks.scan,
    "resample": resample.generate,
    "softmax": softmax.generate,
}


def generate(spec: Spec, target: Target, symbol: str) -> Kernel:
    """The kernel of any spec. UnsupportedOperationError where there is none for it."""
    made = KERNELS.get(spec.family)
    if made is None:
        raise UnsupportedOperationError("no kernel family of that name", got=spec.family)
    return made(spec, target, symbol)
