"""Store keys and values of a decoder in fewer bits: f16 or bf16.

A variable that a Concat extends becomes one of the narrow type. New rows are converted before they
are appended, and what reads keys or values reads a conversion of the variable: attention makes it
block by block where it reads them (compiler/lowering/schedule/fusion.py), so no copy in f32 exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from ..compiler.model import Model
from ..ir.dtype import DType
from ..ir.errors import UnsupportedOperationError, UsageError
from ..ir.graph import Graph, Use, Value
from ..ir.infer import infer_graph
from ..ir.op import Op
from ..ir.ops import Assign, Concat, Convert, Gather, ReadValue
from ..ir.types import TensorType

if TYPE_CHECKING:
    from ..api import CompiledModel

KVCache = Literal["f32", "f16", "bf16"]
FORMS: Final = get_args(KVCache)


@dataclass(frozen=True)
class _Cache:
    """One variable: read, (Gather by rows,) Concat with fresh rows, Assign."""

    read: int
    past: Value
    concat: int
    assign: int


def store_cache(model: Model, form: KVCache) -> Model:
    """A model of the same weights whose cache has this form. UsageError for an unknown form,
    UnsupportedOperationError where no variable is a cache of keys or values."""
    check_cache_form(form)
    if form == "f32":
        return model
    graph = model.graph.copy()
    caches = [c for n in graph.sinks if (c := _match_cache(graph, n)) is not None]
    if not caches:
        raise UnsupportedOperationError(
            "the model has no cache whose form can be chosen",
            got=f"kv_cache={form!r}",
            expected="variables (ReadValue, Assign) that a Concat extends",
            fix="use kv_cache='f32'",
        )
    for cache in caches:
        _convert_cache(graph, cache, DType(form))
    infer_graph(graph)
    return Model(graph)


def require_cache_reads(net: CompiledModel, form: KVCache) -> None:
    """UnsupportedOperationError unless attention itself reads every variable in this form: a copy
    in f32 for each token would cost more than the form saves."""
    if form == "f32":
        return
    plan = net.plan
    specs = [step.spec for step in plan.kernel_steps() if step.spec.family == "attention"]
    read = sum(o.dtype is DType(form) for s in specs for o in s.operands()[1:3])
    types = [plan.slots[v.slot] for v in plan.variables]
    stored = sum(isinstance(t, TensorType) and t.dtype is DType(form) for t in types)
    if read < stored:
        raise UnsupportedOperationError(
            "attention of this model does not read a cache of this form",
            got=f"kv_cache={form!r}, {stored} variables, {read} read by attention",
            expected="keys and values that one attention reads",
            fix="use kv_cache='f32'",
        )


def check_cache_form(form: str) -> None:
    """UsageError for an unknown form."""
    if form not in FORMS:
        raise UsageError("unknown form of the cache", got=form, expected=", ".join(FORMS))


def _match_cache(graph: Graph, assign: int) -> _Cache | None:
    """The variable of f32 that this node assigns, if rows are appended to it."""
    op = graph.op(assign)
    if not isinstance(op, Assign):
        return None
    grown = graph.input(assign, 0).node
    if not isinstance(graph.op(grown), Concat) or len(graph.inputs(grown)) != 2:
        return None
    past = graph.input(grown, 0)
    gathers = isinstance(graph.op(past.node), Gather)
    read = graph.input(past.node, 0).node if gathers else past.node
    found = graph.op(read)
    if not isinstance(found, ReadValue) or found.variable_id != op.variable_id:
        return None
    if graph.tensor(Value(grown)).dtype is not DType.f32:
        return None
    return _Cache(read, past, grown, assign)


def _convert_cache(graph: Graph, cache: _Cache, dtype: DType) -> None:
    def convert(value: Value, to: DType) -> Value:
        return Value(graph.add(Convert(to), [value], name=graph.node(value.node).name))

    uses = [u for u in graph.uses(Value(cache.concat)) if u.node != cache.assign]
    uses += graph.uses(Value(cache.assign))
    past_uses = [u for u in graph.uses(cache.past) if u.node != cache.concat]
    op = graph.op(cache.read)
    assert isinstance(op, ReadValue)
    inputs = graph.inputs(cache.read)
    first = [] if not inputs or inputs[0] is None else [convert(inputs[0], dtype)]
    narrow = ReadValue(op.variable_id, dtype, op.variable_shape)
    _replace(graph, cache.read, narrow, first)
    fresh = graph.input(cache.concat, 1)
    graph.connect(convert(fresh, dtype), Use(cache.concat, 1))
    for value, listed in ((Value(cache.concat), uses), (cache.past, past_uses)):
        if listed:
            wide = convert(value, DType.f32)
            for use in listed:
                graph.connect(wide, use)


def _replace(graph: Graph, node: int, op: Op, inputs: list[Value]) -> None:
    """Give a node another operation and its inputs."""
    graph.node(node).op = op
    for port, value in enumerate(inputs):
        graph.connect(value, Use(node, port))
