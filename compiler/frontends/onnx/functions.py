"""Model-local functions: found by name, checked for recursion, and counted before inlining.

A few lines of functions that call each other twice can expand to 2^60 nodes, so the number of
nodes is computed, not reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from ....ir.errors import ModelFormatError
from ..xml.text import shorten_text
from .files.model_file import canonical_domain

if TYPE_CHECKING:
    from onnx import FunctionProto, NodeProto

# Domain, name, overload.
Key: TypeAlias = tuple[str, str, str]
Functions: TypeAlias = "Mapping[Key, FunctionProto]"

NODE_LIMIT = 1_000_000


def key_of(node: NodeProto) -> Key:
    """The function that a node would call."""
    return canonical_domain(node.domain), node.op_type, node.overload


def model_functions(functions: Iterable[FunctionProto], label: str) -> dict[Key, FunctionProto]:
    """A model's functions by key. ModelFormatError where two have one."""
    found: dict[Key, FunctionProto] = {}
    for function in functions:
        key = canonical_domain(function.domain), function.name, function.overload
        if key in found:
            raise ModelFormatError(
                "a function is defined twice",
                where=label,
                got=show(key),
                expected="one of each domain, name and overload",
            )
        found[key] = function
    return found


def show(key: Key) -> str:
    """A function for messages."""
    domain, name, overload = key
    return shorten_text(f"{domain or 'ai.onnx'}.{name}" + (f":{overload}" if overload else ""))


def check_size(nodes: Iterable[NodeProto], functions: Functions, label: str) -> None:
    """Refuse functions that call themselves, and more than NODE_LIMIT nodes after inlining."""
    sizes: dict[Key, int] = {}
    for key in functions:
        _measure(key, functions, sizes, label)
    total = 0
    for node in nodes:
        total += 1 + sizes.get(key_of(node), 0)
    if total > NODE_LIMIT:
        raise ModelFormatError(
            "the model has too many nodes once its functions are expanded",
            where=label,
            got=total if total < 10**18 else "more than 10^18",
            expected=f"at most {NODE_LIMIT}",
        )


def _measure(root: Key, functions: Functions, sizes: dict[Key, int], label: str) -> None:
    """The number of nodes of a function and of all it calls, without recursion."""
    if root in sizes:
        return
    path, on_path = [root], {root}
    pending = [iter(_calls(functions[root], functions))]
    while path:
        for callee in pending[-1]:
            if callee in on_path:
                names = [show(k) for k in (*path[path.index(callee) :], callee)]
                raise ModelFormatError(
                    "a function calls itself",
                    where=label,
                    got=" -> ".join(names[:12]),
                    expected="functions that call only others",
                )
            if callee not in sizes:
                path.append(callee)
                on_path.add(callee)
                pending.append(iter(_calls(functions[callee], functions)))
                break
        else:
            function = functions[path[-1]]
            size = sum(1 + sizes.get(key_of(node), 0) for node in function.node)
            sizes[path[-1]] = min(size, 10**18)
            on_path.discard(path.pop())
            pending.pop()


def _calls(function: FunctionProto, functions: Functions) -> list[Key]:
    return list(dict.fromkeys(k for k in map(key_of, function.node) if k in functions))
