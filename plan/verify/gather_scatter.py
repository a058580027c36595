"""What the generators of picking, scanning, ranking and counting kernels rely on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...ir.dtype import DType
from ...ir.errors import VerificationError
from ..specs.base import Spec
from ..specs.gather_scatter import GatherScatterSpec
from ..specs.iota import IotaSpec
from ..specs.scan_topk import ScanSpec, TopKSpec
from ..target import Target
from .buffers import broken

# Types that running sums and rankings compute in.
ORDERED: Final = frozenset({DType.f32, DType.f64, DType.i32, DType.i64})

COMBINED: Final = ("sum", "prod", "min", "max")


def _iota(s: IotaSpec, _: Target, where: str) -> None:
    if s.out.dtype not in (DType.i32, DType.i64, DType.f32):
        raise _types("no kernel writes numbers of this type", where, s.out.dtype)


def _pick(s: GatherScatterSpec, _: Target, where: str) -> None:
    if s.out_of_range not in ("error", "zeros") or (s.put and s.out_of_range == "zeros"):
        raise broken("no rule for indices out of range", where, s.out_of_range)
    if s.combine not in ("", *COMBINED) or (s.combine and not s.put):
        raise broken("no rule joins what is put", where, s.combine)
    if s.combine and s.data.dtype not in ORDERED:
        raise _types("nothing joins elements of this type", where, s.data.dtype)
    if len(s.indices) != len(s.picked):
        raise broken("not one index per picked axis", where, len(s.indices))
    for index in s.indices:
        if not index.dtype.is_int or index.dtype.bits < 8:
            raise _types("an index is not an integer", where, index.dtype)
    if s.data.dtype is not s.out.dtype or s.data.dtype.bits < 8 and s.data.dtype.is_int:
        raise _types("no kernel picks elements of this type", where, s.data.dtype)


def _scan(s: ScanSpec, _: Target, where: str) -> None:
    if s.data.dtype is not s.out.dtype or s.data.dtype not in ORDERED:
        raise _types("no running sums of this type", where, s.data.dtype)


def _rank(s: TopKSpec, _: Target, where: str) -> None:
    if s.data.dtype is not s.values.dtype or s.data.dtype not in ORDERED:
        raise _types("no ranking of this type", where, s.data.dtype)
    if s.indices.dtype not in (DType.i32, DType.i64):
        raise _types("no positions of this type", where, s.indices.dtype)


def _types(what: str, where: str, got: DType) -> VerificationError:
    return broken(what, where, got)


PICK_CHECKS: Final[Mapping[type[Spec], Callable[[Any, Target, str], None]]] = {
    IotaSpec: _iota,
    GatherScatterSpec: _pick,
    ScanSpec: _scan,
    TopKSpec: _rank,
}
