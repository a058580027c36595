"""The pipeline inside control flow: every body is refined with what is known outside, then
optimised by the same passes with a trace of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...ir.graph import Graph, Value
from ...ir.infer import infer_graph
from ...ir.ops import Parameter, TypedParameter
from ...ir.ops.shape_inference import naming
from ...ir.types import TensorType, Type
from ..options import Options
from .engine import apply_patch, describe
from .patch import Patch
from .trace import Trace

Optimise = Callable[[Graph, Options, Trace], Trace]
# A body may enlarge the constants by this share of what the graph around it may.
_BODY_FOLDING_SHARE = 16


def optimize_subgraphs(graph: Graph, options: Options, trace: Trace, optimize: Optimise) -> bool:
    """Give every node with bodies new ones: refined, and optimised by `optimize`. Returns
    whether any changed."""
    found = False
    inside = replace(options, fold_limit=options.fold_limit // _BODY_FOLDING_SHARE)
    for node in graph.order():
        op = graph.op(node)
        if not op.bodies() or trace.is_exhausted:
            continue
        bodies: list[Graph] = []
        changed = False
        with naming(str(node)):
            types = op.body_types([graph.fact(v) for v in graph.inputs(node)])
        for number, (body, given) in enumerate(zip(op.bodies(), types, strict=True)):
            name = describe(graph, node) + (f".{number}" if len(types) > 1 else "")
            inner = trace.enter(name)
            before = len(inner.events)
            # Symbols of sizes that only a body knows are named after the node and the body.
            with naming(str(node)), naming(f"b{number}"):
                fresh, refined = refined_body(body, given)
                optimize(fresh, inside, inner)
            trace.leave(inner)
            changed = changed or refined or any(e.refused is None for e in inner.events[before:])
            bodies.append(fresh)
        if not changed:
            continue
        found, patch = True, Patch()
        made = patch.add(op.with_bodies(bodies), *graph.inputs(node), name=graph.node(node).name)
        for port in range(op.output_count()):
            patch.replace(Value(node, port), Value(made.node, port))
        apply_patch(graph, patch, node)
    return found


def refined_body(body: Graph, types: Sequence[Type | None]) -> tuple[Graph, bool]:
    """A copy whose parameters have these types (None: as declared); whether any is new."""
    fresh, changed = body.copy(), False
    for node, type_ in zip(fresh.parameters, types, strict=True):
        record = fresh.node(node)
        if type_ is None or (record.types and record.types[0] == type_):
            continue
        tensor = isinstance(type_, TensorType)
        record.op = Parameter(type_.dtype, type_.shape) if tensor else TypedParameter(type_)
        changed = True
    infer_graph(fresh)
    return fresh, changed
