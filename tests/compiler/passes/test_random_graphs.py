"""Random graphs: the pipeline's result computes what the graph computes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import PASSES, optimize
from irc_compiler.compiler.rewrite.engine import run_pass
from irc_compiler.compiler.rewrite.trace import Trace
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import ExecutionError, ShapeError
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_node
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.op import Op
from irc_compiler.ir.ops import (
    Add,
    Clamp,
    Constant,
    Convert,
    Divide,
    Erf,
    Gelu,
    Identity,
    MatMul,
    Maximum,
    Multiply,
    Negative,
    Parameter,
    PRelu,
    ReduceMean,
    Relu,
    Reshape,
    Result,
    ShapeOf,
    Sigmoid,
    Softmax,
    SoftPlus,
    Sqrt,
    Squeeze,
    Subtract,
    Tanh,
    Transpose,
    Unsqueeze,
)
from irc_compiler.ir.text.graph_text import print_graph
from irc_compiler.ir.types import TensorType
from support.rewriting import random_inputs

UNARY: list[Op] = [
    *(Relu(), Sigmoid(), Tanh(), Erf(), Gelu("ERF"), Negative(), Identity(), SoftPlus()),
    *(Clamp(-1.0, 1.0), Softmax(-1), Convert(DType.f16), Convert(DType.f32)),
]
BINARY: list[Op] = [Add(), Subtract(), Multiply(), Maximum(), Add(), Multiply(), MatMul(), MatMul()]
NUMBERS = [0.0, -0.0, 1.0, 0.5, 2.0, -1.0, 3.0, 0.7071067690849304]
SHAPES = [(3, 3), (3,), (1, 3), (2, 3, 3), (3, 1), ()]


@dataclass
class Maker:
    """Draws a graph node by node; what does not type-check is left out."""

    draw: st.DrawFn
    graph: Graph = field(default_factory=lambda: Graph("random"))
    values: list[Value] = field(default_factory=list[Value])

    def add(self, op: Op, *inputs: Value) -> Value | None:
        node = self.graph.add(op, inputs, name=f"{op.kind}{len(self.values)}")
        try:
            infer_node(self.graph, node)
        except ShapeError:
            self.graph.remove(node)
            return None
        self.values.append(Value(node))
        return Value(node)

    def pick(self) -> Value:
        """A value made so far: a late one more often, so that chains become long."""
        back = self.draw(st.integers(1, min(len(self.values), 4)))
        early = self.draw(st.integers(0, 9)) == 0
        return self.values[0 if early else -back]

    def constant(self, data: object, dtype: DType = DType.f32) -> Value:
        array = np.asarray(data).astype(dtype.numpy)
        node = self.graph.add(Constant.of(array, dtype))
        infer_node(self.graph, node)
        return Value(node)

    def shape(self, value: Value) -> tuple[object, ...]:
        type_ = self.graph.type(value)
        assert isinstance(type_, TensorType) and type_.shape is not None
        return type_.shape

    def step(self) -> None:
        kind = self.draw(st.integers(0, 14))
        x = self.pick()
        rank = len(self.shape(x))
        if kind <= 2:
            self.add(self.draw(st.sampled_from(UNARY)), x)
        elif kind <= 5:
            self.add(self.draw(st.sampled_from(BINARY)), x, self.pick())
        elif kind == 6:
            number = self.constant(self.draw(st.sampled_from(NUMBERS)))
            op = self.draw(st.sampled_from([Add(), Subtract(), Multiply(), Divide(), PRelu()]))
            if not (op == Divide() and float(self.graph.op(number.node).data) == 0):
                self.add(op, x, number)
        elif kind == 7:
            shape = self.draw(st.sampled_from(SHAPES))
            seed = self.draw(st.integers(0, 9))
            weight = self.constant(np.random.default_rng(seed).integers(-2, 3, shape))
            op = self.draw(st.sampled_from([Add(), Multiply(), MatMul(), MatMul(False, True)]))
            self.add(op, *((x, weight) if self.draw(st.booleans()) else (weight, x)))
        elif kind == 8 and rank > 1:
            order = self.draw(st.permutations(range(rank)))
            self.add(Transpose(), x, self.constant(order, DType.i64))
        elif kind == 9:
            axis = self.constant([self.draw(st.integers(0, rank))], DType.i64)
            self.add(self.draw(st.sampled_from([Unsqueeze(), Squeeze()])), x, axis)
        elif kind == 10:
            like = self.add(ShapeOf(), self.pick())
            if like is not None:
                self.values.pop()
                self.add(Reshape(), x, like)
        elif kind == 11 and rank:
            self.norm(x)
        elif rank:
            self.product(x)

    def product(self, x: Value) -> None:
        """A product, perhaps of transposed operands, and what exporters write behind it."""
        seed = self.draw(st.integers(0, 9))
        weight = self.constant(np.random.default_rng(seed).integers(-2, 3, (3, 3)))
        if self.draw(st.booleans()):
            weight = self.add(Transpose(), weight, self.constant([1, 0], DType.i64)) or weight
        value = self.add(MatMul(False, self.draw(st.booleans())), x, weight)
        for _ in range(self.draw(st.integers(0, 4))):
            if value is None:
                return
            kind = self.draw(st.integers(0, 5))
            rank = len(self.shape(value))
            if kind == 0:
                number = self.constant(self.draw(st.sampled_from([2.0, 0.25, 0.3])))
                value = self.add(self.draw(st.sampled_from([Multiply(), Divide()])), value, number)
            elif kind <= 2:
                shape = self.draw(st.sampled_from([(3,), (3, 3), (1,)]))
                bias = self.constant(np.random.default_rng(seed).integers(-2, 3, shape))
                swap = self.draw(st.booleans())
                pair = (bias, value) if swap else (value, bias)
                value = self.add(self.draw(st.sampled_from([Add(), Subtract()])), *pair)
            elif kind == 3:
                value = self.add(Add(), value, self.pick())
            elif kind == 4:
                value = self.add(self.draw(st.sampled_from(UNARY)), value)
            elif rank > 1:
                order = [*range(rank - 2), rank - 1, rank - 2]
                value = self.add(Transpose(), value, self.constant(order, DType.i64))

    def norm(self, x: Value) -> None:
        """A normalisation in primitive operations, over any axis."""
        axis = self.constant([self.draw(st.integers(-1, 0))], DType.i64)
        mean = self.add(ReduceMean(True), x, axis)
        centred = mean and self.add(Subtract(), x, mean)
        square = centred and self.add(Multiply(), centred, centred)
        variance = square and self.add(ReduceMean(True), square, axis)
        inside = variance and self.add(Add(), variance, self.constant(0.5))
        root = inside and self.add(Sqrt(), inside)
        if root and centred:
            self.add(Divide(), centred, root)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    maker = Maker(draw)
    sizes = ["N", 3] if draw(st.booleans()) else [3, 3]
    from irc_compiler.ir.dims import symbol

    for name in ("x", "y"):
        shape = tuple(symbol(s) if isinstance(s, str) else s for s in sizes)
        maker.add(Parameter(DType.f32, shape))
        maker.graph.node(maker.values[-1].node).name = name
    for _ in range(draw(st.integers(1, 10))):
        maker.step()
    for value in {maker.values[-1], maker.pick()}:
        node = maker.graph.add(Result(), [value])
        infer_node(maker.graph, node)
    return maker.graph


def finite_outputs(graph: Graph) -> tuple[list[np.ndarray], list[np.ndarray]]:
    inputs = random_inputs(graph, seed=1)
    # Away from 0, and small: long chains of products stay within the range of f16.
    inputs = [(np.sign(a) * (0.25 + np.abs(a) / 4)).astype(a.dtype) for a in inputs]
    try:
        return inputs, interpret(graph, inputs)
    except (ExecutionError, ShapeError):
        reject()  # sizes of N that inference could not rule out


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(graphs())
def test_the_pipeline_keeps_meaning(graph: Graph) -> None:
    inputs, expected = finite_outputs(graph)
    exact = graph.copy()
    trace = optimize(graph, Options(verify=True))
    found = interpret(graph, inputs)
    for a, b in zip(expected, found, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        half = a.dtype == np.float16 or any(
            isinstance(t := exact.type(Value(n)), TensorType) and t.dtype is DType.f16
            for n in exact.ids()
        )
        scale = float(np.max(np.abs(a[np.isfinite(a)]), initial=1.0))
        tolerance = (2e-2 if half else 2e-4) * scale
        np.testing.assert_allclose(a, b, rtol=2e-2 if half else 1e-3, atol=tolerance)
    assert [str(graph.type(Value(r))) for r in graph.results]
    assert sum(trace.hits().values()) < 200


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(graphs())
def test_every_pass_is_idempotent(graph: Graph) -> None:
    finite_outputs(graph)  # leaves out graphs that no sizes can run, which a pass may find out
    for each in PASSES:
        run_pass(graph, each, Options(verify=True), Trace())
        once = print_graph(graph)
        again = Trace()
        assert run_pass(graph, each, Options(verify=True), again) == 0, again.hits()
        assert print_graph(graph) == once
