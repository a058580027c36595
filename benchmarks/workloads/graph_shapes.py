"""Models whose graphs have one shape each and about a given number of nodes (scaling.py).

A builder's tensors are small, so that reading and compiling, not running, take the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from irc_compiler.compiler.model import Model
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.op import Op
from irc_compiler.ir.ops import (
    Activation,
    Add,
    Concat,
    Constant,
    Convert,
    Convolution,
    Gemm,
    If,
    MatMul,
    Multiply,
    NonZero,
    Parameter,
    Reshape,
    Result,
    Softmax,
    Split,
    Subtract,
    TensorIterator,
)
from irc_compiler.ir.ops.control_flow.loops import BodyInput, BodyOutput

# Elements per row of every tensor.
WIDTH: Final = 8
# Bodies within bodies; the readers' limit for ONNX is 16.
NESTING_DEPTH: Final = 12


class Builder:
    """A graph that grows; `model` infers it."""

    def __init__(self, name: str = "") -> None:
        self.graph = Graph(name)

    def parameter(self, *shape: int, dtype: DType = DType.f32) -> Value:
        """An input."""
        name = f"x{len(self.graph.parameters)}"
        made = self.graph.add(Parameter(dtype, shape), name=name, names=[frozenset([name])])
        return Value(made)

    def constant(self, *shape: int, value: float = 0.5) -> Value:
        """A constant that is not a single number, so that nothing inlines it."""
        data = value + np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 64
        return self.add(Constant.of(data, DType.f32))

    def integers(self, *values: int) -> Value:
        """A list of integers."""
        return self.add(Constant.of(np.array(values, np.int64), DType.i64))

    def add(self, op: Op, *inputs: Value) -> Value:
        """The first output of a new node."""
        return Value(self.graph.add(op, inputs, name=f"{op.kind}_{len(self.graph)}"))

    def result(self, value: Value) -> None:
        """An output."""
        name = f"y{len(self.graph.results)}"
        self.graph.add(Result(), [value], name=name, names=[frozenset([name])])

    def sum_of(self, values: Sequence[Value]) -> Value:
        """The sum of values as a balanced tree."""
        layer = list(values)
        while len(layer) > 1:
            pairs = [self.add(Add(), a, b) for a, b in zip(layer[::2], layer[1::2], strict=False)]
            layer = pairs + layer[2 * len(pairs) :]
        return layer[0]

    def model(self) -> Model:
        """The model."""
        infer_graph(self.graph)
        return Model(self.graph)


def chain(nodes: int) -> Model:
    """One elementwise operation after the other; all of them read one constant."""
    b = Builder("chain")
    x, c = b.parameter(4, WIDTH), b.constant(WIDTH)
    for i in range(nodes):
        x = b.add((Subtract(), Multiply())[i % 2], x, c)
    b.result(x)
    return b.model()


def fan_out(nodes: int) -> Model:
    """One weight that every product reads, and one input of which every left operand is made."""
    b = Builder("fan-out")
    x, w = b.parameter(4, WIDTH), b.constant(WIDTH, WIDTH)
    products = [
        b.add(MatMul(), b.add(Multiply(), x, b.constant(WIDTH, value=i + 1)), w)
        for i in range(nodes // 4)
    ]
    b.result(b.sum_of(products))
    return b.model()


def fan_in(nodes: int) -> Model:
    """One Concat of many branches."""
    b = Builder("fan-in")
    x = b.parameter(4, WIDTH)
    parts = [b.add(Softmax(1), b.add(Multiply(), x, b.constant(WIDTH, value=i + 1)))
             for i in range(nodes // 3)]  # fmt: skip
    b.result(b.add(Concat(1), *parts))
    return b.model()


def many_outputs(nodes: int) -> Model:
    """One value that every output of the model is."""
    b = Builder("many outputs")
    value = b.add(Activation("relu"), b.parameter(4, WIDTH))
    for _ in range(nodes):
        b.result(value)
    return b.model()


def many_kernels(nodes: int) -> Model:
    """Kernels that differ in their sizes: as many as a quarter of the nodes."""
    b = Builder("many kernels")
    for i in range(nodes // 4):
        x = b.parameter(2, i + 2)
        b.result(b.add(Softmax(1), b.add(Activation("relu"), x)))
    return b.model()


def nesting(nodes: int, depth: int = NESTING_DEPTH) -> Model:
    """If within If; every body has its share of the nodes."""
    share = max(1, nodes // (2 * depth))
    inner: Graph | None = None
    for level in range(depth + 1):
        b = Builder(f"nesting {level}")
        condition = b.parameter(dtype=DType.boolean)
        x, c = b.parameter(4, WIDTH), b.constant(WIDTH)
        for i in range(share):
            x = b.add((Subtract(), Multiply())[i % 2], x, c)
        if inner is not None:
            ports = (0, 1)
            other = _branch(share)
            x = b.add(If(inner, other, ports, ports, (0,), (0,)), condition, x)
        b.result(x)
        infer_graph(b.graph)
        inner = b.graph
    assert inner is not None
    return Model(inner)


def _branch(share: int) -> Graph:
    b = Builder("else")
    b.parameter(dtype=DType.boolean)
    x, c = b.parameter(4, WIDTH), b.constant(WIDTH)
    for _ in range(share):
        x = b.add(Add(), x, c)
    b.result(x)
    infer_graph(b.graph)
    return b.graph


def split_into(parts: int) -> Model:
    """One Split whose every part is computed with."""
    b = Builder("split")
    x = b.parameter(4, parts * WIDTH)
    axis = b.add(Constant.of(np.array(1, np.int64), DType.i64))
    split = b.graph.add(Split(parts), [x, axis], name="split")
    for port in range(parts):
        b.result(b.add(Softmax(1), Value(split, port)))
    return b.model()


SHAPES: Final[dict[str, Callable[[int], Model]]] = {
    "chain": chain,
    "fan-out": fan_out,
    "fan-in": fan_in,
    "many outputs": many_outputs,
    "many kernels": many_kernels,
    "deep nesting": nesting,
}


def products_of_one(nodes: int) -> Model:
    """Products of one value with constant weights, of which no two can be one product."""
    b = Builder("products of one value")
    x, shape = b.parameter(4, WIDTH), b.integers(4, 2, WIDTH // 2)
    for i in range(nodes // 5):
        product = b.add(Gemm(alpha=1 + i / 64), x, b.constant(WIDTH, WIDTH, value=i))
        b.result(b.add(Activation("relu"), b.add(Reshape(False), product, shape)))
    return b.model()


def shared_concats(nodes: int) -> Model:
    """Concats of one value, which all read, with others; each holds the Concat before it."""
    b = Builder("shared concats")
    x = b.parameter(1, WIDTH)
    shared = joined = b.add(Softmax(1), x)
    for i in range(nodes // 6):
        scaled = b.add(Multiply(), x, b.constant(WIDTH, value=i))
        b.result(b.add(Concat(0), b.add(Softmax(1), scaled), shared))
        joined = b.add(Concat(0), joined, shared) if i % 64 else shared
    b.result(joined)
    return b.model()


def regions(nodes: int) -> Model:
    """Values whose shapes depend on data: as many regions as a fifth of the nodes."""
    b = Builder("regions")
    x = b.parameter(WIDTH)
    for i in range(nodes // 6):
        found = b.add(NonZero(), b.add(Multiply(), x, b.constant(WIDTH, value=i - 1)))
        b.result(b.add(Softmax(1), b.add(Convert(DType.f32), found)))
    return b.model()


def branches(nodes: int) -> Model:
    """One If after the other."""
    b = Builder("branches")
    condition, x = b.parameter(dtype=DType.boolean), b.parameter(4, WIDTH)
    ports = (0, 1)
    for _ in range(nodes // 9):
        ways = [_body(op, 4) for op in (Softmax(1), Activation("relu"))]
        x = b.add(If(*ways, ports, ports, (0,), (0,)), condition, x)
    b.result(x)
    return b.model()


def loops(nodes: int) -> Model:
    """One loop over rows after the other."""
    b = Builder("loops")
    x = b.parameter(4, WIDTH)
    given = BodyInput("invariant", 0), BodyInput("sliced", 1)
    condition = b.parameter(dtype=DType.boolean)
    for _ in range(nodes // 5):
        x = b.add(
            TensorIterator(_body(Softmax(1), 1), given, (BodyOutput("joined", 0),)), condition, x
        )
    b.result(x)
    return b.model()


def _body(op: Op, rows: int) -> Graph:
    b = Builder("body")
    b.parameter(dtype=DType.boolean)
    b.result(b.add(op, b.parameter(rows, WIDTH)))
    infer_graph(b.graph)
    return b.graph


def long_convolution(places: int) -> Model:
    """A 1D convolution over many places of a fixed size."""
    b = Builder("long convolution")
    x = b.parameter(1, 1, places)
    op = Convolution((1,), (1,), (1,), (1,))
    b.result(b.add(op, x, b.constant(2, 1, 3)))
    return b.model()


# Further graphs of which a pass or a table once took quadratic time.
MORE_SHAPES: Final[dict[str, Callable[[int], Model]]] = {
    "split": split_into,
    "products of one": products_of_one,
    "shared concats": shared_concats,
    "regions": regions,
    "branches": branches,
    "loops": loops,
}

# Graphs that once took minutes, each with the sizes that it took them at.
CASES: Final[dict[str, Callable[[int], Model]]] = {
    "16000 operations, one constant": lambda _: chain(16_000),
    "4000 products of one weight": lambda _: fan_out(16_000),
    "2000 outputs of one value": lambda _: many_outputs(2000),
    "Concat of 2000 branches": lambda _: fan_in(6000),
    "Split into 1000 parts": lambda _: split_into(1000),
    "Conv1D over 10^7 places": lambda _: long_convolution(10_000_000),
}


def count_nodes(graph: Graph) -> int:
    """The nodes of a graph and of all bodies in it."""
    inside = (body for n in graph.ids() for body in graph.op(n).bodies())
    return len(graph) + sum(map(count_nodes, inside))
