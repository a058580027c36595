"""Products with a single column: rows of A times a vector, summed along K in vector registers.

The order over K depends on the types and the instruction set only: `_ACCUMULATORS_PER_ROW`
registers take turns, then they are added pairwise, then the lanes. It is not the ascending chain of
wider products.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dtype import DType
from ....plan.specs.base import Size
from ...llvmir.builder import Function, StackVariable
from ...llvmir.values import ELEMENT, I64, Value, integer, is_float, vec
from ..emit.gather_lanes import gather
from ..emit.strided_loops import masked_load
from ..emit.tail_mask import TailMask, tail_mask
from .bf16_rounding import flush_to_zero
from .context import GemmContext
from .epilogue import finish_function
from .packing.pack_cells import Side, left_side, right_side
from .zero_point_schedule import zero_point

# Accumulators per row, and rows that share the loads of the vector: 16 chains fill any core.
_ACCUMULATORS_PER_ROW = 4
ROWS_PER_LOAD = 4


def dot_function(g: GemmContext, rows: int) -> Function:  # noqa: C901 - emits one function; its closures are the steps
    """dot(frame, a, b, m, count, k): out[m .. m + count, 0] for 1 <= count <= rows, from the rows
    of A at `a` and the vector at `b`."""
    spec, lanes = g.spec, g.schedule.lanes
    a_side, b_side = left_side(g), right_side(g)
    f = g.module.function(
        g.module.unique("dot"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "a"), ("ptr noalias readonly", "b")]
        + [(I64, "m"), (I64, "count"), (I64, "k")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p = f.params
    row, a_step = (g.size(f, p["frame"], s) for s in spec.a.strides[-2:])
    # The column of a packed panel is a vector with a stride.
    b_stride: Size = spec.packed.nr if spec.packed else spec.b.strides[-2]
    b_step = g.size(f, p["frame"], b_stride)
    # Rows that are not there repeat the last one; their sums are not stored.
    last = f.sub(p["count"], 1)
    addresses = [
        f.at(p["a"], f.mul(row, f.smin(i, last) if i else 0), ELEMENT[spec.a.dtype.value])
        for i in range(rows)
    ]
    sums = [[f.var(g.vector, 0) for _ in range(rows)] for _ in range(_ACCUMULATORS_PER_ROW)]
    # Bytes are multiplied one by one, without their zero points.
    a_zeros = [
        zero_point(g, f, p["frame"], True, f.add(p["m"], f.smin(i, last))) for i in range(rows)
    ]
    b_zero_point = zero_point(g, f, p["frame"], False, integer(0))

    def load(
        address: Value, k: Value, step: Value, side: Side, tail: TailMask | None, zero: Value | None
    ) -> Value:
        element = side.element
        at = f.at(address, f.mul(k, step), element)
        if step.known == 1:
            x = masked_load(f, vec(element, lanes), at, tail)
        else:
            x = gather(f, element, lanes, at, step, tail)
        x = g.factor(f, x, side.dtype, side.to)
        if zero is None:
            return x
        x = f.sub(x, f.splat(zero, lanes))
        return x if tail is None else f.select(tail.mask, x, 0)

    def turn(k: Value, into: Sequence[StackVariable], tail: TailMask | None) -> None:
        b = load(p["b"], k, b_step, b_side, tail, b_zero_point)
        for address, total, zero in zip(addresses, into, a_zeros, strict=True):
            a = load(address, k, a_step, a_side, tail, zero)
            # By no unit for cells: rounded factors are floats here, one to a lane.
            if is_float(g.acc):
                total.set(f.fma(a, b, total.get()))
            else:
                total.set(f.add(f.mul(a, b), total.get()))

    buffer = f.stack(rows * g.bytes)
    with flush_to_zero(f, spec.compute_dtype is DType.bf16):
        depth = integer(spec.k) if isinstance(spec.k, int) else p["k"]
        step = _ACCUMULATORS_PER_ROW * lanes
        # Lanes that lie apart hide a loop's own instructions: no turn is written out.
        single = a_step.known != 1 or b_step.known != 1
        full = integer(0) if single else f.mul(f.udiv(depth, step), step)
        with f.range(0, full, step, unroll=1) as k:
            for u in range(_ACCUMULATORS_PER_ROW):
                turn(f.add(k, u * lanes), sums[u], None)
        if single or depth.known is None or depth.known % step:
            # The rest in a loop, through memory: its code is long, and emitted once.
            size = lanes * g.bytes
            waiting = f.stack(_ACCUMULATORS_PER_ROW * rows * size)
            slots = [
                [(u * rows + i) * size for i in range(rows)] for u in range(_ACCUMULATORS_PER_ROW)
            ]
            for some, their in zip(sums, slots, strict=True):
                for s, at in zip(some, their, strict=True):
                    f.store(s.get(), f.offset(waiting, at), size)
            with f.range(full, depth, lanes, outer=True) as k:
                u = f.urem(f.udiv(f.sub(k, full), lanes), _ACCUMULATORS_PER_ROW)
                sums_of_turn = f.offset(waiting, f.mul(u, rows * size))
                for s, at in zip(sums[0], slots[0], strict=True):
                    s.set(f.load(g.vector, f.offset(sums_of_turn, at), size))
                turn(k, sums[0], tail_mask(f, lanes, f.sub(depth, k)))
                for s, at in zip(sums[0], slots[0], strict=True):
                    f.store(s.get(), f.offset(sums_of_turn, at), size)
            for some, their in zip(sums, slots, strict=True):
                for s, at in zip(some, their, strict=True):
                    s.set(f.load(g.vector, f.offset(waiting, at), size))
        word = "fadd" if is_float(g.acc) else "add"
        add = f.fadd if is_float(g.acc) else f.add
        for i in range(rows):
            chains = [some[i].get() for some in sums]
            while len(chains) > 1:
                chains = [add(x, y) for x, y in zip(chains[::2], chains[1::2], strict=True)]
            f.store(f.reduce(word, chains[0]), f.at(buffer, i, g.acc))
    finish = finish_function(g, 1, 1)
    f.call_function(finish, p["frame"], buffer, p["m"], integer(0), p["count"], integer(1))
    return f
