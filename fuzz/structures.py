"""Structures of several operations, as exporters write them: what passes look for, with the sizes,
types and neighbours that nobody thought of. Each takes a value drawn so far and leaves new ones;
what does not fit ends it with Misfit, and the nodes made so far stay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import irc_compiler.ir.ops as o
import numpy as np
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_node
from irc_compiler.ir.ops.control_flow.loops import BodyInput, BodyOutput
from irc_compiler.ir.types import TensorType

from .fitting import Misfit, either, last, must, some
from .quantised import compressed, products_of_bytes, quantised

if TYPE_CHECKING:
    from .graphs import Maker


def size_of(m: Maker, x: Value, axis: int) -> Value:
    """The size of one axis as a vector, read off the shape as exporters do."""
    shape = must(m, o.ShapeOf(DType.i64), x)
    return must(m, o.Gather(), shape, m.constant([axis], DType.i64), m.constant(0, DType.i64))


# Activations, norms, attention -----------------------------------------------------------------


def gated(m: Maker) -> None:
    """Gelu, Swish and Mish in primitive operations."""
    x, t, _ = some(m, lambda t: t.dtype.is_float)
    number = lambda v: m.constant(m.pick([v, v, [v]]), t.dtype)  # noqa: E731
    how = m.pick(["erf", "tanh", "swish", "mish"])
    if how == "erf":
        inner = must(m, o.Erf(), must(m, o.Divide(), x, number(math.sqrt(2))))
    elif how == "tanh":
        cube = must(m, o.Power(), x, number(3.0))
        total = either(m, o.Add(), x, either(m, o.Multiply(), cube, number(0.044715)))
        scaled = either(m, o.Multiply(), total, number(math.sqrt(2 / math.pi)))
        inner = must(m, o.Tanh(), scaled)
    else:
        gate = o.Sigmoid() if how == "swish" else o.SoftPlus()
        inner = must(m, gate, x)
        either(m, o.Multiply(), x, inner if how == "swish" else must(m, o.Tanh(), inner))
        return
    one = either(m, o.Add(), inner, number(1.0))
    if m.int(0, 1):
        either(m, o.Multiply(), either(m, o.Multiply(), x, one), number(0.5))
    else:
        either(m, o.Multiply(), either(m, o.Multiply(), x, number(0.5)), one)


def normalised(m: Maker) -> None:
    """Layer and RMS norm in primitive operations, with scale and shift or without."""
    x, t, rank = some(m, lambda t: t.dtype.is_float)
    axis = m.constant([m.pick([-1, rank - 1])], DType.i64)
    mean = lambda v: must(m, o.ReduceMean(True), v, axis)  # noqa: E731
    centred = must(m, o.Subtract(), x, mean(x)) if m.int(0, 3) else x
    two = m.constant(2.0, t.dtype)
    square = m.pick([(o.Power(), two), (o.Multiply(), centred)])
    variance = mean(must(m, square[0], centred, square[1]))
    root = must(m, o.Sqrt(), either(m, o.Add(), variance, m.constant(1e-5, t.dtype)))
    y = must(m, o.Divide(), centred, root)
    if m.int(0, 1):
        y = either(m, o.Multiply(), y, m.numbers(t.dtype, [last(t)]))
    if m.int(0, 1):
        either(m, o.Add(), y, m.numbers(t.dtype, [last(t)]))


def _mask(m: Maker, q: Value, k: Value, scores: Value, dtype: DType) -> Value:
    """Scores with some of them hidden."""
    how = m.int(0, 4)
    if how == 0:
        return scores
    shape = [d if isinstance(d, int) and m.int(0, 1) else 1 for d in m.type(scores).shape or ()]
    if how == 1:
        return either(m, o.Add(), scores, m.numbers(dtype, shape))
    if how == 2:
        low = m.constant(m.pick([-np.inf, -1e4]), dtype)
        return must(m, o.Select(), m.numbers(DType.boolean, shape), scores, low)
    # A row sees the keys up to its own.
    places: list[Value] = []
    for value, axis in ((q, 1), (k, 0)):
        size = must(m, o.Squeeze1(), size_of(m, value, -2), m.constant([0], DType.i64))
        ends = m.constant(0, DType.i64), size, m.constant(1, DType.i64)
        span = must(m, o.Range(DType.i64), *ends)
        places.append(must(m, o.Unsqueeze(), span, m.constant([axis], DType.i64)))
    keep = must(m, o.LessEqual(), places[1], places[0])
    low, zero = m.constant(-np.inf, dtype), m.constant(0.0, dtype)
    if how == 3:
        return must(m, o.Select(), keep, scores, low)
    return either(m, o.Add(), scores, must(m, o.Select(), keep, zero, low))


def attention(m: Maker) -> None:
    """Scores, mask, softmax and mixture; heads split from one axis, or as they are."""
    x, t, rank = some(m, lambda t: t.dtype.is_float and len(t.shape or ()) in (3, 4))
    width = last(t)
    q = k = v = x
    if rank == 3 and m.int(0, 2):
        heads = m.pick([h for h in (1, 2, 3, 4, 8) if width % h == 0])
        made: list[Value] = []
        for _ in range(3):
            y = x
            if m.int(0, 1):
                y = must(m, o.MatMul(), y, m.numbers(t.dtype, [width, width]))
            split = m.constant([0, 0, heads, width // heads], DType.i64)
            y = must(m, o.Reshape(True), y, split)
            made.append(must(m, o.Transpose(), y, m.constant([0, 2, 1, 3], DType.i64)))
        q, k, v = made
        width //= heads
        rank = 4
    elif m.int(0, 1):
        k = m.value(lambda other: other == t) or x
        v = m.value(lambda other: other == t) or x
    scale = m.constant(m.pick([0.5, 1 / math.sqrt(max(1, width)), 2.0]), t.dtype)
    if m.int(0, 1):
        q = either(m, o.Multiply(), q, scale)
    if m.int(0, 1):
        scores = must(m, o.MatMul(False, True), q, k)
    else:
        order = [*range(rank - 2), rank - 1, rank - 2]
        scores = must(m, o.MatMul(), q, must(m, o.Transpose(), k, m.constant(order, DType.i64)))
    if m.int(0, 1):
        scores = must(m, m.pick([o.Multiply(), o.Divide()]), scores, scale)
    scores = _mask(m, q, k, scores, t.dtype)
    y = must(m, o.MatMul(), must(m, o.Softmax(m.pick([-1, rank - 1])), scores), v)
    if rank == 4:
        y = must(m, o.Transpose(), y, m.constant([0, 2, 1, 3], DType.i64))
        must(m, o.Reshape(True), y, m.constant([0, 0, -1], DType.i64))


# Bodies, letters, shapes -----------------------------------------------------------------------


def einsum(m: Maker) -> None:
    """Letters over one or two values."""
    types = (DType.f32, DType.f64, DType.i32, DType.i64)
    x, t, rank = some(m, lambda t: t.dtype in types and len(t.shape or ()) <= 8)
    letters = "abcdefgh"[:rank]
    kept = "".join(m.random.sample(letters, m.int(0, rank)))
    if m.int(0, 2) == 0:
        must(m, o.Einsum(f"{letters}->{kept}"), x)
        return
    own = m.random.sample(letters, m.int(1, rank))
    sizes = dict(zip(letters, t.shape or (), strict=True))
    own = [c for c in own if isinstance(sizes[c], int)]
    extra = "z" if m.int(0, 1) else ""
    shape = [int(sizes[c]) for c in own] + [m.int(1, 5)] * len(extra)
    other = m.numbers(t.dtype, shape)
    out = m.random.sample(kept + extra, len(kept + extra))
    must(m, o.Einsum(f"{letters},{''.join(own)}{extra}->{''.join(out)}"), x, other)


def _body(m: Maker, types: list[TensorType], extra: list[TensorType]) -> tuple[Graph, Value]:
    """A body whose parameters are of these types; what it makes of the first keeps its type."""
    body = Graph("body")
    given: list[Value] = []
    for n, t in enumerate([*types, *extra]):
        node = body.add(o.Parameter(t.dtype, t.shape), name=f"p{n}")
        infer_node(body, node)
        given.append(Value(node))
    y = given[0]
    for _ in range(m.int(1, 3)):
        op = m.pick([o.Tanh(), o.Add(), o.Multiply(), o.Maximum(), o.Relu(), o.Subtract()])
        inputs = [y] if len(op.inputs) == 1 else [y, m.pick(given)]
        node = body.add(op, inputs, name="inner")
        infer_node(body, node)
        if body.type(Value(node)) == types[0]:
            y = Value(node)
        else:
            body.remove(node)
    return body, y


def loop(m: Maker) -> None:
    """A Loop or a TensorIterator: a value carried, another read in slices or whole."""
    x, t, rank = some(m, lambda t: t.dtype in (DType.f32, DType.f16, DType.i64))
    axis = m.int(0, rank - 1)
    assert t.shape is not None
    part = TensorType(t.dtype, (*t.shape[:axis], 1, *t.shape[axis + 1 :]))
    sliced = bool(m.int(0, 1))
    iterator = sliced and bool(m.int(0, 1))
    carried = part if sliced else t
    if not part.is_static and sliced:
        raise Misfit
    body, last = _body(m, [carried], [part if sliced else t])
    results = [last]
    first = 0 if iterator else 2
    if not iterator:
        go = body.add(o.Constant.of(np.asarray(True), DType.boolean))
        infer_node(body, go)
        results.append(Value(go))
    for value in results:
        infer_node(body, body.add(o.Result(), [value]))
    backwards = sliced and bool(m.int(0, 1))
    ends = {"start": -1, "end": 0, "stride": -1} if backwards else {}
    other = BodyInput("sliced", first + 1, axis=axis, **ends) if sliced else None
    ports = (BodyInput("carried", first, back=0), other or BodyInput("invariant", first + 1))
    joined = BodyOutput("joined", 0, axis=m.int(0, rank - 1))
    outputs = m.pick([(BodyOutput("last", 0),), (BodyOutput("last", 0), joined), (joined,)])
    start = m.numbers(t.dtype, [int(d) for d in part.shape or ()]) if sliced else x
    if iterator:
        must(m, o.TensorIterator(body, ports, outputs), start, x)
        return
    trips = m.constant(m.int(0, 4), DType.i64)
    if sliced:
        trips = must(m, o.Squeeze1(), size_of(m, x, axis), m.constant([0], DType.i64))
    go_on = m.constant(True, DType.boolean)
    must(m, o.Loop(body, ports, outputs, 1), trips, go_on, start, x)


def arithmetic_of_shapes(m: Maker) -> None:
    """Sizes read at run time, computed with, and given to what moves data."""
    x, t, rank = some(m, lambda t: len(t.shape or ()) > 1)
    first, last = size_of(m, x, 0), size_of(m, x, -1)
    one = m.constant([1], DType.i64)
    how = m.int(0, 4)
    if how == 0:
        total = must(m, o.Multiply(), last, size_of(m, x, rank - 2))
        must(m, o.Reshape(False), x, must(m, o.Concat(0), m.constant([-1], DType.i64), total))
    elif how == 1:
        half = must(m, o.Divide(), last, m.constant([2], DType.i64))
        axes = m.constant([-1], DType.i64)
        left = must(m, o.Slice(), x, m.constant([0], DType.i64), half, one, axes)
        right = must(m, o.Slice(), x, half, m.constant([1 << 40], DType.i64), one, axes)
        turned = must(m, o.Negative(), right) if t.dtype.is_float else right
        must(m, o.Concat(-1), turned, left)
    elif how == 2:
        wanted = must(m, o.Concat(0), m.constant([m.int(1, 3)], DType.i64), first, last)
        small = must(m, o.Gather(), x, m.constant(0, DType.i64), m.constant(0, DType.i64))
        must(m, o.Broadcast("bidirectional"), small, wanted)
    elif how == 3:
        size = must(m, o.Squeeze1(), first, m.constant([0], DType.i64))
        ends = m.constant(0, DType.i64), size, m.constant(1, DType.i64)
        rows = must(m, o.Range(DType.i64), *ends)
        if m.int(0, 1):
            rows = must(m, o.FloorMod(), rows, m.constant(m.int(1, 3), DType.i64))
        must(m, o.Gather(), x, rows, m.constant(0, DType.i64))
    else:
        kept = m.constant([0] * (rank - 1) + [-1], DType.i64)
        y = must(m, o.Unsqueeze(), x, m.constant([0], DType.i64))
        must(m, o.Reshape(True), must(m, o.Squeeze1(), y, m.constant([0], DType.i64)), kept)


STRUCTURES: tuple[Callable[[Maker], None], ...] = (
    gated, normalised, attention, compressed, quantised, products_of_bytes, einsum, loop,
    arithmetic_of_shapes,
)  # fmt: skip
