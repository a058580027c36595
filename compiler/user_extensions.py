"""What a caller extends reading by: operations, and passes over the graph that was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from ..ir.errors import UsageError
from ..ir.extensions import register_operations
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.ops import ALL_OPS
from .options import Options
from .rewrite.engine import Pass, Rule, run_pass
from .rewrite.patch import MatchFailure, Patch
from .rewrite.trace import Trace

# A class of operations, or a pass: a function (graph, node) that returns the patch to apply at a
# node, or None; `kinds` of the function, a tuple of names, limits the nodes that it is called for.
Extension: TypeAlias = "type[Op] | Callable[[Graph, int], Patch | MatchFailure | None]"


def register_extensions(extensions: Sequence[Any]) -> list[Pass]:
    """Register the operations and return the passes, in order. UsageError for anything else."""
    operations: list[type[Op]] = []
    passes: list[Pass] = []
    for each in extensions:
        if isinstance(each, type) and issubclass(each, Op):
            _check_name(each)
            operations.append(each)
        elif not isinstance(each, type) and callable(each):
            passes.append(_as_pass(each))
        else:
            raise UsageError(
                "an extension is neither an operation nor a pass",
                got=repr(each)[:80],
                expected="a subclass of irc.extensions.Op, or a function (graph, node) -> Patch",
            )
    register_operations(operations)
    return passes


def _check_name(cls: type[Op]) -> None:
    if cls.kind.lower() in {c.kind.lower() for c in ALL_OPS}:
        raise UsageError(
            "an extension has the name of one of irc's operations",
            where=cls.__name__,
            got=cls.kind,
            fix='another `kind`; `file_type = "..."` is its type in files',
        )


def _as_pass(function: Callable[..., Any]) -> Pass:
    name = getattr(function, "__name__", type(function).__name__)
    kinds = cast("Sequence[str]", getattr(function, "kinds", ()))
    rule = Rule(name, tuple(kinds), function)
    return Pass(name, lambda options: (rule,))


def apply_passes(graph: Graph, passes: Sequence[Pass]) -> None:
    """Apply users' passes in place; the graph is verified after each."""
    for each in passes:
        run_pass(graph, each, Options(verify=True), Trace(aloud=False))
