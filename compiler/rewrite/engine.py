"""The one engine that mutates a graph: applies rules until none fires.

A rule is a function (graph, node) -> Patch, MatchFailure or None, or one that takes the node's
typed operation as well (op_rule). The engine tries the rules of a pass at every node, applies a
patch and visits its neighbourhood again. It stops when a sweep over the whole graph changes
nothing, or when the trace's budget is used up. It checks that a patch keeps types and shapes,
moves names, and removes dead nodes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TypeVar

from ...ir.errors import Error, VerificationError
from ...ir.graph import Graph, Node, Value
from ...ir.infer import infer_node
from ...ir.lazy_dataclass import dataclass
from ...ir.op import KNOWN_VALUE_LIMIT, Array, Effects, Op
from ...ir.types import compatible
from ...ir.verify import verify
from ..options import Options
from .patch import MatchFailure, Patch
from .trace import Trace

OpT = TypeVar("OpT", bound=Op)
Match = Callable[[Graph, int], Patch | MatchFailure | None]

# A pass that fires more often than this per node does not converge: a fault of its rules.
MAX_HITS_PER_NODE = 20
# Nodes that dead-code elimination keeps: they are the graph's interface.
_INTERFACE = frozenset({"Parameter", "TypedParameter", "Result"})


@dataclass(frozen=True)
class Rule:
    """A named rewrite tried at nodes of the given kinds (at every node if `kinds` is empty)."""

    name: str
    kinds: tuple[str, ...]
    match: Match


def op_rule(
    name: str,
    ops: tuple[type[OpT], ...],
    match: Callable[[Graph, int, OpT], Patch | MatchFailure | None],
) -> Rule:
    """A rule tried at nodes whose operation is of these classes; it gets the operation, typed."""

    @wraps(match)
    def match_typed(graph: Graph, node: int) -> Patch | MatchFailure | None:
        op = graph.op(node)
        return match(graph, node, op) if isinstance(op, ops) else None

    return Rule(name, tuple(dict.fromkeys(op.kind for op in ops)), match_typed)


@dataclass(frozen=True)
class Pass:
    """A named set of rules made fresh for each run (so that a rule may remember what it saw)."""

    name: str
    rules: Callable[[Options], Sequence[Rule]]


def run_pass(graph: Graph, passes: Pass, options: Options, trace: Trace) -> int:
    """Apply the rules of one pass until none fires. Returns how many patches were applied.

    Raises VerificationError where a rule breaks the graph or the pass does not come to an end.
    """
    started = time.perf_counter()
    by_kind = _by_kind(passes.rules(options))
    # Remove dead nodes first: they would count as uses and block rewrites.
    remove_dead(graph, graph.unread())
    limit = MAX_HITS_PER_NODE * (len(graph) + 100)
    hits = 0
    while not trace.is_exhausted:
        # A patch changes what rules see further away than its neighbourhood; the last sweep,
        # which changes nothing, is the proof that no rule fires any more.
        found = _apply_everywhere(graph, passes.name, by_kind, trace, limit - hits)
        hits += found
        if not found:
            break
    trace.after_pass(passes.name, graph, time.perf_counter() - started)
    if options.verify:
        try:
            verify(graph)
        except Error as error:
            raise _rule_error(f"the graph is broken after pass {passes.name}", error) from error
    return hits


def _apply_everywhere(
    graph: Graph, passname: str, by_kind: dict[str, list[Rule]], trace: Trace, limit: int
) -> int:
    """Ask the rules at every node, and again where something changed. Returns the hits."""
    everywhere = by_kind.get("", [])
    asked = set(graph.ids()) if everywhere else graph.nodes_of_kinds(by_kind)
    if not asked:
        return 0
    pending = deque(n for n in graph.order() if n in asked)
    queued = set(pending)
    hits = 0
    while pending and not trace.is_exhausted:
        node = pending.popleft()
        queued.discard(node)
        if node not in graph:
            continue
        for rule in (*by_kind.get(graph.op(node).kind, ()), *everywhere):
            found = rule.match(graph, node)
            if found is None:
                continue
            if isinstance(found, MatchFailure):
                trace.refusal(passname, rule.name, describe(graph, node), found.reason)
                continue
            trace.hit(passname, rule.name, describe(graph, node))
            try:
                touched = apply_patch(graph, found, node)
            except Error as error:
                raise _rule_error(f"rule {rule.name} of pass {passname} is wrong", error) from error
            for again in touched:
                if again not in queued:
                    queued.add(again)
                    pending.append(again)
            hits += 1
            break
        if hits > limit:
            raise VerificationError(
                f"pass {passname} does not come to an end", got=f"{hits} applications"
            )
    return hits


def _rule_error(what: str, error: Error) -> VerificationError:
    return VerificationError(
        f"{what}: {error.what}", where=error.where, got=error.got, expected=error.expected
    )


def _by_kind(rules: Sequence[Rule]) -> dict[str, list[Rule]]:
    table: dict[str, list[Rule]] = {}
    for rule in rules:
        for kind in rule.kinds or ("",):
            table.setdefault(kind, []).append(rule)
    return table


def describe(graph: Graph, node: int) -> str:
    """A node's name for traces and messages."""
    record = graph.node(node)
    return record.name or f"{record.op.kind}#{node}"


def apply_patch(graph: Graph, patch: Patch, at: int) -> list[int]:
    """Apply a patch found at node `at`; returns the nodes worth another look."""
    origin = graph.node(at).origin
    created: list[int] = []

    def resolve(value: Value | None) -> Value | None:
        if value is None or value.node >= 0:
            return value
        return Value(created[-value.node - 1], value.port)

    for new in patch.nodes:
        inputs = [resolve(v) for v in new.inputs]
        node = graph.add(new.op, inputs, name=new.name, origin=origin)
        created.append(node)
        infer_node(graph, node)
    touched: dict[int, None] = dict.fromkeys(created)
    replaced: list[int] = []
    for old, planned in patch.replacements:
        new_value = resolve(planned)
        assert new_value is not None
        touched.update(dict.fromkeys(_replace(graph, old, new_value, frozenset(created))))
        replaced.append(old.node)
    gone: list[Node] = []
    touched.update(dict.fromkeys(remove_dead(graph, [*replaced, *created], gone)))
    _hand_on_sources(graph, created, gone)
    return [n for n in touched if n in graph]


def _hand_on_sources(graph: Graph, created: Sequence[int], gone: Sequence[Node]) -> None:
    """New nodes compute what the removed ones did; reports name them by the model's names."""
    names = [n for record in reversed(gone) if _computes(record) for n in _sources(record)]
    for node in created:
        if node in graph and _computes(graph.node(node)):
            graph.node(node).sources = tuple(dict.fromkeys(names))


def _computes(record: Node) -> bool:
    return record.op.kind != "Constant"


def _sources(record: Node) -> tuple[str, ...]:
    return record.sources or ((record.name,) if record.name else ())


def _replace(graph: Graph, old: Value, new: Value, created: frozenset[int]) -> list[int]:
    """Let readers of `old` read `new`; returns the nodes touched.

    New nodes of the same patch go on reading `old`: they compute `new` from it.
    """
    before, after = graph.type(old), graph.type(new)
    if not compatible(before, after):
        raise VerificationError(
            "a rewrite changes the type of a value",
            where=describe(graph, old.node),
            got=str(after),
            expected=str(before),
        )
    uses = [u for u in graph.uses(old) if u.node not in created]
    learned = before != after or _known_key(graph.known_value(old)) != _known_key(
        graph.known_value(new)
    )
    for use in uses:
        graph.connect(new, use)
    source, target = graph.node(old.node), graph.node(new.node)
    target.names[new.port] |= source.names[old.port]
    source.names[old.port] = frozenset()
    if not target.name:
        target.name = source.name
    if learned:
        _infer_onwards(graph, [u.node for u in uses])
    return [new.node, *(u.node for u in uses)]


def _known_key(known: Array | None) -> object:
    """What is known of a value, to compare: a size may be known under a better name than before."""
    if known is None or known.size > KNOWN_VALUE_LIMIT or known.dtype.kind not in "iubO":
        return known is not None
    return tuple(known.reshape(-1).tolist())


def _infer_onwards(graph: Graph, start: list[int]) -> None:
    """Infer nodes again, and their readers where something changed."""
    pending = deque(start)
    while pending:
        node = pending.popleft()
        before = _known_facts(graph, node)
        infer_node(graph, node)
        if _known_facts(graph, node) != before:
            pending.extend(graph.consumers(node))


def _known_facts(graph: Graph, node: int) -> list[object]:
    record = graph.node(node)
    return [*record.types, *map(_known_key, record.known)]


def remove_dead(
    graph: Graph, candidates: Sequence[int], gone: list[Node] | None = None
) -> list[int]:
    """Remove dead candidates, and what only they use; returns the producers that
    lost a reader. Parameters, results and nodes with effects stay. `gone` collects the records of
    what was removed, readers first."""
    pending, losers = list(candidates), dict[int, None]()
    while pending:
        node = pending.pop()
        if node not in graph or graph.has_uses(node):
            continue
        op = graph.op(node)
        if op.kind in _INTERFACE or op.effects is not Effects.NONE:
            continue
        if gone is not None:
            gone.append(graph.node(node))
        producers = graph.producers(node)
        graph.remove(node)
        pending.extend(producers)
        losers.update(dict.fromkeys(producers))
    return list(losers)
