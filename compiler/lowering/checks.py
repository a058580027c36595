"""What has to hold of a region's sizes before its kernels run (ir/require.py)."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dim import Dim, Expr, eq
from ...ir.plan import SizeCheck
from ..sizes import requirements_of
from .context import Lowering
from .roles import Role, symbols_of


def size_checks(low: Lowering, roles: dict[int, Role], nodes: Sequence[int]) -> list[SizeCheck]:
    """One check for every two sizes that native nodes take to be equal, and that may differ.

    Operations in Python check their own inputs.
    """
    told = {s for slot in low.slot_of.values() for s in symbols_of(low.slots[slot])}
    found: dict[tuple[Dim, Dim, bool], SizeCheck] = {}
    for node in nodes:
        if roles[node].lowerer is None:
            continue
        for each in requirements_of(low.graph, node):
            names = {
                s.name for d in (each.left, each.right) if isinstance(d, Expr) for s in d.symbols()
            }
            if eq(each.left, each.right) is None and names <= told:
                left, right = low.region.dim(each.left), low.region.dim(each.right)
                check = SizeCheck(left, right, each.what, low.name(node), each.or_one)
                found.setdefault((each.left, each.right, each.or_one), check)
    return list(found.values())
