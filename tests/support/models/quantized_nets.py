"""Graphs with quantised chains, and what their passes are to leave of them."""

from __future__ import annotations

from typing import Any

import irc_compiler.ir.ops as o
import numpy as np
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_node
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.op import Array, Op

from support.rewriting import run, traced


class Net:
    """A graph under construction; every node is inferred at once."""

    def __init__(self) -> None:
        self.graph, self.rng = Graph("net"), np.random.default_rng(0)

    def op(self, op: Op, *inputs: Value | None) -> Value:
        node = self.graph.add(op, inputs, name=f"n{len(self.graph)}")
        infer_node(self.graph, node)
        return Value(node)

    def input(self, dtype: str, *shape: Any) -> Value:
        return self.op(o.Parameter(DType(dtype), shape))

    def array(self, data: Any, dtype: str = "f32") -> Value:
        kind = DType(dtype)
        return self.op(o.Constant.of(np.asarray(data).astype(kind.numpy), kind))

    def bytes(self, dtype: str, *shape: int) -> Value:
        low, high = {"u8": (0, 256), "i8": (-128, 128), "u4": (0, 16), "i4": (-8, 8)}[dtype]
        return self.array(self.rng.integers(low, high, shape), dtype)

    def scales(self, *shape: int) -> Value:
        return self.array(self.rng.uniform(0.01, 0.05, shape))

    def dequantized(
        self, codes: Value, scale: Value, zero: Value | None = None, dtype: str = "f32"
    ) -> Value:
        value = self.op(o.Convert(DType(dtype)), codes)
        if zero is not None:
            value = self.op(o.Subtract(), value, self.op(o.Convert(DType(dtype)), zero))
        return self.op(o.Multiply(), value, scale)

    def quantized(self, x: Value, scale: Value, zero: Value) -> Value:
        ratio = self.op(o.Divide(), x, scale)
        shift = self.op(o.Convert(DType.f32), zero)
        total = self.op(o.Add(), self.op(o.Round("half_to_even"), ratio), shift)
        chosen = self.op(o.Select(), self.op(o.IsNaN(), ratio), shift, total)
        return self.op(o.Convert(self.dtype(zero)), chosen)

    def dtype(self, value: Value) -> DType:
        return self.graph.type(value).dtype  # type: ignore[union-attr]

    def done(self, *values: Value) -> Graph:
        for value in values:
            self.op(o.Result(), value)
        return self.graph


def kinds(g: Graph) -> list[str]:
    found = [g.op(n).kind for n in g.order()]
    return [k for k in found if k not in ("Constant", "Parameter", "Result")]


def inputs_of(g: Graph) -> list[Array]:
    rng = np.random.default_rng(3)
    made: list[Array] = []
    for node in g.parameters:
        op = g.op(node)
        assert isinstance(op, o.Parameter) and op.shape is not None
        shape = [d if isinstance(d, int) else 3 for d in op.shape]
        if op.element_type.is_float:
            made.append(rng.standard_normal(shape).astype(op.element_type.numpy))
        else:
            info = np.iinfo(op.element_type.numpy)
            made.append(rng.integers(info.min, info.max + 1, shape).astype(info.dtype))
    return made


def check(source: Graph, passes: Any, expected: list[str], tolerance: float = 0) -> Graph:
    """The kinds after the passes; the values are the same up to a relative tolerance. Results in
    bytes differ by at most a step where there is a tolerance."""
    inputs = inputs_of(source)
    wanted = interpret(source, inputs)
    found = run(source.copy(), passes)
    assert kinds(found) == expected
    for a, b in zip(interpret(found, inputs), wanted, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if not tolerance:
            np.testing.assert_array_equal(a, b)
        elif a.dtype.kind in "iu":
            assert np.abs(a.astype(int) - b.astype(int)).max() <= 1
        else:
            assert np.abs(a - b).max() <= tolerance * np.abs(b).max()
    return found


def refused(source: Graph, passes: Any, reason: str) -> None:
    before = kinds(source)
    found, trace = traced(source, passes)
    assert kinds(found) == before
    assert reason in {e.refused for e in trace.refusals()}
