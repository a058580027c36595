"""Tensors of a graph that grows, and the model that they become."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..compiler.model import Model
from ..ir import ops as o
from ..ir.dims import Dim, symbol
from ..ir.dtype import DType
from ..ir.errors import InputError, UsageError
from ..ir.graph import Graph, Node, Value
from ..ir.infer import infer_node, infer_record
from ..ir.op import Fact, Op
from ..ir.scalar.builder import cast_array
from ..ir.types import TensorType, Type, coerce_to_dtype

_serial = itertools.count()


class Tensor:
    """One output of one operation. `+ - * / @ **` and unary minus work on it; `==` is identity."""

    __array_ufunc__ = None  # so that `array + tensor` calls the tensor's method

    def __init__(self, record: Node, inputs: tuple[Tensor | None, ...], port: int = 0) -> None:
        self._record, self._inputs, self._port = record, inputs, port
        self._serial = next(_serial)

    @property
    def type(self) -> Type:
        """Element type and shape."""
        return self._record.types[self._port]

    @property
    def dtype(self) -> str:
        """OpenVINO's name of the element type."""
        return self._dtype.value

    @property
    def shape(self) -> tuple[int | str, ...] | None:
        """An int or a symbol's text per axis; None for an unknown rank."""
        shape = self._tensor_type.shape
        return None if shape is None else tuple(d if isinstance(d, int) else str(d) for d in shape)

    @property
    def _tensor_type(self) -> TensorType:
        return self._fact.tensor

    @property
    def _dtype(self) -> DType:
        return self._tensor_type.dtype

    @property
    def _fact(self) -> Fact:
        return Fact(self.type, self._record.known[self._port])

    def __add__(self, other: Like) -> Tensor:
        return add_op(o.Add(), self, other)

    def __radd__(self, other: Like) -> Tensor:
        return add_op(o.Add(), other, self)

    def __sub__(self, other: Like) -> Tensor:
        return add_op(o.Subtract(), self, other)

    def __rsub__(self, other: Like) -> Tensor:
        return add_op(o.Subtract(), other, self)

    def __mul__(self, other: Like) -> Tensor:
        return add_op(o.Multiply(), self, other)

    def __rmul__(self, other: Like) -> Tensor:
        return add_op(o.Multiply(), other, self)

    def __truediv__(self, other: Like) -> Tensor:
        return add_op(o.Divide(m_pythondiv=False), self, other)

    def __rtruediv__(self, other: Like) -> Tensor:
        return add_op(o.Divide(m_pythondiv=False), other, self)

    def __pow__(self, other: Like) -> Tensor:
        return add_op(o.Power(), self, other)

    def __matmul__(self, other: Like) -> Tensor:
        return add_op(o.MatMul(), self, other)

    def __rmatmul__(self, other: Like) -> Tensor:
        return add_op(o.MatMul(), other, self)

    def __neg__(self) -> Tensor:
        return add_op(o.Negative(), self)

    def __repr__(self) -> str:
        return f"<irc_compiler.builder.Tensor {self._record.op.kind} {self.type}>"


Like: TypeAlias = "Tensor | npt.ArrayLike"

# What enters ----------------------------------------------------------------------------------


def parameter(
    name: str, shape: Sequence[int | str | None] | None, dtype: str | DType = "f32"
) -> Tensor:
    """An input of the model. A size is an int, the name of a symbol (equal names are equal sizes)
    or None for one of its own; `shape` None is an unknown rank."""
    check_name(name, "the input")
    dims = None if shape is None else tuple(_dim(name, i, d) for i, d in enumerate(shape))
    op = o.Parameter(element_type(dtype), dims)
    return add_node(op, (), name, [frozenset([name])])[0]


def constant(data: npt.ArrayLike, dtype: str | DType | None = None, *, name: str = "") -> Tensor:
    """An array of its own element type, or cast to `dtype` as Convert casts."""
    check_name(name, "the constant")
    array = np.asarray(data)
    try:
        own = DType.from_numpy(array.dtype)
    except TypeError as error:
        raise InputError(
            "no element type for this array",
            where=name,
            got=array.dtype,
            expected="numbers, booleans or strings",
        ) from error
    wanted = own if dtype is None else element_type(dtype)
    fresh = np.array(
        array if own is wanted else coerce_to_dtype(cast_array(array, wanted), wanted), order="C"
    )
    fresh.flags.writeable = False
    return add_node(o.Constant.of(fresh, wanted), (), name)[0]


def apply(op: Op, *inputs: Like | None, name: str = "") -> Any:
    """Any operation of irc_compiler.ir.ops: a Tensor, or a tuple of them where it has several
    outputs."""
    made = add_node(op, as_tensors(inputs), name)
    return made[0] if len(made) == 1 else made


def model(
    outputs: Tensor | Sequence[Tensor] | Mapping[str, Tensor],
    *,
    inputs: Sequence[Tensor] | None = None,
    name: str = "model",
) -> Model:
    """The model that computes `outputs` (named by a mapping's keys, else output_0, ...).

    inputs: the parameters in the order of calls (default: as they were made; one that no output
    needs belongs to the model only where it is listed). UsageError for two inputs of one name.
    """
    if isinstance(outputs, Mapping):
        named = dict(outputs)
    else:
        listed = [outputs] if isinstance(outputs, Tensor) else outputs
        named = {f"output_{i}": value for i, value in enumerate(listed)}
    order = _producers_first([*(inputs or ()), *named.values()])
    given = [t for t in order if isinstance(t._record.op, o.Parameter)]
    given.sort(key=lambda t: t._serial)
    if inputs is not None:
        _check_inputs(inputs, given)
        given = list(inputs)
    if len({t._record.name for t in given}) < len(given):
        names = [t._record.name for t in given]
        raise UsageError("two inputs have one name", got=names, expected="a name for each")
    check_name(name, "the model")
    for key in named:
        check_name(key, "the output")
    graph, nodes = Graph(name), dict[int, int]()
    for tensor in [*given, *order]:
        record = tensor._record
        if id(record) in nodes:
            continue
        values = [None if t is None else Value(nodes[id(t._record)], t._port)
                  for t in tensor._inputs]  # fmt: skip
        label = record.name or f"{record.op.kind}_{len(nodes)}"
        node = graph.add(record.op, values, name=label, names=record.names)
        infer_node(graph, node)
        nodes[id(record)] = node
    for key, tensor in named.items():
        value = Value(nodes[id(tensor._record)], tensor._port)
        graph.node(value.node).names[value.port] |= {key}
        node = graph.add(o.Result(), [value], name=f"{key}/result", names=[frozenset([key])])
        infer_node(graph, node)
    return Model(graph)


# Inside ---------------------------------------------------------------------------------------


def add_op(op: Op, *inputs: Like | None) -> Tensor:
    return add_node(op, as_tensors(inputs))[0]


def add_node(
    op: Op,
    inputs: Sequence[Tensor | None],
    name: str = "",
    names: Sequence[frozenset[str]] = (),
) -> tuple[Tensor, ...]:
    given = tuple(inputs)
    while given and given[-1] is None:
        given = given[:-1]
    listed = [*names, *[frozenset[str]()] * (op.output_count() - len(names))]
    record = Node(op, name, names=listed)
    infer_record(record, [None if t is None else t._fact for t in given], f"t{next(_serial)}")
    return tuple(Tensor(record, given, port) for port in range(op.output_count()))


def as_tensors(inputs: Sequence[Like | None]) -> tuple[Tensor | None, ...]:
    """Arrays as constants; plain numbers get the element type of the first tensor or array."""
    partner: DType | None = None
    for value in inputs:
        if isinstance(value, Tensor):
            partner = value._dtype
        elif isinstance(value, np.ndarray | np.generic):
            partner = constant(value)._dtype
        if partner is not None:
            break
    made: list[Tensor | None] = []
    for value in inputs:
        if value is None or isinstance(value, Tensor):
            made.append(value)
        else:
            exact = isinstance(value, np.ndarray | np.generic)
            made.append(constant(value, None if exact else partner))
    return tuple(made)


def as_ints(values: int | Sequence[int] | Tensor) -> Tensor:
    if isinstance(values, Tensor):
        return values
    return constant(np.array([values] if isinstance(values, int) else list(values), np.int64))


def _dim(name: str, axis: int, size: int | str | None) -> Dim:
    if size is None or size == -1:
        return symbol(f"{name}.{axis}")
    if isinstance(size, str):
        check_name(size, f"the size of axis {axis}")
        return symbol(size)
    return int(size)


def check_name(name: str, what: str) -> None:
    """UsageError unless files can hold the name: a string that UTF-8 encodes."""
    try:
        name.encode("utf-8")
    except (AttributeError, UnicodeEncodeError) as error:
        raise UsageError(
            f"invalid name of {what}",
            got=ascii(name),
            expected="a string without lone surrogates (files store names in UTF-8)",
        ) from error


def element_type(dtype: str | DType) -> DType:
    try:
        return DType(dtype)
    except ValueError as error:
        expected = ", ".join(t.value for t in DType)
        raise InputError("unknown element type", got=dtype, expected=expected) from error


def _producers_first(roots: Sequence[Tensor]) -> list[Tensor]:
    order: list[Tensor] = []
    done: set[int] = set()
    stack = [(tensor, False) for tensor in reversed(roots)]
    while stack:
        tensor, ready = stack.pop()
        if ready:
            order.append(tensor)
        elif id(tensor._record) not in done:
            done.add(id(tensor._record))
            stack.append((tensor, True))
            stack += [(t, False) for t in reversed(tensor._inputs) if t is not None]
    return order


def _check_inputs(inputs: Sequence[Tensor], needed: Sequence[Tensor]) -> None:
    listed = {id(t._record) for t in inputs}
    missing = [t._record.name for t in needed if id(t._record) not in listed]
    wrong = [repr(t) for t in inputs if not isinstance(t._record.op, o.Parameter)]
    if missing or wrong:
        raise UsageError("the list of inputs does not fit the model",
                         got=wrong or None, expected=f"also {', '.join(missing)}" if missing else
                         "parameters")  # fmt: skip
