"""Chains of integers, zero points and scales as quantised operations, which ONNX writes as
QuantizeLinear and DequantizeLinear.

The pipeline's passes find them: compressed weights, QDQ, and FakeQuantize in front of products
where 8-bit integers are exact.
"""

from __future__ import annotations

from ....ir.graph import Graph
from ...options import Options
from ...passes.quantize.recognize_fake_quantize import recognize_fake_quantize
from ...passes.quantize.recognize_qdq import recognize_qdq
from ...rewrite.engine import run_pass
from ...rewrite.trace import Trace
from ..bodies import with_bodies


def recognize_quantized(graph: Graph) -> Graph:
    """A copy of a graph with its quantised values as operations of their own, in bodies too."""
    graph = graph.copy()
    trace = Trace(aloud=False)
    for each in (recognize_qdq, recognize_fake_quantize):
        run_pass(graph, each, Options(), trace)
    for node in graph.ids():
        record = graph.node(node)
        record.op = with_bodies(record.op, recognize_quantized)
    return graph
