"""Matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....ir.dims import eq
from .....ir.graph import Value
from .....ir.ops import Gemm, MatMul
from .elementary import binary

if TYPE_CHECKING:
    from ..import_context import ImportContext, ImportFunction


def gemm(n: ImportContext) -> Value:
    """alpha * A' x B' + beta * C of matrices; C broadcasts to the product."""
    for i, name in enumerate("AB"):
        if n.rank(n.input(i)) != 2:
            raise n.type_error(
                f"input {name!r} of Gemm is not a matrix",
                got=n.fact(n.input(i)).type,
                expected="rank 2",
            )
    op = Gemm(
        alpha=n.number("alpha", 1.0),
        beta=n.number("beta", 1.0),
        transpose_a=n.flag("transA"),
        transpose_b=n.flag("transB"),
    )
    return n.add(op, n.input(0), n.input(1), n.optional(2))


def gemm_full_bias(n: ImportContext) -> Value:
    """Before version 7: C has the product's shape unless `broadcast` is set."""
    allowed, c = n.flag("broadcast"), n.input(2)
    product = gemm(n)
    want, have = n.shape(product), n.shape(c)
    if not allowed and want is not None and have is not None:
        pairs = zip(want, have, strict=False)
        if len(want) != len(have) or any(eq(a, b) is False for a, b in pairs):
            raise n.type_error(
                "without broadcast, C must have the shape of the product",
                got=n.fact(c).type,
                expected=n.fact(product).type,
            )
    return product


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "MatMul": {1: binary(MatMul)},
    "Gemm": {1: gemm_full_bias, 7: gemm},
}
