"""Chains of elementwise operations become one Group: one kernel, no values in between.

A producer joins its reader where it has no other, where both outputs have one shape, and where
the program stays small. A group is made from its last operation, whose name it keeps.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....ir.graph import Graph, Value
from ....ir.ops import Group, Identity
from ....ir.ops.math.elementwise import Elementwise, program_of
from ....ir.scalar.builder import Builder, Ref
from ....ir.scalar.program import Program
from ....ir.types import TensorType, broadcast_shapes
from ....plan.packing.panel_params import BYTES
from ...legality import EPILOGUE_ANCHORS, NATIVE, is_elementwise
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import Patch
from ..match.values import constant_scalar, dtype_of, same_shape, shape_of

# More instructions would spill registers; more operands would leave no address registers.
MAX_INSTRUCTIONS = 64
MAX_OPERANDS = 12


def program_at(graph: Graph, node: int) -> Program | None:
    """The scalar program of a node that may be in a group."""
    op = graph.op(node)
    if not isinstance(op, Group | Elementwise) or isinstance(op, Identity):
        return None
    if graph.known_value(Value(node)) is not None:
        return None  # sizes, which shapes are read from and a group would hide
    types = [None if v is None else graph.type(v) for v in (*graph.inputs(node), Value(node))]
    known = [t for t in types if t is not None]
    tensors = [t for t in known if isinstance(t, TensorType) and t.shape is not None]
    if len(tensors) != len(known) or any(t.dtype not in NATIVE for t in tensors):
        return None
    if isinstance(op, Group):
        return op.program if op.output_count() == 1 else None
    if not is_elementwise(graph, node):
        return None
    dtypes = [t.dtype if isinstance(t, TensorType) else None for t in types[:-1]]
    return program_of(op, dtypes)


def _cost(program: Program) -> int:
    return sum(i.op not in ("input", "const") for i in program.instrs)


def group_chain(graph: Graph, node: int) -> Patch | None:
    """Make the group that ends at `node`, unless its reader takes it in."""
    program = program_at(graph, node)
    if program is None:
        return None
    reader = graph.only_reader(Value(node))
    if reader is not None and _can_join(graph, node, reader, _cost(program)):
        return None
    members = _collect(graph, node, program)
    if len(members) < 2:
        return None
    builder, operands = Builder(), dict[Value, int]()
    constants = _may_inline(graph, node, members)
    done: dict[int, Ref] = {}
    for member in reversed(members):  # producers first
        args: list[Ref] = []
        for value in graph.inputs(member):
            if value is not None:
                args.append(_operand(graph, builder, value, done, operands, constants))
        (done[member],) = builder.inline(members[member], *args)
    patch = Patch()
    group = Group(builder.finish(done[node]))
    return patch.replace(Value(node), patch.add(group, *operands))


def _can_join(graph: Graph, node: int, reader: int, cost: int) -> bool:
    program = program_at(graph, reader)
    return (
        program is not None
        and not _is_requantized(graph, node)
        and same_shape(graph, Value(node), Value(reader))
        and cost + _cost(program) <= MAX_INSTRUCTIONS
        and _operands_of(graph, (node, reader)) <= MAX_OPERANDS
    )


def _is_requantized(graph: Graph, node: int) -> bool:
    """Whether a chain that begins at a product has come to bytes: the product finishes them. What
    adds two such may be the end of one product only, and the other one is stored in between."""
    if dtype_of(graph, Value(node)) not in BYTES:
        return False
    pending, seen = {node}, 0
    # Bounded, since it is called at every node of a chain.
    while pending and seen < MAX_INSTRUCTIONS:
        at, seen = pending.pop(), seen + 1
        if graph.op(at).kind in EPILOGUE_ANCHORS:
            return True
        if program_at(graph, at) is not None:
            given = {v for v in graph.inputs(at) if v is not None}
            pending |= {v.node for v in given if graph.only_reader(v) == at}
    return False


def _operands_of(graph: Graph, nodes: tuple[int, ...]) -> int:
    values = {v for n in nodes for v in graph.inputs(n) if v is not None and v.node not in nodes}
    return sum(constant_scalar(graph, v) is None for v in values)


def _collect(graph: Graph, node: int, program: Program) -> dict[int, Program]:
    """The group's members with their programs, each before its producers."""
    members = {node: program}
    cost, pending = _cost(program), [node]
    while pending:
        for value in graph.inputs(pending.pop(0)):
            if value is None or value.node in members:
                continue
            inner = value.node
            # All readers are members already, so that its position in the order is behind them.
            if not graph.readers(value) <= members.keys():
                continue
            found = program_at(graph, inner)
            if found is None or not same_shape(graph, Value(inner), Value(node)):
                continue
            if _is_requantized(graph, inner):
                continue
            if cost + _cost(found) > MAX_INSTRUCTIONS:
                continue
            if _operands_of(graph, (*members, inner)) > MAX_OPERANDS:
                continue
            members[inner] = found
            cost += _cost(found)
            pending.append(inner)
    return members


def _may_inline(graph: Graph, node: int, members: Mapping[int, Program]) -> bool:
    """Whether the other operands alone have the group's shape, so that numbers can leave."""
    shapes = [
        shape_of(graph, v)
        for m in members
        for v in graph.inputs(m)
        if v is not None and v.node not in members and constant_scalar(graph, v) is None
    ]
    return bool(shapes) and broadcast_shapes(*shapes) == shape_of(graph, Value(node))


def _operand(
    graph: Graph,
    builder: Builder,
    value: Value,
    done: Mapping[int, Ref],
    operands: dict[Value, int],
    constants: bool,
) -> Ref:
    """A member's result, a number, or an input of the group."""
    if value.node in done:
        return done[value.node]
    type_ = graph.type(value)
    assert isinstance(type_, TensorType)
    found = constant_scalar(graph, value) if constants else None
    if found is not None:
        return builder.const(found, type_.dtype)
    return builder.input(operands.setdefault(value, len(operands)), type_.dtype)


_RULES = (Rule("group_chain", (), group_chain),)

fuse_elementwise = Pass("fuse_elementwise", lambda options: _RULES)
