"""Of an If whose branches differ in rank, only one may work.

Exporters write `if a size is 1, squeeze that axis`, and what follows takes one rank only. As long
as both branches may be taken, the rank of every value after them is unknown. Where the graph can be
inferred as if one of them were taken, and cannot as if the other were, the other becomes one that
fails (compiler/shape_analysis/infeasible_branches.py): the condition stays, and is
evaluated where it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.errors import Error, ShapeError
from ....ir.graph import Graph, Value
from ....ir.ops import If
from ....ir.ops.control_flow.conditional import failure
from ....ir.types import TensorType, Type
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ...shape_analysis.infeasible_branches import (
    UnprovenError,
    reason,
    replace_branch_by_fail,
    specialize_branches,
)

# Branches to try, times nodes to infer for each, at most: a second or two.
_MAX_BRANCH_INFERENCES = 4000


def refuse_branch(graph: Graph, node: int, op: If) -> Patch | MatchFailure | None:
    """A branch that makes what follows impossible becomes one that fails."""
    types = graph.node(node).types
    if graph.known_value(graph.input(node, 0)) is not None or any(map(failure, op.bodies())):
        return None
    if not _is_open(types):
        return None
    tried = [n for n in graph.ids() if graph.op(n).kind == "If" and _is_open(graph.node(n).types)]
    if len(tried) * len(graph.ids()) > _MAX_BRANCH_INFERENCES:
        return MatchFailure("too many branches to try")
    wrong: dict[int, ShapeError] = {}
    for branch in (0, 1):
        only = replace_branch_by_fail(op, 1 - branch, types, "not evaluated")
        if only is None:
            return MatchFailure("a result is not a tensor")
        trial = graph.copy()
        trial.node(node).op = only
        try:
            specialize_branches(trial, node)
        except UnprovenError:
            return MatchFailure("a loop decides, which may never run")
        except ShapeError as error:
            wrong[branch] = error
        except Error:
            return MatchFailure("what follows cannot be inferred")
    if len(wrong) != 1:
        return MatchFailure("both branches may work" if not wrong else "no branch works")
    ((branch, error),) = wrong.items()
    less = replace_branch_by_fail(op, branch, types, reason(error))
    assert less is not None
    patch = Patch()
    made = patch.add(less, *graph.inputs(node), name=graph.node(node).name)
    for port in range(op.output_count()):
        patch.replace(Value(node, port), Value(made.node, port))
    return patch


def _is_open(types: Sequence[Type]) -> bool:
    """Whether the rank of one of these is unknown."""
    return not all(isinstance(t, TensorType) and t.shape is not None for t in types)


_RULES = (op_rule("refuse_branch", (If,), refuse_branch),)

prune_infeasible_branches = Pass("prune_infeasible_branches", lambda options: _RULES)
