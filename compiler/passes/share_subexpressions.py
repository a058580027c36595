"""Compute equal work once. Operations with effects are never shared."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence

import numpy as np

from ...ir.graph import Graph, Value
from ...ir.op import Effects
from ...ir.ops import Constant
from ...ir.patch import Patch
from ..options import Options
from ..rewrite import Pass, Rule

# Constants up to this size are compared by content; larger ones by identity, because hashing all
# weights of a model costs more than sharing them could save.
CONTENT_LIMIT = 64 * 2**10
_STRUCTURAL = frozenset({"Parameter", "Result", "TypedParameter"})


def make_rules(options: Options) -> Sequence[Rule]:
    """The rule, with what it has seen in this run."""
    seen: dict[Hashable, int] = {}

    def share(graph: Graph, node: int) -> Patch | None:
        op = graph.op(node)
        if op.kind in _STRUCTURAL or op.effects is not Effects.NONE or op.bodies():
            return None
        key = (_identity(graph, node), tuple(graph.inputs(node)))
        first = seen.get(key)
        if first is None or first not in graph or first == node:
            seen[key] = node
            return None
        if _identity(graph, first) != key[0] or tuple(graph.inputs(first)) != key[1]:
            seen[key] = node
            return None
        patch = Patch()
        for value in graph.values(node):
            patch.replace(value, Value(first, value.port))
        return patch

    return (Rule("share", (), share),)


def _identity(graph: Graph, node: int) -> Hashable:
    op = graph.op(node)
    if not isinstance(op, Constant):
        return op
    if op.data.nbytes > CONTENT_LIMIT or op.data.dtype.kind == "O":
        return (id(op.data), op.dtype, op.shape)
    content = hashlib.sha256(np.ascontiguousarray(op.data).tobytes()).digest()
    return (content, op.dtype, op.shape)


share_subexpressions = Pass("share_subexpressions", make_rules)
