"""Replace what is known at compile time by a Constant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.dtype import DType
from ...ir.errors import Error
from ...ir.graph import Graph, Value
from ...ir.op import Array, Effects
from ...ir.ops import Constant
from ...ir.patch import Patch, Refusal
from ...ir.types import TensorType
from ..options import Options
from ..rewrite import Pass, Rule

# A conversion that widens a large weight (fp16-compressed models) is left to the weight's reader:
# it converts while packing, and the model stays as small as it was stored.
WIDENING_LIMIT = 64 * 2**10
_STRUCTURAL = frozenset({"Constant", "Parameter", "Result", "TypedParameter"})


def make_rules(options: Options) -> Sequence[Rule]:
    """The rule, with the memory it may still spend."""
    left = [options.fold_limit]

    def fold(graph: Graph, node: int) -> Patch | Refusal | None:
        record = graph.node(node)
        op = record.op
        if op.kind in _STRUCTURAL or op.effects is not Effects.NONE or op.bodies():
            return None
        known = [graph.known(v) for v in graph.values(node)]
        if all(k is not None and k.dtype != object for k in known):
            return _constants(graph, node, [k for k in known if k is not None])
        inputs = [v for v in graph.inputs(node) if v is not None]
        constants = [graph.op(v.node) for v in inputs]
        if not inputs or not all(isinstance(c, Constant) for c in constants):
            return None
        before = sum(c.data.nbytes for c in constants if isinstance(c, Constant))
        after = sum(_nbytes(t) for t in record.types)
        growth = max(0, after - before)
        if op.kind == "Convert" and growth and after > WIDENING_LIMIT:
            return Refusal("a large weight is converted by its reader")
        if growth > left[0]:
            return Refusal(f"folding adds {growth} bytes where {left[0]} are left")
        try:
            arrays = op.evaluate(
                *op.slots([c.evaluate()[0] if c else None for c in _ops(graph, node)])
            )
        except Error as error:
            return Refusal(f"evaluation fails: {error.what}")
        left[0] -= growth
        return _constants(graph, node, list(arrays))

    return (Rule("fold", (), fold),)


def _ops(graph: Graph, node: int) -> list[Constant | None]:
    found: list[Constant | None] = []
    for value in graph.inputs(node):
        op = None if value is None else graph.op(value.node)
        found.append(op if isinstance(op, Constant) else None)
    return found


def _nbytes(type_: object) -> int:
    if not isinstance(type_, TensorType):
        return 1 << 62
    count = type_.element_count
    return type_.dtype.nbytes(count) if isinstance(count, int) else 1 << 62


def _constants(graph: Graph, node: int, arrays: list[Array]) -> Patch:
    patch = Patch()
    for port, array in enumerate(arrays):
        type_ = graph.type(Value(node, port))
        assert isinstance(type_, TensorType)
        data = np.ascontiguousarray(array).reshape(np.shape(array))
        name = graph.node(node).name
        patch.replace(Value(node, port), patch.add(_constant(data, type_.dtype), name=name))
    return patch


def _constant(data: Array, dtype: DType) -> Constant:
    return Constant.of(data, dtype)


fold_constants = Pass("fold_constants", make_rules)
