"""Products with a single column: rows of A times a vector, summed along K in vector registers.

The order over K depends on the types and the instruction set only: `_SUMS` registers take turns,
then they are joined pairwise, then the lanes. It is not the ascending chain of wider products.
"""

from __future__ import annotations

from ....ir.dtype import DType
from ....ir.specs import Size
from ...codegen.emit import Function
from ...codegen.values import ELEMENT, I64, Value, integer, is_float, vec
from ..walk import Part, load_part, part_of
from .epilogue import Place, apply_epilogue, gather
from .micro import Context

# Accumulators per row, and rows that share the loads of the vector: 16 chains fill any core.
_SUMS = 4
ROWS = 4


def dot_function(g: Context, rows: int) -> Function:
    """dot(frame, a, b, m, k): out[m .. m + rows, 0] from rows of A at `a` and the vector at `b`."""
    t, spec = g.tiling, g.spec
    f = g.module.function(
        f"dot_{rows}",
        [("ptr noalias", "frame"), ("ptr noalias readonly", "a"), ("ptr noalias readonly", "b")]
        + [(I64, "m"), (I64, "k")],
        linkage="internal",
    )
    p = f.params
    lanes = g.target.lanes(spec.acc.bits)
    kind = vec(g.acc, lanes)
    row, a_step = (g.size(f, p["frame"], s) for s in spec.a.strides[-2:])
    # A packed panel is a vector with a stride.
    b_stride: Size = spec.packed.nr if spec.packed else spec.b.strides[-2]
    b_step = g.size(f, p["frame"], b_stride)
    places = [f.at(p["a"], f.mul(row, i), ELEMENT[spec.a.dtype.value]) for i in range(rows)]
    sums = [[f.var(kind, 0) for _ in range(_SUMS)] for _ in range(rows)]

    def load(place: Value, k: Value, step: Value, dtype: DType, part: Part | None) -> Value:
        element = ELEMENT[dtype.value]
        at = f.at(place, f.mul(k, step), element)
        if step.known == 1:
            x = load_part(f, vec(element, lanes), at, part)
        else:
            x = gather(f, element, lanes, at, step, part)
        return g.widen(f, x, dtype)

    def turn(k: Value, left: Value | None) -> None:
        for u in range(_SUMS):
            at = f.add(k, u * lanes)
            part = None if left is None else part_of(f, lanes, f.sub(left, u * lanes))
            b = load(p["b"], at, b_step, spec.b.dtype, part)
            for place, row_sums in zip(places, sums, strict=True):
                a = load(place, at, a_step, spec.a.dtype, part)
                row_sums[u].set(g.multiply_add(f, a, b, row_sums[u].get()))

    depth = integer(spec.k) if isinstance(spec.k, int) else p["k"]
    step = _SUMS * lanes
    whole = f.mul(f.udiv(depth, step), step)
    with f.range(0, whole, step, unroll=1) as k:
        turn(k, None)
    with f.if_(f.icmp("slt", whole, depth)):
        turn(whole, f.sub(depth, whole))
    add = f.fadd if is_float(g.acc) else f.add
    found: list[list[Value]] = []
    for row_sums in sums:
        parts = [s.get() for s in row_sums]
        while len(parts) > 1:
            parts = [add(x, y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
        found.append([f.reduce("fadd" if is_float(g.acc) else "add", parts[0])])
    place = Place(p["frame"], p["m"], integer(0), integer(rows), None, (0,))
    apply_epilogue(g, f, place, found)
    return f
