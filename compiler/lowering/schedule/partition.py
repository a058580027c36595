"""Who computes each node: native code, the host inside a region, or the host at a region's end."""

from __future__ import annotations

from collections.abc import Mapping

from ....ir.dims import Expr
from ....ir.dtype import DType
from ....ir.graph import Graph
from ....ir.op import Op
from ....ir.ops import If, Loop, OnnxNode, TensorIterator
from ....ir.types import TensorType, Type
from ..control.eligibility import match_control
from ..op_table import Lowerer, lowerer_of
from .role import STRUCTURAL, NativeControl, Role, read_values
from .symbols import is_host_only, symbols_of


def decide_roles(graph: Graph) -> dict[int, Role]:
    """The role of every node that is not structural and is needed at run time, in order."""
    roles: dict[int, Role] = {}
    known: set[str] = set()
    # Symbols of sizes that only data decides, by the node whose result has them.
    makers: dict[str, int] = {}
    for node in graph.order():
        op = graph.op(node)
        if op.kind in STRUCTURAL:
            for value in graph.values(node):
                known |= symbols_of(graph.type(value))
            continue
        if is_converted_constant(graph, node):
            continue  # its readers read it converted
        found = lowerer_of(graph, node)
        outputs = [graph.type(v) for v in graph.values(node)]
        reason = terminal_reason(graph, node, op, outputs, known)
        control: NativeControl | str | None = None
        if isinstance(op, If | Loop | TensorIterator) and not reason:
            control = match_control(graph, node, op, known, decide_roles)
            reason = _explain_control(op, control) if isinstance(control, str) else None
        if reason:
            if isinstance(op, OnnxNode) and isinstance(found, str):
                reason = f"{found}; {reason}"
            roles[node] = Role(False, reason, terminal=True)
            for type_ in outputs:
                makers.update(dict.fromkeys(symbols_of(type_) - known, node))
                known |= symbols_of(type_)
        elif isinstance(control, NativeControl):
            roles[node] = Role(True, control=control)
        elif isinstance(found, Lowerer):
            roles[node] = Role(True, ports=found.data)
        else:
            roles[node] = Role(False, found)
    needed = needed_nodes(graph, roles, makers)
    return {n: r for n, r in roles.items() if n in needed}


def is_converted_constant(graph: Graph, node: int) -> bool:
    """Whether a node is a constant's conversion that nothing folded."""
    while graph.op(node).kind == "Convert":
        node = graph.input(node, 0).node
        if graph.op(node).kind == "Constant":
            return True
    return False


def terminal_reason(
    graph: Graph, node: int, op: Op, outputs: list[Type], known: set[str]
) -> str | None:
    """Why a node has to end its region, or None."""
    for type_ in (*outputs, *(graph.type(v) for v in graph.inputs(node) if v is not None)):
        if is_host_only(type_):
            strings = isinstance(type_, TensorType) and type_.dtype is DType.string
            what = "strings" if strings else "a value that is not a tensor of known rank"
            return _explain_control(op, f"{op.kind} of {what}")
    if any(symbols_of(t) - known for t in outputs):
        return _explain_control(op, f"the shape of {op.kind}'s result depends on data")
    return None


def _explain_control(op: Op, reason: str) -> str:
    return f"{_STEERS[op.kind]} ({reason})" if op.bodies() else reason


# What Python does for control flow that does not run natively.
_STEERS: dict[str, str] = {
    **dict.fromkeys(("Loop", "TensorIterator"), "Python counts the iterations"),
    "If": "Python chooses the branch",
}


def needed_nodes(graph: Graph, roles: Mapping[int, Role], makers: Mapping[str, int]) -> set[int]:
    """Nodes whose values something reads at run time: a result, a sink, or a needed node; and
    nodes that make a size (`makers`) that such a node's shape or known value consists of."""
    needed: set[int] = set()
    pending = [*graph.results, *graph.sinks]
    while pending:
        node = pending.pop()
        if node in needed:
            continue
        needed.add(node)
        pending.extend(v.node for v in read_values(graph, node, roles.get(node)))
        if makers:
            pending.extend(makers[s] for s in _sizes_used(graph, node) if s in makers)
    return needed


def _sizes_used(graph: Graph, node: int) -> set[str]:
    """Names of the symbols in a node's shapes and known values."""
    record = graph.node(node)
    known = [d for k in record.known if k is not None and k.dtype == object for d in k.flat]
    found = {s.name for d in known if isinstance(d, Expr) for s in d.symbols()}
    return found.union(*(symbols_of(t) for t in record.types))
