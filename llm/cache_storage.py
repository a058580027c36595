"""Store keys and values of a decoder in fewer bits: f16, bf16, or codes of 8 or 4 bits.

A variable that a Concat extends becomes one of the narrow type. New rows are converted before they
are appended, and what reads keys or values reads a conversion of the variable: attention makes it
block by block where it reads them (compiler/lowering/schedule/fusion.py), so no copy in f32 exists.
Codes are rows of u8, one per token and head, each with its scales
(ir/row_codes.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..compiler.model import Model
from ..compiler.report import count_cache_reads
from ..ir.dtype import DType
from ..ir.errors import UnsupportedOperationError
from ..ir.graph import Graph, Use, Value
from ..ir.infer import infer_graph
from ..ir.lazy_dataclass import dataclass
from ..ir.op import Op
from ..ir.ops import Assign, Concat, Convert, DequantizeRows, Gather, QuantizeRows, ReadValue
from ..ir.row_codes import ROW_MULTIPLE, RowCodes
from ..ir.types import TensorType
from .language_model import KVCache, check_cache_form

if TYPE_CHECKING:
    from ..api import CompiledModel

_CODE_BITS: Final = {"u8": 8, "u4": 4}


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
        _convert_cache(graph, cache, _choose_conversion(graph, cache, form))
    infer_graph(graph)
    return Model(graph)


def require_cache_reads(net: CompiledModel, form: KVCache) -> None:
    """UnsupportedOperationError unless attention itself reads every variable in this form: a copy
    in f32 for each token would cost more than the form saves."""
    if form == "f32":
        return
    plan, dtype = net.plan, DType.u8 if form in _CODE_BITS else DType(form)
    read = count_cache_reads(plan)[form]
    types = [plan.slots[v.slot] for v in plan.variables]
    stored = sum(isinstance(t, TensorType) and t.dtype is dtype for t in types)
    if read < stored:
        raise UnsupportedOperationError(
            "attention of this model does not read a cache of this form",
            got=f"kv_cache={form!r}, {stored} variables, {read} read by attention",
            expected="keys and values that one attention reads",
            fix="use kv_cache='f32'",
        )


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


@dataclass(frozen=True)
class _Conversion:
    """How values are narrowed and widened; the stored type, and the bytes of a stored row of codes
    (None: as many elements as there are values)."""

    narrow: Op
    widen: Op
    dtype: DType
    row: int | None = None


def _choose_conversion(graph: Graph, cache: _Cache, form: str) -> _Conversion:
    bits = _CODE_BITS.get(form)
    if bits is None:
        dtype = DType(form)
        return _Conversion(Convert(dtype), Convert(DType.f32), dtype)
    shape, op = graph.tensor(Value(cache.concat)).shape, graph.op(cache.concat)
    size = shape[-1] if shape else None
    layout = RowCodes(size, bits) if isinstance(size, int) else None
    assert isinstance(op, Concat)
    if layout is None or not layout.is_valid or shape is None or op.axis in (-1, len(shape) - 1):
        raise UnsupportedOperationError(
            "keys or values of this model have no codes of this form",
            where=graph.node(cache.read).name,
            got=f"kv_cache={form!r} for rows of {size}",
            expected=f"heads of a size that {ROW_MULTIPLE[bits]} divides",
            fix="use kv_cache='f16'",
        )
    return _Conversion(QuantizeRows(bits), DequantizeRows(bits), DType.u8, layout.nbytes)


def _convert_cache(graph: Graph, cache: _Cache, conversion: _Conversion) -> None:
    def convert(value: Value, by: Op) -> Value:
        return Value(graph.add(by, [value], name=graph.node(value.node).name))

    uses = [u for u in graph.uses(Value(cache.concat)) if u.node != cache.assign]
    uses += graph.uses(Value(cache.assign))
    past_uses = [u for u in graph.uses(cache.past) if u.node != cache.concat]
    op = graph.op(cache.read)
    assert isinstance(op, ReadValue)
    inputs = graph.inputs(cache.read)
    first = [] if not inputs or inputs[0] is None else [convert(inputs[0], conversion.narrow)]
    shape = op.variable_shape
    if conversion.row is not None:
        shape = _replace_last_size(shape, conversion.row)
    narrow = ReadValue(op.variable_id, conversion.dtype, shape)
    _replace(graph, cache.read, narrow, first)
    fresh = graph.input(cache.concat, 1)
    graph.connect(convert(fresh, conversion.narrow), Use(cache.concat, 1))
    for value, listed in ((Value(cache.concat), uses), (cache.past, past_uses)):
        if listed:
            wide = convert(value, conversion.widen)
            for use in listed:
                graph.connect(wide, use)


def _replace_last_size(text: str, size: int) -> str:
    """OpenVINO's text of a shape with another last size; `...` stays."""
    if text.strip().strip("[]").strip() == "...":
        return text
    return ",".join([*text.strip().strip("[]").split(",")[:-1], str(size)])


def _replace(graph: Graph, node: int, op: Op, inputs: list[Value]) -> None:
    """Give a node another operation and its inputs."""
    graph.node(node).op = op
    for port, value in enumerate(inputs):
        graph.connect(value, Use(node, port))
