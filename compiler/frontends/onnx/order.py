"""Nodes of a graph or function in an order that can be run; names, gaps and cycles checked.

ONNX wants nodes sorted; files that are not are accepted. Nodes that no output needs are left out,
once their names are checked.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ....ir.errors import ModelFormatError
from ..xml.text import shorten_text
from .body import captured_names

if TYPE_CHECKING:
    from onnx import NodeProto

_MAX_SHOWN = 12


def node_label(node: NodeProto, position: int) -> str:
    """A node for messages: node "MatMul_3" (MatMul), or its index where it has no name."""
    if node.name:
        return f"node {shorten_text(node.name)} ({node.op_type})"
    first = next((name for name in node.output if name), "")
    return f"node {position} ({node.op_type}{' to ' + shorten_text(first) if first else ''})"


def sort_nodes(
    nodes: Sequence[NodeProto], given: Iterable[str], outputs: Sequence[str], where: str
) -> list[int]:
    """Positions of the nodes that `outputs` need, producers first.

    `given` are the names that exist before any node runs. Raises ModelFormatError for a name that
    is defined twice or nowhere, and for a cycle (with its path).
    """
    producer = _producers(nodes, set(given), where)
    reads = [_names_read(node) for node in nodes]
    known = producer.keys() | set(given)
    for position, node in enumerate(nodes):
        for name in reads[position]:
            if name not in known:
                raise _undefined_error(f"{where}: {node_label(node, position)}", name, known)
    for name in outputs:
        if name not in known:
            raise _undefined_error(f"{where}: graph output", name, known)
    order: list[int] = []
    done: set[int] = set()
    for name in outputs:
        if name in producer:
            _visit(producer[name], nodes, reads, producer, done, order, where)
    # The file's own order where it is one: nodes then run as their author meant.
    if all(producer.get(n, -1) < p for p in done for n in reads[p]):
        return sorted(done)
    return order


def _producers(nodes: Sequence[NodeProto], given: set[str], where: str) -> dict[str, int]:
    producer: dict[str, int] = {}
    for position, node in enumerate(nodes):
        for name in node.output:
            if not name:
                continue
            if name in given or name in producer:
                first = "an input or initialiser"
                if name in producer:
                    first = node_label(nodes[producer[name]], producer[name])
                raise ModelFormatError(
                    "a value is defined twice",
                    where=f"{where}: {node_label(node, position)}",
                    got=f"{shorten_text(name)}, also {first}",
                    expected="each name once",
                )
            producer[name] = position
    return producer


def _names_read(node: NodeProto) -> list[str]:
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.HasField("g"):
            names += captured_names(attribute.g)
        for graph in attribute.graphs:
            names += captured_names(graph)
    return names


def _undefined_error(where: str, name: str, known: Iterable[str]) -> ModelFormatError:
    near = difflib.get_close_matches(name, sorted(known)[:5000], 1)
    return ModelFormatError(
        "a value is read that nothing defines",
        where=where,
        got=shorten_text(name),
        expected="the name of an input, an initialiser or a node's output",
        fix=f"the nearest name is {shorten_text(near[0])}" if near else None,
    )


def _visit(
    root: int,
    nodes: Sequence[NodeProto],
    reads: Sequence[list[str]],
    producer: dict[str, int],
    done: set[int],
    order: list[int],
    where: str,
) -> None:
    """Depth first without recursion; appends nodes after all they read."""
    if root in done:
        return
    done.add(root)
    path, on_path = [root], {root}
    pending = [iter(reads[root])]
    while path:
        for name in pending[-1]:
            source = producer.get(name)
            if source is None:
                continue
            if source in on_path:
                raise _cycle(nodes, path[path.index(source) :], where)
            if source not in done:
                done.add(source)
                path.append(source)
                on_path.add(source)
                pending.append(iter(reads[source]))
                break
        else:
            order.append(path[-1])
            on_path.discard(path.pop())
            pending.pop()


def _cycle(nodes: Sequence[NodeProto], path: list[int], where: str) -> ModelFormatError:
    shown = [node_label(nodes[i], i) for i in reversed(path)]
    if len(shown) > _MAX_SHOWN:
        shown = [*shown[: _MAX_SHOWN - 2], f"... {len(shown) - _MAX_SHOWN + 1} more", shown[-1]]
    return ModelFormatError(
        "the nodes form a cycle",
        where=where,
        got=" -> ".join([*shown, shown[0]]),
        expected="no cycle",
    )
