"""Operations on bytes that no kernel takes become plain again, to be fused like any other."""

from __future__ import annotations

from ...ir.graph import Graph, Value
from ...ir.patch import Patch, Refusal
from ..lowering.table import lowerer_of
from ..plain_forms import PLAIN_FORMS
from ..rewrite import Pass, Rule


def spell(graph: Graph, node: int) -> Patch | Refusal | None:
    """The plain form of what would run on the host."""
    if not isinstance(lowerer_of(graph, node), str):
        return None
    patch, op = Patch(), graph.op(node)
    made = PLAIN_FORMS[op.kind](graph, patch.add, op, graph.inputs(node))
    if made is None:
        return Refusal("no plain operations say it")
    return patch.replace(Value(node), made)


_RULES = (Rule("spell", tuple(PLAIN_FORMS), spell),)

spell_quantized = Pass("spell_quantized", lambda options: _RULES)
