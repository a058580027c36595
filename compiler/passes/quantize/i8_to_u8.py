"""What is quantised to i8 with the least zero point, as ReLU's results are, is u8 without one.

The same codes, 128 more: units that multiply bytes take u8 on the left as it is, and where zero is
stored as 0 nothing is to be taken out of a sum again, so that taps beyond an image can be left out.
"""

from __future__ import annotations

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import Quantize
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import constant_scalar


def unsign(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Quantize and all Dequantize behind it."""
    op, (x, scale, zero) = graph.op(node), (*graph.inputs(node), None, None)[:3]
    least = DType.i8.min
    if op != Quantize(DType.i8) or constant_scalar(graph, zero) != least:
        return None
    readers = [use.node for use in graph.uses(Value(node))]
    if not readers or any(graph.op(n).kind != "Dequantize" for n in readers):
        return MatchFailure("its bytes are read as such")
    if any(constant_scalar(graph, (*graph.inputs(n), None)[2]) != least for n in readers):
        return MatchFailure("it is dequantised with another zero point")
    patch = Patch()
    codes = patch.add(Quantize(DType.u8), x, scale)
    for n in readers:
        patch.replace(Value(n), patch.add(graph.op(n), codes, graph.input(n, 1)))
    return patch


_RULES = (Rule("unsign", ("Quantize",), unsign),)

convert_i8_to_u8 = Pass("convert_i8_to_u8", lambda options: _RULES)
