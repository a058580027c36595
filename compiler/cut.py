"""Cuts and reshapes a model: other inputs and outputs, shapes and element types of inputs.

An input is given as `ovc` takes it: a name, sizes in brackets, an element type in braces:
`x`, `x[1,3,224,224]`, `x[?,3,height]{f32}`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..ir.dims import Dim, symbol
from ..ir.dtype import DType, parse_element_type
from ..ir.errors import UsageError
from ..ir.graph import Graph, Value
from ..ir.infer import infer_graph, infer_node
from ..ir.lazy_dataclass import dataclass
from ..ir.ops import Convert, Parameter, Result
from ..ir.types import TensorType

_INPUT = re.compile(r"(?P<name>.+?)(?P<shape>\[[^\[\]]*\])?(?P<dtype>\{[^{}]*\})?", re.DOTALL)
_EXPECTED = "NAME, NAME[1,3,?], NAME{f32} or NAME[1,3,?]{f32}"


@dataclass(frozen=True)
class InputSpec:
    """One input: a tensor's name, sizes (None: as they are; of these None: any size), and type."""

    name: str
    shape: tuple[int | str | None, ...] | None = None
    dtype: DType | None = None


def parse_input(text: str) -> InputSpec:
    """`name[sizes]{type}`. UsageError where it cannot be read."""
    match = _INPUT.fullmatch(text.strip())
    if match is None:
        raise UsageError("an input cannot be read", got=text, expected=_EXPECTED)
    shape, dtype = match["shape"], match["dtype"]
    try:
        found = None if dtype is None else parse_element_type(dtype[1:-1].strip())
    except ValueError as error:
        raise UsageError("an input's type cannot be read", where=text, got=str(error)) from error
    sizes = (
        None if shape is None else tuple(_size(s.strip(), text) for s in _split_list(shape[1:-1]))
    )
    return InputSpec(match["name"].strip(), sizes, found)


def _split_list(text: str) -> list[str]:
    return text.split(",") if text.strip() else []


def _size(text: str, where: str) -> int | str | None:
    if text in ("?", "-1"):
        return None
    if text.isascii() and text.isdecimal():
        return int(text)
    if text.isidentifier():
        return text
    raise UsageError("a size cannot be read", where=where, got=text, expected="a number, name or ?")


def cut_graph(
    graph: Graph, inputs: Sequence[str | InputSpec] = (), outputs: Sequence[str] = ()
) -> Graph:
    """A copy of an inferred graph with these outputs (all, where none are listed), computed from
    these inputs first; an input that a listed one cuts off is gone, one that is still needed stays.

    Names are those of tensors, or of operations that have one output. UsageError for a name that
    is none, ShapeError where shapes do not fit.
    """
    copy = graph.copy()
    specs = [parse_input(s) if isinstance(s, str) else s for s in inputs]
    named = _names(copy)
    if outputs:
        _set_outputs(copy, [(name, _find(named, name, "output")) for name in outputs])
    listed = [_set_input(copy, spec, _find(named, spec.name, "input")) for spec in specs]
    if len(set(listed)) < len(listed):
        raise UsageError("an input is listed twice", got=", ".join(s.name for s in specs))
    _remove_unused(copy, set(listed))
    copy.parameters[:] = [*listed, *(p for p in copy.parameters if p not in listed)]
    infer_graph(copy)
    return copy


def _names(graph: Graph) -> dict[str, Value]:
    """Values by their tensors' names, then by their nodes'."""
    found: dict[str, Value] = {}
    order = [n for n in graph.order() if graph.op(n).kind not in ("Result", "Assign")]
    for node in order:
        for port, names in enumerate(graph.node(node).names):
            found.update(dict.fromkeys(names, Value(node, port)))
    for node in order:
        name = graph.node(node).name
        if name and graph.op(node).output_count() == 1:
            found.setdefault(name, Value(node))
    for node in graph.results:
        for name in (*graph.node(node).names[0], graph.node(node).name):
            found.setdefault(name, graph.input(node, 0))
    return found


def _find(named: dict[str, Value], name: str, what: str) -> Value:
    value = named.get(name)
    if value is None:
        import difflib

        near = difflib.get_close_matches(name, named, 3)
        raise UsageError(
            f"no tensor of the model has the name of this {what}",
            got=name,
            expected=" or ".join(near) if near else "a tensor's name (irc graph shows them)",
        )
    return value


def _set_outputs(graph: Graph, outputs: Sequence[tuple[str, Value]]) -> None:
    before = {name: n for n in graph.results for name in graph.node(n).names[0]}
    results: list[int] = []
    for name, value in outputs:
        node = before.get(name)
        if node is None or graph.input(node, 0) != value or node in results:
            node = graph.add(Result(), [value], name=name, names=[frozenset([name])])
            infer_node(graph, node)
        results.append(node)
    for node in [n for n in graph.results if n not in results]:
        graph.remove(node)
    for sink in list(graph.sinks):
        graph.remove(sink)
    graph.results[:] = results


def _set_input(graph: Graph, spec: InputSpec, value: Value) -> int:
    """Make a value an input of its shape and type, or of those of the spec; its node."""
    type_ = graph.type(value)
    if not isinstance(type_, TensorType):
        raise UsageError("an input is not a tensor", where=spec.name, got=type_)
    shape = type_.shape if spec.shape is None else _sizes(spec)
    dtype = spec.dtype or type_.dtype
    record = graph.node(value.node)
    if isinstance(record.op, Parameter) and dtype is type_.dtype:
        record.op = Parameter(dtype, shape)
        infer_node(graph, value.node)
        return value.node
    uses = graph.uses(value)
    parameter = isinstance(record.op, Parameter)
    names = record.names[value.port] if parameter else frozenset([spec.name])
    name = record.name if parameter else spec.name
    node = graph.add(Parameter(dtype, shape), name=name, origin=record.origin, names=[names])
    infer_node(graph, node)
    source = Value(node)
    if dtype is not type_.dtype:
        convert = graph.add(Convert(type_.dtype), [source], name=f"{spec.name}/Convert")
        infer_node(graph, convert)
        source = Value(convert)
    for use in uses:
        graph.connect(source, use)
    if parameter:
        graph.remove(value.node)
    return node


def _sizes(spec: InputSpec) -> tuple[Dim, ...]:
    sizes: list[Dim] = []
    for axis, size in enumerate(spec.shape or ()):
        if isinstance(size, int):
            sizes.append(size)
        else:
            sizes.append(symbol(f"{spec.name}.{axis}" if size is None else size))
    return tuple(sizes)


def _remove_unused(graph: Graph, roots: set[int]) -> None:
    """Remove what no output needs; inputs that were listed stay."""
    needed = graph.needed_nodes(roots)
    for node in reversed(graph.order()):
        if node not in needed:
            graph.remove(node)
