"""Matrix products: MatMul, Gemm and MatMulInteger with their epilogue chain become a GemmSpec."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....ir.dims import Dim, maximum, product
from ....ir.dtype import DType
from ....ir.graph import Value
from ....ir.ops import Constant, Gemm, MatMul, MatMulInteger
from ....ir.scalar.builder import Builder, Ref
from ....plan.packing.layouts import PackedB, PackedLayout
from ....plan.packing.panel_params import (
    BYTES,
    accumulator,
    has_f16_conversion,
    multiplies_bf16,
    packed_layout,
)
from ....plan.specs.gemm import MAX_FEW_ROWS, GemmSpec
from ...compressed_weights import compressed_weight
from ...legality import rounds_factors
from ...options import Options
from ...strided_view import View, broadcast_to, permute, swap_last_axes
from ..build.gemm_axes import column_parts, join_rows
from ..build.region_builder import SizeCollector
from ..build.region_lowering import Operands, RegionLowering, insert_axis
from ..schedule.bf16x3 import has_rows_for_tiles, multiplies_bf16x3
from ..schedule.fusion import conversion_of
from .weight_only_quant import compressed_operand, compressed_spec

LINE_BYTES = 64
LINE_COST = 4
# Rows up to which halves of floats are read faster than floats even from caches.
MAX_ROWS_OF_HALVES = 3


def refuse_matmul(low_dtype: DType) -> str | None:
    """Why no kernel multiplies matrices of this type, or None."""
    if low_dtype.is_float or (low_dtype.is_int and low_dtype.bits >= 32):
        return None
    return f"no matrix kernel for {low_dtype}"


def rounded_factors(options: Options, dtype: DType) -> DType | None:
    """The type that factors of `dtype` are rounded to: bf16 for f32 if the caller requests it."""
    return DType.bf16 if options.precision == "bf16" and dtype is DType.f32 else None


def product_factors(options: Options, dtype: DType) -> DType | None:
    """The same of matrix products, which alone have f16 factors."""
    if options.precision == "f16" and dtype in (DType.f32, DType.f16):
        return DType.f16
    return rounded_factors(options, dtype)


def _factors(lowering: RegionLowering, node: int, dtype: DType) -> DType | None:
    """The type that the factors of this product are rounded to."""
    factors = product_factors(lowering.options, dtype)
    few = factors is DType.bf16 and not rounds_factors(lowering.graph, node)
    return None if few else factors


def lower_matmul(lowering: RegionLowering, node: int, op: MatMul | Gemm | MatMulInteger) -> None:
    """Emit the step of a product and of the elementwise chain behind it."""
    a_value, b_value = lowering.graph.input(node, 0), lowering.graph.input(node, 1)
    transpose_a, transpose_b = op.transpose_a, op.transpose_b
    swapped = shares_left_operand(lowering, node, op)
    if swapped:
        a_value, b_value = b_value, a_value
        transpose_a, transpose_b = not transpose_b, not transpose_a
    out_value = Value(node)
    dtype, acc = lowering.tensor(a_value).dtype, accumulator(lowering.tensor(a_value).dtype)

    a_rank, b_rank = len(lowering.shape(a_value)), len(lowering.shape(b_value))
    read = lowering.skip_conversion(a_value)
    a_blocks = lowering.divided.get(read) if read not in lowering.views else None
    a_view = a_blocks.plain if a_blocks else lowering.view(a_value)
    a_cast = lowering.cast(a_view, a_value)
    a = matrix(a_view, transpose_a, column=False)
    n = lowering.shape(b_value)[-2 if transpose_b else -1] if b_rank > 1 else 1
    k = a.shape[-1]
    factors = _factors(lowering, node, dtype)
    weight, b_cast = compressed_weight(lowering.graph, node), None
    scaling: list[View] = []
    if weight is None:
        rows = product(a.shape[:-1] if b_rank == 2 else a.shape[-2:-1])
        half = None if factors or dtype is not DType.f32 else half_weight(lowering, b_value, rows)
        b, packed, b_cast = right_operand(lowering, b_value, transpose_b, factors, half)
    else:
        b, packed, scaling = compressed_operand(lowering, weight, lowering.name(b_value.node))
        factors = rounded_factors(lowering.options, dtype)
    if not isinstance(k, int):
        k = b.shape[-2]  # the size that is known is the one that panels have
    m = a.shape[-2]

    shape = lowering.shape(out_value)
    operands = Operands(shape, base=1)
    builder = Builder()
    ref = own_epilogue(lowering, builder, node, operands, dtype, acc)
    stored, ref = lowering.chain(builder, node, ref, operands)
    blocks = lowering.divided.get(stored)
    out = blocks.plain if blocks else lowering.result(stored)
    epilogue = builder.finish(builder.cast_stored(ref, out.dtype))

    def expand(view: View) -> View:
        if b_rank == 1:
            view = insert_axis(view, view.rank)
        view = insert_axis(view, view.rank - 1) if a_rank == 1 else view
        return matrix(view, swapped, column=False)

    out_, extras = expand(out), [expand(v) for v in operands.views]
    batch = out_.shape[:-2]
    a = broadcast_to(a, (*batch, m, k))
    b = broadcast_to(b, (*batch, *b.shape[-2:]))
    a_zero_point = zero_points(lowering, node, 2, (*batch, m, 1))
    b_zero_point = zero_points(lowering, node, 3, (*batch, 1, n))
    zeros = [z for z in (a_zero_point, b_zero_point) if z is not None]

    walked = [a, b, out_, *extras, *zeros]
    packs = swapped or (a_cast is not None and isinstance(n, int) and n > 1)
    lie = {0: a_blocks, 2: swap_last_axes(blocks) if swapped and blocks else blocks}
    unseen = frozenset(i for i, v in enumerate(walked) if v is b or v is b_zero_point)
    joined = join_rows((*batch, m), walked, lie, unseen, packs=packs)
    if joined is None:
        # The result's rows are divided in another way.
        lie[0], walked[0] = None, broadcast_to(lowering.view(a_value), (*batch, m, k))
        joined = join_rows((*batch, m), walked, lie, unseen, packs=False)
        assert joined is not None
    *batch_axes, m = joined.axes
    rows = joined.strides

    sizes = SizeCollector()
    columns = [column_parts(lie.get(i), v) for i, v in enumerate(walked)]
    steps = [[stride for _, stride in parts] for parts in columns]
    a_operand = sizes.operand(walked[0], (*rows[0], *steps[0]))
    b_operand = sizes.operand(b, (*rows[1][:-1], *b.strides[-2:]))
    placed = list(zip(walked, rows, steps, strict=True))[2:]
    others = [sizes.operand(v, (*r, *c)) for v, r, c in placed[: 1 + len(extras)]]
    # Zero points walk rows or columns, not both.
    around = [
        sizes.operand(v, r if v is a_zero_point else (*r[:-1], *c))
        for v, r, c in placed[1 + len(extras) :]
    ]
    rank = len(batch_axes) + 2
    compressed = None
    if weight is not None:
        factors = None if isinstance(m, int) and m <= MAX_FEW_ROWS else factors
        how = (lowering.options, lowering.target)
        compressed = compressed_spec(weight, scaling, rank, *how, rounds=factors is not None)
    bf16x3 = weight is None and packed is not None and factors is None and b.dtype is dtype
    if bf16x3:
        how = (lowering.target, lowering.options, lowering.constant_op(b_value))
        bf16x3 = multiplies_bf16x3(*how, a.dtype, (m, n, k))
    spec = GemmSpec(
        batch=sizes.all(batch_axes),
        m=sizes(m),
        n=sizes(n),
        k=sizes(k),
        a=a_operand,
        b=b_operand,
        out=others[0],
        acc=acc,
        packed=packed,
        epilogue=epilogue,
        epilogue_operands=tuple(others[1:]),
        compute_dtype=None if compressed and compressed.dot_group else factors,
        compressed=compressed,
        a_zero_point=None if a_zero_point is None else around[0],
        b_zero_point=None if b_zero_point is None else around[-1],
        a_cast=a_cast,
        b_cast=b_cast,
        bf16x3=bf16x3,
        a_m_split=sizes.add_split(joined.splits(0)),
        a_k_split=sizes.add_split(columns[0]),
        out_m_split=sizes.add_split(joined.splits(2)),
        out_n_split=sizes.add_split(columns[2]),
    )
    work = product_work(
        lowering, batch_axes, m, n, k, min(acc.bits, dtype.bits if dtype in BYTES else 64)
    )
    found = [conversion_of(lowering.graph, lowering.fusion, v) for v in (a_value, b_value)]
    converted = [n for n in found if n is not None]
    lowering.region.kernel(
        spec,
        sizes,
        [walked[0], b, *zeros, *extras, *scaling, out_],
        work,
        lowering.name(stored.node),
        lowering.sources(node, *converted, *dict.fromkeys(operands.nodes)),
    )


def shares_left_operand(
    lowering: RegionLowering, node: int, op: MatMul | Gemm | MatMulInteger
) -> bool:
    """Whether one matrix A is multiplied by many matrices B of fewer columns than a vector and A
    have. It is computed as (B' A')', where those columns are the rows of one product."""
    if isinstance(op, MatMulInteger) or compressed_weight(lowering.graph, node) is not None:
        return False
    a, b = (lowering.shape(lowering.graph.input(node, port)) for port in (0, 1))
    if len(a) != 2 or len(b) < 3 or product(b[:-2]) == 1:
        return False
    rows, columns = a[-1 if op.transpose_a else -2], b[-2 if op.transpose_b else -1]
    most = lowering.target.lanes(lowering.tensor(Value(node)).dtype.bits)
    if isinstance(rows, int):
        most = min(most, rows)
    return isinstance(columns, int) and columns < most


def zero_points(
    lowering: RegionLowering, node: int, port: int, shape: Sequence[Dim]
) -> View | None:
    """The zero points of a product of bytes as they walk the rows, or columns, of the product."""
    op, inputs = lowering.graph.op(node), lowering.graph.inputs(node)
    value = inputs[port] if isinstance(op, MatMulInteger) and port < len(inputs) else None
    if value is None or not isinstance(op, MatMulInteger):
        return None
    view = lowering.view(value)
    if view.rank > 1:
        view = matrix(view, (op.transpose_a, op.transpose_b)[port - 2], column=False)
    return broadcast_to(view, shape)


def matrix(view: View, transpose: bool, *, column: bool) -> View:
    """A view as matrices: a vector becomes a row (or a column), a transposed one is swapped."""
    if view.rank == 1:
        return insert_axis(view, 1 if column else 0)
    order = [*range(view.rank - 2), view.rank - 1, view.rank - 2]
    return permute(view, order) if transpose else view


def half_weight(lowering: RegionLowering, value: Value, rows: Dim) -> Constant | None:
    """The f16 or bf16 constant behind a conversion to f32, if the product widens it as it reads it:
    one with few rows takes as long as reading its weights, and most calls of a model that keeps
    states have one row (docs/dev/tuning/half-weights.md)."""
    graph, target = lowering.graph, lowering.target
    if graph.op(value.node).kind != "Convert":
        return None
    op = graph.op(graph.input(value.node, 0).node)
    if not isinstance(op, Constant) or op.dtype not in (DType.f16, DType.bf16):
        return None
    if op.dtype is DType.f16 and not has_f16_conversion(target):
        return None
    if isinstance(rows, int):
        return op if rows <= MAX_ROWS_OF_HALVES else None
    tiles = multiplies_bf16(target) and has_rows_for_tiles(rows, math.prod(op.content.shape))
    return op if lowering.schedule.interface.variables and not tiles else None


def right_operand(
    lowering: RegionLowering,
    value: Value,
    transpose: bool,
    factors: DType | None,
    half: Constant | None = None,
) -> tuple[View, PackedB | None, DType | None]:
    """The right operand: a constant's packed panels where a kernel wants them, else a view.

    A packed operand's batch strides count elements of the packed buffer
    (plan/packing/panel_params.py). Its last two strides mean nothing and are 0. Its elements are
    stored as `factors`, or as those of `half`, the constant that the value is converted from. Last
    comes the type that a view's elements are to be converted to.
    """
    op, dtype = half or lowering.constant_op(value), lowering.tensor(value).dtype
    if op is not None and len(op.shape) >= 2:
        k, n = (op.content.shape[i] for i in ((-1, -2) if transpose else (-2, -1)))
        layout = packed_layout(k, n, dtype, lowering.target, factors)
        view = None
        if layout is not None and half is not None:
            name = lowering.name(value.node)
            view = lowering.array(half.content, half.dtype, layout, name, transpose)
        elif layout is not None:
            view = lowering.constant(value, layout, transpose, factors)
        if layout is not None and view is not None:
            batch = view.shape[:-2]
            step: Dim = PackedLayout.of(layout, k, n).size
            strides: list[Dim] = [0, 0]
            for size in reversed(batch):
                strides.insert(0, 0 if size == 1 else step)
                step = step * size
            return View(view.buffer, view.dtype, (*batch, k, n), tuple(strides)), layout, None
    view, cast = lowering.factor(value)
    return matrix(view, transpose, column=True), None, cast


def product_work(
    lowering: RegionLowering, batch: Sequence[Dim], m: Dim, n: Dim, k: Dim, bits: int
) -> Dim:
    """The work of a product in vector operations: its multiply-adds, or, where few rows or columns
    share a matrix, reading it. A line from the outer caches takes as long as some four
    operations."""
    arithmetic = product([*batch, m, n, k]) // max(1, lowering.target.vector_bits // bits)
    reading = product([*batch, n + m, k]) * bits // 8 // LINE_BYTES * LINE_COST
    return maximum(arithmetic, reading) + 1


def own_epilogue(
    lowering: RegionLowering, b: Builder, node: int, operands: Operands, dtype: DType, acc: DType
) -> Ref:
    """What the operation itself does with the accumulator (alpha, beta * C, activation)."""
    op = lowering.graph.op(node)
    start = b.input(0, acc)
    if isinstance(op, MatMulInteger):
        return start
    if isinstance(op, MatMul):
        return b.cast(start, dtype)
    assert isinstance(op, Gemm)
    inputs = lowering.graph.inputs(node)
    c_value = inputs[2] if len(inputs) > 2 else None
    with_c = c_value is not None and op.beta != 0
    program = op.epilogue(dtype, acc, with_c=with_c)
    args = [start]
    if with_c:
        assert c_value is not None
        args.append(lowering.expression(b, c_value, operands))
    (ref,) = b.inline(program, *args)
    return ref
