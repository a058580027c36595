"""What has to hold of a region's sizes before its kernels run (ir/dims/constraints.py)."""

from __future__ import annotations

from collections.abc import Sequence, Set

from ....ir.dims import Dim, Expr, eq
from ....ir.dims.constraints import ShapeConstraint
from ....plan.plan import SizeCheck
from ...shape_analysis.unify_dims import requirements_of
from .region_lowering import RegionLowering


def size_checks(lowering: RegionLowering, nodes: Sequence[int], *, first: bool) -> list[SizeCheck]:
    """One check for every two sizes that native nodes take to be equal, and that may differ. The
    first region checks what the whole model needs of its inputs.

    Operations in Python check their own inputs.
    """
    defined = lowering.plan.slot_symbols.by_name.keys()
    native = [n for n in nodes if lowering.schedule.roles[n].native]
    needs = [each for n in native for each in requirements_of(lowering.graph, n)]
    found = _checks(lowering, [*(lowering.graph.needs if first else ()), *needs], defined)
    return [*found, *lowering.region.checks]


def checks_inside(inner: RegionLowering) -> list[SizeCheck]:
    """What a body's nodes take for granted of sizes that its region knows: of everything around
    the body that it reads, there are buffers."""
    needs = [each for n in inner.schedule.roles for each in requirements_of(inner.graph, n)]
    return _checks(inner, needs, inner.region.symbols())


def _checks(
    lowering: RegionLowering, needs: Sequence[ShapeConstraint], defined: Set[str]
) -> list[SizeCheck]:
    found: dict[tuple[Dim, Dim, bool], SizeCheck] = {}
    for each in needs:
        if eq(each.left, each.right) is None and _names(each.left) | _names(each.right) <= defined:
            left, right = lowering.region.dim(each.left), lowering.region.dim(each.right)
            check = SizeCheck(left, right, each.what, each.where, each.or_one)
            found.setdefault((each.left, each.right, each.or_one), check)
    return list(found.values())


def _names(d: Dim) -> set[str]:
    return {s.name for s in d.symbols()} if isinstance(d, Expr) else set()
