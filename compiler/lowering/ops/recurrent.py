"""Recurrent layers: one product for the inputs of all steps, then the loop over time."""

from __future__ import annotations

from ....ir.dims import product
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import GRUSequence, PeepholeLSTM
from ....ir.scalar.builder import Builder
from ....ir.types import TensorType
from ....plan.packing.layouts import PackedB, PackedGates, PackedLayout
from ....plan.packing.panel_params import cell_depth, packed_layout
from ....plan.specs.gemm import GemmSpec
from ....plan.specs.recurrent import RecurrentSpec
from ...strided_view import View, are_equal, coalesce, permute, row_major
from ..build.region_builder import SizeCollector
from ..build.region_lowering import RegionLowering
from .matmul import rounded_factors
from .recurrent_step import Sequence, programs_of

# Peepholes follow an LSTM's W, R and B.
PEEPHOLES = 7


def ports_of(op: Sequence) -> tuple[int, int]:
    """Ports of the lengths and of W; R and B follow."""
    return op.states + 1, op.states + 2


def refuse_recurrent(graph: Graph, node: int, op: Sequence) -> str | None:
    """Why no kernel runs the layer, or None."""
    inputs = graph.inputs(node)
    lengths, weights = ports_of(op)
    dtype, length = graph.tensor(graph.input(node, 0)).dtype, graph.type(graph.input(node, lengths))
    if dtype is not DType.f32:
        return f"no recurrent kernel for {dtype}"
    if (unknown := op.unknown_activation()) is not None:
        return f"no recurrent kernel with the activation {unknown}"
    if not isinstance(length, TensorType) or length.dtype not in (DType.i32, DType.i64):
        return "sequence lengths that are neither i32 nor i64"
    for value in inputs[weights : weights + 3]:
        if value is not None and graph.op(value.node).kind != "Constant":
            return "the weights are known at run time only"
    return None


def read_ports(graph: Graph, node: int, op: Sequence) -> tuple[int, ...]:
    """The ports read at run time: the lengths only where a sequence may end early."""
    lengths, _ = ports_of(op)
    ports = tuple(range(1 + op.states))
    ports = ports if is_whole(graph, node, lengths) else (*ports, lengths)
    return ports if peepholes_of(graph, node) is None else (*ports, PEEPHOLES)


def peepholes_of(graph: Graph, node: int) -> Value | None:
    """The peepholes of an LSTM that has them."""
    inputs = graph.inputs(node)
    has = isinstance(graph.op(node), PeepholeLSTM) and len(inputs) > PEEPHOLES
    return inputs[PEEPHOLES] if has else None


def is_whole(graph: Graph, node: int, port: int) -> bool:
    """Whether every sequence is as long as the time axis for certain."""
    value, time = graph.input(node, port), graph.shape(graph.input(node, 0))[1]
    known = graph.known_value(value)
    if known is None and graph.op(value.node).kind == "Broadcast":
        # One length for a batch of any size.
        known = graph.known_value(graph.input(value.node, 0))
    return known is not None and all(are_equal(n, time) for n in known.reshape(-1).tolist())


def lower_recurrent(lowering: RegionLowering, node: int, op: Sequence) -> None:
    """Emit the product of the inputs and the loop over time."""
    inputs, (lengths_port, w_port) = lowering.graph.inputs(node), ports_of(op)
    w, r = inputs[w_port], inputs[w_port + 1]
    b = inputs[w_port + 2] if len(inputs) > w_port + 2 else None
    assert w is not None and r is not None
    name, sources = lowering.name(node), lowering.sources(node)
    hidden, count = op.hidden_size, op.directions()
    bias = lowering.view(b) if b is not None else None
    x = project(lowering, node, lowering.view(lowering.graph.input(node, 0)), w, bias)

    states = [
        make_rows_contiguous(lowering, lowering.view(lowering.graph.input(node, 1 + i)), name)
        for i in range(op.states)
    ]
    lengths = None
    if not is_whole(lowering.graph, node, lengths_port):
        lengths = lowering.view(lowering.graph.input(node, lengths_port))
    vectors = vectors_of(lowering, node, op, bias)
    factors = rounded_factors(lowering.options, x.dtype)
    lanes = lowering.target.lanes(32)
    packed = PackedGates(op.gates * lanes, op.gates, cell_depth(lowering.target, factors))
    weights = panels(lowering, r, packed, (count, hidden, packed.columns(hidden)), factors)
    results = [lowering.result(v) for v in lowering.graph.values(node)]
    outs = [
        v if are_equal(v.strides[-1], 1) else lowering.region.allocate(v.dtype, v.shape, name)
        for v in results
    ]
    backwards = op.direction.lower() == "reverse"
    sizes = SizeCollector()
    given = [*states, *(() if lengths is None else (lengths,)), *vectors]
    views = [x, weights, *given, *outs]
    programs = programs_of(op, len(vectors))
    spec = RecurrentSpec(
        reverse=(backwards, True)[:count],
        batch=sizes(x.shape[0]),
        time=sizes(x.shape[1]),
        hidden=hidden,
        x=sizes.operand(x, x.strides),
        weights=sizes.operand(weights, weights.strides),
        packed=packed,
        states=tuple(sizes.operand(v, v.strides) for v in states),
        lengths=None if lengths is None else sizes.operand(lengths, lengths.strides),
        vectors=tuple(sizes.operand(v, v.strides) for v in vectors),
        outs=tuple(sizes.operand(v, v.strides) for v in outs),
        step=programs.step,
        early=programs.early,
        compute_dtype=factors,
    )
    work = product([*x.shape, -(-hidden // lanes)]) // packed.kr + 1
    lowering.region.kernel(spec, sizes, views, work, name, sources)
    for made, wanted in zip(outs, results, strict=True):
        if made != wanted:
            lowering.copy(made, wanted, name, sources)


def vectors_of(lowering: RegionLowering, node: int, op: Sequence, bias: View | None) -> list[View]:
    """The vectors besides the gates (recurrent_step.py), [D, H] each."""
    linear = isinstance(op, GRUSequence) and op.linear_before_reset
    peepholes = peepholes_of(lowering.graph, node)
    if peepholes is not None:
        source, parts = (
            make_rows_contiguous(lowering, lowering.view(peepholes), lowering.name(node)),
            range(3),
        )
    elif bias is not None and linear:
        source, parts = bias, range(3, 4)
    else:
        return []
    shape = (op.directions(), op.hidden_size)
    return [
        View(source.buffer, source.dtype, shape, source.strides, source.offset + n * shape[1])
        for n in parts
    ]


def make_rows_contiguous(lowering: RegionLowering, view: View, name: str) -> View:
    """The view, copied where its last axis is not contiguous."""
    return view if are_equal(view.strides[-1], 1) else copy_contiguous(lowering, view, name)


def copy_contiguous(lowering: RegionLowering, view: View, name: str) -> View:
    """A contiguous copy."""
    target = lowering.region.allocate(view.dtype, view.shape, name)
    lowering.copy(view, target, name, (name,))
    return target


def panels(
    lowering: RegionLowering,
    value: Value,
    packed: PackedB | PackedGates,
    matrices: tuple[int, int, int],
    factors: DType | None,
) -> View:
    """A constant [..., N, K] as panels of its transpose: (count, K, N) of its `matrices`; stored as
    `factors`."""
    view = lowering.constant(value, packed, isinstance(packed, PackedB), factors)
    assert view is not None
    count, k, n = matrices
    total = count * PackedLayout.of(packed, k, n).size
    return View(view.buffer, view.dtype, (total,), (1,))


def project(lowering: RegionLowering, node: int, x: View, w: Value, bias: View | None) -> View:
    """x * W^T + b of every step and direction, [N, T, D, gates * H]; as one matrix of the rows
    in the order in which they lie."""
    count, n, k = (int(d) for d in lowering.shape(w))  # type: ignore[arg-type]
    order, rows = (0, 1), coalesce(x.shape[:2], [x.strides[:2]])
    if len(rows[0]) > 1:
        order, swapped = (1, 0), permute(x, (1, 0, 2))
        rows = coalesce(swapped.shape[:2], [swapped.strides[:2]])
    if len(rows[0]) > 1:
        x = copy_contiguous(lowering, x, lowering.name(node))
        order, rows = (0, 1), coalesce(x.shape[:2], [x.strides[:2]])
    m, stride = (rows[0][0], rows[1][0][0]) if rows[0] else (1, 0)
    shape = (x.shape[order[0]], x.shape[order[1]], count, n)
    out = lowering.region.allocate(x.dtype, shape, lowering.name(node))

    f32, sizes, builder = DType.f32, SizeCollector(), Builder()
    factors = rounded_factors(lowering.options, f32)
    packed = packed_layout(k, n, f32, lowering.target, factors)
    weights = panels(lowering, w, packed, (count, k, n), factors) if packed else lowering.view(w)
    block = PackedLayout.of(packed, k, n).size if packed else n * k
    ref = builder.input(0, f32)
    views, extras = [x, weights], ()
    a = sizes.operand(x, (0, stride, x.strides[2]))
    right = sizes.operand(weights, (block, 0, 0) if packed else (block, 1, k))
    if bias is not None:
        ref = builder.op("add", ref, builder.input(1, f32))
        views.append(bias)
        extras = (sizes.operand(bias, (bias.strides[0], 0, 1)),)
    spec = GemmSpec(
        batch=(count,),
        m=sizes(m),
        n=n,
        k=k,
        a=a,
        b=right,
        out=sizes.operand(out, (n, count * n, 1)),
        acc=f32,
        packed=packed,
        epilogue=builder.finish(ref),
        epilogue_operands=extras,
        compute_dtype=factors,
    )
    work = product([m, count * n, k]) // lowering.target.lanes(f32.bits) + 1
    lowering.region.kernel(
        spec, sizes, [*views, out], work, lowering.name(node), lowering.sources(node)
    )
    strides = row_major(shape)
    found = View(out.buffer, out.dtype, shape, strides)
    return found if order == (0, 1) else permute(found, (1, 0, 2, 3))
