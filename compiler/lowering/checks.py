"""What has to hold of a region's sizes before its kernels run (ir/require.py)."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dim import Dim, Expr, eq
from ...ir.plan import SizeCheck
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
    found: dict[tuple[Dim, Dim, bool], SizeCheck] = {}
    native = [n for n in nodes if roles[n].lowerer is not None]
    needs = [each for n in native for each in requirements_of(low.graph, n)]
    for each in [*(low.graph.needs if first else ()), *needs]:
        names = {
            s.name for d in (each.left, each.right) if isinstance(d, Expr) for s in d.symbols()
        }
        if eq(each.left, each.right) is None and names <= told:
            left, right = low.region.dim(each.left), low.region.dim(each.right)
            check = SizeCheck(left, right, each.what, each.where, each.or_one)
            found.setdefault((each.left, each.right, each.or_one), check)
    return list(found.values())
