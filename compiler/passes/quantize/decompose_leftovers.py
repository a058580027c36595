"""Decompose quantized operations that have no kernel into plain operations, to be fused later."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.graph import Graph, Value
from ...decompositions.quantized import DECOMPOSITIONS
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import MatchFailure, Patch


def decompose_unsupported_quantized(has_kernel: Callable[[Graph, int], bool]) -> Pass:
    """The pass that decomposes each quantized operation for which `has_kernel` is False."""

    def decompose_quantized(graph: Graph, node: int) -> Patch | MatchFailure | None:
        if has_kernel(graph, node):
            return None
        patch, op = Patch(), graph.op(node)
        made = DECOMPOSITIONS[op.kind](graph, patch.add, op, graph.inputs(node))
        if made is None:
            return MatchFailure("no plain operations say it")
        return patch.replace(Value(node), made)

    rules = (Rule("decompose_quantized", tuple(DECOMPOSITIONS), decompose_quantized),)
    return Pass("decompose_unsupported_quantized", lambda options: rules)
