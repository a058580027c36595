"""Looking at tensors inside a model: delivering them as results, and who touched them."""

from __future__ import annotations

from ...ir.graph import Graph, Value
from ...ir.infer import infer_node
from ...ir.ops import Constant, Result
from ...ir.types import TensorType
from ..options import Options
from ..pipeline import optimize


def deliver_tensors(graph: Graph) -> tuple[Graph, list[str]]:
    """A copy of the graph whose results are the tensors that survive optimisation, in execution
    order, then those of the graph's own results that are none of them; and their names.

    A tensor that a fusion swallows is not delivered: keeping it would change what is compared.
    """
    survivors = _names_after(graph)
    copy = graph.copy()
    own = list(copy.results)
    names: list[str] = []
    delivered: set[Value | None] = set()
    copy.results.clear()
    for node in graph.order():
        record = graph.node(node)
        if record.op.kind in ("Parameter", "Result") or isinstance(record.op, Constant):
            continue
        if record.name not in survivors or not _is_comparable(graph, Value(node)):
            continue
        result = copy.add(Result(), [Value(node)], name=f"{record.name} (tensor)")
        infer_node(copy, result)
        names.append(record.name)
        delivered.add(Value(node))
    for i, node in enumerate(own):
        if copy.inputs(node)[0] not in delivered:
            copy.results.append(node)
            known = copy.node(node).names
            names.append(min(known[0], default="") if known else f"output {i}")
    return copy, names


def _names_after(graph: Graph) -> set[str]:
    optimised = graph.copy()
    optimize(optimised, Options())
    return {name for n in optimised.ids() if (name := optimised.node(n).name)}


def _is_comparable(graph: Graph, value: Value) -> bool:
    type_ = graph.type(value)
    return isinstance(type_, TensorType) and type_.shape is not None and type_.dtype.is_float


def passes_of(graph: Graph, name: str) -> list[str]:
    """The passes whose rewrites fired at the node of this name, in order."""
    trace = optimize(graph.copy(), Options())
    hits = (e.passname for e in trace.events if e.refused is None and e.node == name)
    return list(dict.fromkeys(hits))
