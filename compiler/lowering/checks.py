"""What has to hold of a region's sizes before its kernels run (ir/require.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.dim import Dim, Expr, eq
from ...ir.plan import SizeCheck
from ...ir.require import Requirement
from ..sizes import requirements_of
from .context import Lowering
from .placement import telling
from .roles import Role


def size_checks(
    low: Lowering, roles: dict[int, Role], nodes: Sequence[int], *, first: bool
) -> list[SizeCheck]:
    """One check for every two sizes that native nodes take to be equal, and that may differ. The
    first region checks what the whole model needs of its inputs.

    Operations in Python check their own inputs.
    """
    told = {s for slot in low.slot_of.values() for s in telling(low.slots[slot])}
    native = [n for n in nodes if roles[n].lowerer is not None]
    needs = [each for n in native for each in requirements_of(low.graph, n)]
    found = _checks(low, [*(low.graph.needs if first else ()), *needs], told)
    return [*found, *low.region.checks]


def checks_inside(inner: Lowering, roles: Mapping[int, Role]) -> list[SizeCheck]:
    """What a body's nodes take for granted of sizes that its region knows: of everything around
    the body that it reads, there are buffers."""
    region = inner.region
    told = {s for b in region.buffers for d in b.shape for s in _names(d)}
    needs = [each for n in roles for each in requirements_of(inner.graph, n)]
    return _checks(inner, needs, told)


def _checks(low: Lowering, needs: Sequence[Requirement], told: set[str]) -> list[SizeCheck]:
    found: dict[tuple[Dim, Dim, bool], SizeCheck] = {}
    for each in needs:
        if eq(each.left, each.right) is None and _names(each.left) | _names(each.right) <= told:
            left, right = low.region.dim(each.left), low.region.dim(each.right)
            check = SizeCheck(left, right, each.what, each.where, each.or_one)
            found.setdefault((each.left, each.right, each.or_one), check)
    return list(found.values())


def _names(d: Dim) -> set[str]:
    return {s.name for s in d.symbols()} if isinstance(d, Expr) else set()
