"""Common-subexpression elimination (CSE). Operations with effects are never shared."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Effects
from ....ir.ops import Constant, DeferredConstant
from ...options import Options
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import Patch

# Constants up to this size are compared by content; larger ones by identity, because hashing all
# weights of a model costs more than sharing them could save.
MAX_COMPARED_BYTES = 64 * 2**10
_STRUCTURAL = frozenset({"Parameter", "Result", "TypedParameter"})
# a op b is b op a, bit for bit.
_COMMUTATIVE = frozenset({"Add", "Multiply", "Equal", "NotEqual"})


def make_rules(options: Options) -> Sequence[Rule]:
    """The rule, with what it has seen in this run."""
    seen: dict[Hashable, int] = {}

    def share(graph: Graph, node: int) -> Patch | None:
        op = graph.op(node)
        if op.kind in _STRUCTURAL or op.effects is not Effects.NONE or op.bodies():
            return None
        key = _key(graph, node)
        first = seen.get(key)
        if first is None or first not in graph or first == node:
            seen[key] = node
            return None
        if _key(graph, first) != key:  # it changed since it was seen
            seen[key] = node
            return None
        patch = Patch()
        for value in graph.values(node):
            patch.replace(value, Value(first, value.port))
        return patch

    return (Rule("share", (), share),)


def _key(graph: Graph, node: int) -> Hashable:
    inputs = graph.inputs(node)
    if graph.op(node).kind in _COMMUTATIVE:
        inputs.sort(key=lambda v: v or Value(-1))
    return (_identity(graph, node), tuple(inputs))


def _identity(graph: Graph, node: int) -> Hashable:
    op = graph.op(node)
    if not isinstance(op, Constant):
        return (op, repr(op))  # 0.0 == -0.0, which are not the same attribute
    if (
        isinstance(op, DeferredConstant)
        or op.nbytes > MAX_COMPARED_BYTES
        or op.dtype is DType.string
    ):
        return (id(op.content), op.dtype, op.shape)
    content = hashlib.sha256(np.ascontiguousarray(op.data).tobytes()).digest()
    return (content, op.dtype, op.shape)


eliminate_common_subexpressions = Pass("eliminate_common_subexpressions", make_rules)
