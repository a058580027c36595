"""Runs a graph by `evaluate`, node by node: oracle, folding, and the fallback of every op.

Nothing here recurses over nodes; a value is dropped after its last use. Control flow evaluates
its bodies by calling `interpret` again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .dims import Dim, Symbol, eq, plain_symbol
from .dtype import DType
from .errors import Error, ExecutionError, InputError, MemoryLimitError
from .graph import Graph, Node, Value
from .input_check import evaluate_bounded, refuse_unfit
from .limits.memory_budget import Budget, active_budget, use_budget, value_bytes
from .types import TensorType, coerce_to_dtype, native_order

# Results pass a value on, and constants are part of the model.
_WITHOUT_MEMORY = frozenset({"Constant", "Result"})
Inputs = Sequence[Any] | Mapping[str, Any]


def interpret(
    graph: Graph,
    inputs: Inputs = (),
    deliver: Callable[[int, Any], None] | None = None,
    *,
    max_memory: int | None = None,
) -> list[Any]:
    """The outputs of an inferred graph, in the order of its results; or, one by one as they are
    known, to `deliver` with their position there: nothing is kept then, and the list is empty.

    `inputs` are arrays in the order of the parameters, or by name (a parameter's tensor names or
    its node's name). max_memory: bytes that computed values may take together (default: as of
    compiled models; inside a call, what that has left). Raises InputError where inputs don't fit,
    ExecutionError naming the node where an operation fails, MemoryLimitError.
    """
    budget = active_budget() if max_memory is None else Budget(max_memory)
    with use_budget(budget), budget.charge_temporarily():
        return _interpret(graph, inputs, deliver, budget)


def _interpret(
    graph: Graph, inputs: Inputs, deliver: Callable[[int, Any], None] | None, budget: Budget
) -> list[Any]:
    values = dict(zip(map(Value, graph.parameters), bind_inputs(graph, inputs), strict=True))
    order = graph.order()
    left = _use_counts(graph, order)
    outputs: dict[int, Any] = {}
    indices = {node: n for n, node in enumerate(graph.results)}
    sizes: dict[Value, int] = {}
    returned = {graph.input(node, 0) for node in graph.results} if deliver is None else set[Value]()

    def drop(value: Value) -> None:
        values.pop(value, None)
        if value not in returned:
            budget.used -= sizes.pop(value, 0)

    for node in order:
        op = graph.op(node)
        sources = graph.inputs(node)
        if node not in graph.parameters:
            arrays = [None if source is None else values[source] for source in sources]
            for port, array in enumerate(_evaluate(graph.node(node), arrays)):
                value = Value(node, port)
                values[value] = array
                if op.kind not in _WITHOUT_MEMORY:
                    budget.charge(
                        size := value_bytes(array), where=_describe_origin(graph.node(node))
                    )
                    sizes[value] = size
        if deliver is not None and node in indices:
            deliver(indices[node], values.pop(Value(node)))
        elif op.kind == "Result":
            outputs[node] = values[Value(node)]
        for source in sources:
            if source is not None:
                left[source] -= 1
                if not left[source]:
                    drop(source)
        for value in graph.values(node):
            if not left.get(value):
                drop(value)
    return [outputs[node] for node in graph.results] if deliver is None else []


def bind_inputs(graph: Graph, inputs: Inputs) -> list[Any]:
    """One array per parameter, checked against element type, rank and sizes.

    Raises InputError naming missing, unknown and unfit inputs.
    """
    arrays = _by_name(graph, inputs) if isinstance(inputs, Mapping) else list(inputs)
    if len(arrays) != len(graph.parameters):
        raise InputError(
            "the number of inputs is wrong", got=len(arrays), expected=len(graph.parameters)
        )
    sizes: dict[Symbol, int] = {}
    return [
        _check_result(graph.node(parameter), native_order(array), sizes)
        for parameter, array in zip(graph.parameters, arrays, strict=True)
    ]


def _by_name(graph: Graph, inputs: Mapping[str, Any]) -> list[Any]:
    left = dict(inputs)
    arrays: list[Any] = []
    missing: list[str] = []
    for parameter in graph.parameters:
        record = graph.node(parameter)
        accepted = [*sorted(record.names[0]), record.name]
        given = next((name for name in accepted if name in left), None)
        if given is None:
            missing.append(accepted[0])
        else:
            arrays.append(left.pop(given))
    if missing:
        raise InputError("inputs are missing", got=sorted(inputs), expected=", ".join(missing))
    if left:
        known = [min(graph.node(p).names[0] or {graph.node(p).name}) for p in graph.parameters]
        raise InputError("there are no such inputs", got=sorted(left), expected=", ".join(known))
    return arrays


def _check_result(record: Node, array: Any, sizes: dict[Symbol, int]) -> Any:
    type_ = record.types[0]
    if not isinstance(type_, TensorType):
        return array
    array = np.asarray(array)
    name = min(record.names[0] or {record.name})
    got = TensorType(type_.dtype, array.shape)
    if type_.dtype is not DType.dynamic and array.dtype != type_.dtype.numpy:
        raise InputError(f"input {name!r} has the wrong type", got=array.dtype, expected=type_)
    if type_.shape is None:
        return array
    if len(type_.shape) != array.ndim or not all(
        _may_be_size(declared, size, sizes)
        for declared, size in zip(type_.shape, array.shape, strict=True)
    ):
        raise InputError(f"input {name!r} has the wrong shape", got=got, expected=type_)
    return array


def _may_be_size(declared: Dim, size: int, sizes: dict[Symbol, int]) -> bool:
    symbol = plain_symbol(declared)
    if symbol is not None and sizes.setdefault(symbol, size) != size:
        return False
    return eq(declared, size) is not False


def _use_counts(graph: Graph, order: Sequence[int]) -> dict[Value, int]:
    counts: dict[Value, int] = {}
    for node in order:
        for source in graph.inputs(node):
            if source is not None:
                counts[source] = counts.get(source, 0) + 1
    return counts


def _array(value: Any) -> Any:
    """NumPy makes scalars of arrays without axes."""
    return np.asarray(value) if np.isscalar(value) and not isinstance(value, str) else value


def _describe_origin(record: Node) -> str:
    return record.origin or f"{record.op.kind} {record.name!r}"


def _evaluate(record: Node, arrays: list[Any]) -> tuple[Any, ...]:
    where = _describe_origin(record)
    dtypes = [t.dtype if isinstance(t, TensorType) else DType.dynamic for t in record.types]
    try:
        # Floating-point warnings are not errors of a model: infinities and NaN are values.
        with np.errstate(all="ignore"), active_budget().charge_temporarily():
            if record.op.kind in _WITHOUT_MEMORY:
                outputs = record.op.evaluate(*record.op.slots(arrays, running=True))
            else:
                outputs = evaluate_bounded(record.op, arrays, where)
            refuse_unfit(record.op, arrays)
            limit = partial(coerce_to_dtype, saturates=record.op.saturates)
            return tuple(map(limit, map(_array, outputs), dtypes))
    except Error as error:
        if error.where is not None:
            raise
        raise type(error)(
            error.what, where=where, got=error.got, expected=error.expected, fix=error.fix
        ) from error
    except MemoryError as error:
        raise MemoryLimitError(
            "an operation needs more memory than the system gives",
            where=where,
            got=str(error)[:300],
        ) from error
    except (ValueError, TypeError, LookupError, ArithmeticError, AssertionError) as error:
        raise ExecutionError(
            f"{record.op.kind} failed while it was evaluated", where=where, got=str(error)[:300]
        ) from error
