"""Matrix products."""

from __future__ import annotations

from typing import Any

from .....ir.dims import eq
from .....ir.dtype import DType
from .....ir.ops import Gemm, MatMul, MatMulInteger
from ..context import ExportContext, Exported, ExportFunction
from .elementary import narrow_output


def _swap(n: ExportContext, name: str, rank: int) -> str:
    """The last two axes swapped; a vector stays as it is."""
    order = [*range(rank - 2), rank - 1, rank - 2] if rank > 1 else [0]
    return n.transpose(name, order)


def _matmul(n: ExportContext) -> Exported:
    op, dtype = n.cast_op(MatMul), n.dtype(0)
    flags = op.transpose_a, op.transpose_b
    wide = dtype if n.takes("MatMul", dtype) else _choose_wide_type(dtype)
    sides = [n.input_as(port, wide) for port in (0, 1)]
    if any(flags):
        ranks = [n.rank(port) for port in (0, 1)]
        if ranks == [2, 2] and n.takes("Gemm", wide) and wide.is_float:
            found = n.add("Gemm", *sides, transA=int(flags[0]), transB=int(flags[1]))
            return narrow_output(n, found, wide)
        sides = [
            _swap(n, side, rank) if flag else side
            for side, rank, flag in zip(sides, ranks, flags, strict=True)
        ]
    return narrow_output(n, n.add("MatMul", *sides), wide)


def _choose_wide_type(dtype: DType) -> DType:
    """A type that products are computed in, where they wrap as narrower ones do."""
    return DType.i32 if dtype.is_int else DType.f32


def _gemm(n: ExportContext) -> Exported:
    """Gemm of matrices; batches and what alpha does to integers are decomposed."""
    op, dtype = n.cast_op(Gemm), n.dtype(0)
    shapes = [n.shape(port) for port in (0, 1)]
    if any(s is None or len(s) != 2 for s in shapes) or not n.takes("Gemm", dtype):
        return None
    if op.activation != "identity" or not dtype.is_float:
        return None
    c = n.optional(2)
    if c is not None and not _broadcasts(n):
        return None
    attributes: dict[str, Any] = {"transA": int(op.transpose_a), "transB": int(op.transpose_b)}
    scales = {"alpha": op.alpha, "beta": op.beta}
    attributes |= {k: v for k, v in scales.items() if v != 1}
    return n.add(
        "Gemm",
        n.input(0),
        n.input(1),
        c,
        **attributes,
    )


def _broadcasts(n: ExportContext) -> bool:
    """Whether the addend broadcasts to the product's shape."""
    shape, out = n.shape(2), n.out_type().shape
    if shape is None or out is None or len(shape) > 2:
        return False
    return all(
        s == 1 or eq(s, d) is True for s, d in zip(reversed(shape), reversed(out), strict=False)
    )


def _matmul_integer(n: ExportContext) -> Exported:
    op = n.cast_op(MatMulInteger)
    sides = [n.input(0), n.input(1)]
    ranks = [n.rank(port) for port in (0, 1)]
    for i, flag in enumerate((op.transpose_a, op.transpose_b)):
        sides[i] = _swap(n, sides[i], ranks[i]) if flag else sides[i]
    zeros: list[str | None] = []
    for port, side in ((2, 0), (3, 1)):
        if n.optional(port) is None:
            zeros.append(None)
            continue
        shape = n.fixed_shape(port)
        if shape is None:
            return None
        lengths = [d for d in shape if d != 1]
        if not lengths:
            zeros.append(n.add("Reshape", n.input(port), n.ints([])) if shape else n.input(port))
        elif side == 1 and len(lengths) == 1 and shape[-1] == lengths[0] and not op.transpose_b:
            zeros.append(n.add("Reshape", n.input(port), n.ints([-1])))
        else:
            return None
    return n.add("MatMulInteger", *sides, *zeros)


EXPORTERS: dict[str, ExportFunction] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "MatMulInteger": _matmul_integer,
}
