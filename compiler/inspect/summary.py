"""What a model is: operations by count, parameters, arithmetic, and what will fuse."""

from __future__ import annotations

from collections import Counter

from ...ir.dims import Dim
from ...ir.graph import Graph
from ...ir.lazy_dataclass import dataclass
from ...ir.ops import Constant
from ..options import Options
from ..pipeline import optimize
from .flops import operation_flops


@dataclass(frozen=True)
class Summary:
    """operations: count by kind, constants left out. parameters, bytes: of the constants. flops:
    multiplications and additions of one call, a size or an expression in the model's symbols.
    fusions: how often each rewrite would apply. after: operations that remain, by kind. bodies:
    operations of each body of control flow, by where it is; parameters count those of bodies."""

    operations: dict[str, int]
    parameters: int
    bytes: int
    flops: Dim
    fusions: dict[str, int]
    after: dict[str, int]
    bodies: dict[str, dict[str, int]]


def summarise(graph: Graph) -> Summary:
    """The summary of a model as read; the graph is not changed."""
    bodies = bodies_of(graph)
    graphs = [graph, *(body for _, body in bodies)]
    constants = [op for g in graphs for n in g.ids() if isinstance(op := g.op(n), Constant)]
    flops: Dim = 0
    for node in graph.ids():
        flops = flops + operation_flops(graph, node)
    optimised = graph.copy()
    trace = optimize(optimised, Options())
    return Summary(
        operations=_count_kinds(graph),
        parameters=sum(c.data.size for c in constants),
        bytes=sum(c.dtype.nbytes(c.data.size) if c.dtype.bits else 0 for c in constants),
        flops=flops,
        fusions=dict(trace.hits().most_common()),
        after=_count_kinds(optimised),
        bodies={where: _count_kinds(body) for where, body in bodies},
    )


def bodies_of(graph: Graph) -> list[tuple[str, Graph]]:
    """Every body of control flow, those inside others too, each with the way to it: "Loop 'x'",
    or "If 'y' then", joined by " / "."""
    found: list[tuple[str, Graph]] = []
    pending = [("", graph)]
    while pending:
        way, at = pending.pop()
        inner: list[tuple[str, Graph]] = []
        for node in at.order():
            op, name = at.op(node), at.node(node).name or f"#{node}"
            roles = (" then", " else") if op.kind == "If" else ("",)
            for role, body in zip(roles, op.bodies(), strict=False):
                inner.append((f"{way}{op.kind} {name!r}{role}", body))
        found += inner
        pending += [(f"{w} / ", body) for w, body in reversed(inner)]
    return found


def _count_kinds(graph: Graph) -> dict[str, int]:
    skipped = ("Constant", "Parameter", "Result")
    kinds = Counter(k for n in graph.ids() if (k := graph.op(n).kind) not in skipped)
    return dict(kinds.most_common())
