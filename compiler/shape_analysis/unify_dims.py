"""Sizes of the inputs that have to be equal become one, and those that have to be a number that
number: a product of `[?, ?]` with 768 rows of weights takes 768 columns and nothing else.

What a model needs is known then before it runs: kernels are made for known sizes, and an input of
another shape is refused by its name. What no size can say ("1, or as long as that one") stays with
the graph as `needs`, and is checked before a run: a pass may remove the node that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...ir.dims import Dim, Expr, Symbol, eq, evaluate, plain_symbol, substitute, symbol
from ...ir.dims.constraints import ShapeConstraint, requirements
from ...ir.errors import Error, ShapeError
from ...ir.graph import Graph
from ...ir.infer import locate_error
from ...ir.input_check import infer_checked
from ...ir.op import Fact
from ...ir.ops import Parameter
from .infeasible_branches import specialize_branches

# Sizes that became known make more known; models need two or three rounds.
_MAX_ROUNDS = 10
# Sizes of an input that are tried one by one, at most.
_MAX_TRIED_SIZES = 1024


def unify_sizes(graph: Graph) -> Graph:
    """Give parameters the sizes that the graph needs, in place, infer it again, and note in `needs`
    what has to be checked. Returns the graph.

    ShapeError where no input could satisfy the graph.
    """
    for _ in range(_MAX_ROUNDS):
        symbols = _symbols_of_inputs(graph)
        needs = _collect_constraints(graph) if symbols else []
        graph.needs = tuple(n for n, _ in needs if _names(n) <= symbols.keys())
        solved = _solve(needs, symbols)
        if not solved:
            break
        for node in graph.parameters:
            record = graph.node(node)
            if isinstance(record.op, Parameter) and record.op.shape is not None:
                shape = tuple(substitute(d, solved) for d in record.op.shape)
                record.op = Parameter(record.op.element_type, shape)
        specialize_branches(graph)
    return graph


def requirements_of(graph: Graph, node: int) -> list[ShapeConstraint]:
    """What a node takes for granted about its inputs' sizes. Nothing for control flow: what its
    bodies need holds only where they run."""
    record = graph.node(node)
    facts = [graph.fact(v) for v in graph.inputs(node)]
    if record.op.bodies() or not any(_is_symbolic(f) for f in facts):
        return []
    with requirements() as found:
        try:
            infer_checked(record.op, facts, str(node))
        except Error as error:
            raise locate_error(error, record) from error
    where = record.name or f"{record.op.kind}_{node}"
    return [replace(each, where=where) for each in found]


def _collect_constraints(graph: Graph) -> list[tuple[ShapeConstraint, str]]:
    """What the nodes behind results and variables take for granted, in order, each once, with the
    node's origin in its file."""
    found: dict[tuple[Dim, Dim, bool], tuple[ShapeConstraint, str]] = {}
    needed = graph.needed_nodes()
    for node in (n for n in graph.order() if n in needed):
        origin = graph.node(node).origin
        for each in requirements_of(graph, node):
            found.setdefault((each.left, each.right, each.or_one), (each, origin or each.where))
    return list(found.values())


def _names(need: ShapeConstraint) -> set[str]:
    return {s.name for d in (need.left, need.right) if isinstance(d, Expr) for s in d.symbols()}


def _is_symbolic(fact: Fact | None) -> bool:
    """Whether an input has sizes, or holds some, that are not known."""
    shape = getattr(fact.type, "shape", None) if fact is not None else None
    holds = fact is not None and fact.value is not None and fact.value.dtype == object
    return holds or any(isinstance(d, Expr) for d in shape or ())


def _symbols_of_inputs(graph: Graph) -> dict[str, int]:
    """The names of symbols that are axes of parameters, each with its index in their order."""
    found: dict[str, int] = {}
    for node in graph.parameters:
        op = graph.op(node)
        for d in (op.shape or ()) if isinstance(op, Parameter) else ():
            only = plain_symbol(d)
            if only is not None:
                found.setdefault(only.name, len(found))
    return found


def _solve(
    needs: Sequence[tuple[ShapeConstraint, str]], order: Mapping[str, int]
) -> dict[str, Dim]:
    """New sizes by symbol."""
    solved: dict[str, Dim] = {}
    for each, where in needs:
        left, right = (_substitute_solved(d, solved) for d in (each.left, each.right))
        if each.or_one:
            continue
        if each.least is not None:
            solved |= _solve_bound(each.least, right, order)
            continue
        if eq(left, right) is False:
            got = f"{each.left} and {each.right}, which have to be {left} and {right}"
            raise ShapeError(each.what, where=where, got=got, expected="equal sizes")
        found = _solve_equality(left, right, order)
        if found is not None:
            solved = {k: substitute(d, {found[0]: found[1]}) for k, d in solved.items()}
            solved[found[0]] = found[1]
    return solved


def _substitute_solved(d: Dim, solved: Mapping[str, Dim]) -> Dim:
    return substitute(d, solved) if solved else d


def _solve_equality(left: Dim, right: Dim, order: Mapping[str, int]) -> tuple[str, Dim] | None:
    """The symbol of an input that an equality determines, and what it is. Of two symbols the one
    that comes first in the inputs stays, if it is bound at least as tightly."""
    a, b = plain_symbol(left), plain_symbol(right)
    a = a if a is not None and a.name in order else None
    b = b if b is not None and b.name in order else None
    for mine, other in ((a, right), (b, left)):
        if mine is not None and isinstance(other, int):
            inside = mine.lo <= other and (mine.hi is None or other <= mine.hi)
            return (mine.name, other) if inside else None
    if a is None or b is None or a.name == b.name:
        return None
    first, second = sorted((a, b), key=lambda s: order[s.name])
    wide = second.hi is None or (first.hi is not None and first.hi <= second.hi)
    if first.lo < second.lo or not wide:
        return None
    return second.name, left if first is a else right


def _solve_bound(least: Dim, size: Dim, order: Mapping[str, int]) -> dict[str, Dim]:
    """The symbol of an input, bound as this size needs it, if it is the only one: values from its
    bound on with which the size stays too small are not for this model."""
    names: frozenset[Symbol] = size.symbols() if isinstance(size, Expr) else frozenset()
    if not isinstance(least, int) or len(names) != 1:
        return {}
    (only,) = names
    if only.name not in order:
        return {}
    rest = size - symbol(only.name, only.lo, only.hi)
    if isinstance(rest, int):
        found = least - rest
    else:
        found = only.lo
        for _ in range(_MAX_TRIED_SIZES):
            if found == only.hi or evaluate(size, {only.name: found}) >= least:
                break
            found += 1
    return {only.name: symbol(only.name, found, only.hi)} if found > only.lo else {}
