"""What zero points take off the sums of bytes.

sum (q - a)(k - b) = sum q k - b sum q - a sum k + n a b, for the n bytes of a row. Lanes are
queries, so that -b (sum q - n a) is one number of each lane, and -a sum k one of each key.
"""

from __future__ import annotations

from ...llvmir.builder import Function
from ...llvmir.values import F32, I8, I32, I64, PTR, Value, vec
from .block import AttentionScratch
from .copies import query_shift
from .products import Products

# Where the numbers of a quantization are: a factor, and the zero points of queries and keys.
_FACTOR, _QUERY_ZERO, _KEY_ZERO = range(3)


def sum_queries(p: Products, layout: AttentionScratch) -> Function:
    """sum_queries(panel, numbers): the terms of the queries that a panel has, and the factor of its
    sums."""
    f = _open_function(p, "sum_queries", [("ptr noalias", "panel"), (PTR, "numbers")])
    panel, g, whole = f.params["panel"], p.scores, vec(I32, p.lanes)
    ones = f.as_value(0x01010101, whole)
    factor = f.splat(_load(f, _FACTOR), p.lanes)
    zero = f.mul(_query_zero(p, f), p.spec.head_size)
    key_zero = f.sub(0, f.cast(_load(f, _KEY_ZERO), I32))
    queries, terms, factors = (
        f.offset(panel, b) for b in (layout.queries, layout.terms, layout.factor)
    )
    with f.range(0, p.nr, p.lanes, outer=True) as c:
        total = f.var(whole, f.splat(f.sub(0, zero), p.lanes))
        with f.range(0, p.cells, unroll=1) as cell:
            at = f.at(queries, f.add(f.mul(cell, p.nr), c), I32)
            x = f.load(whole, at, g.align)
            total.set(g.multiply_add(f, ones, x, total.get()))
        made = f.mul(total.get(), f.splat(key_zero, p.lanes))
        f.store(made, f.at(terms, c, I32), g.align)
        f.store(factor, f.at(factors, c, F32), g.align)
    return f


def sum_keys(p: Products, layout: AttentionScratch) -> Function:
    """sum_keys(frame, scratch, keys, count, numbers): the terms of `count` keys from `keys` on."""
    names = [("ptr noalias", "frame"), (PTR, "scratch"), (PTR, "keys"), (I64, "count")]
    f = _open_function(p, "sum_keys", [*names, (PTR, "numbers")])
    stride = p.scores.size(f, f.params["frame"], p.spec.key.strides[-2])
    factor = f.sub(0, _query_zero(p, f))
    terms = f.offset(f.params["scratch"], layout.key_terms)
    with f.range(0, f.params["count"], unroll=1) as key:
        row = f.at(f.params["keys"], f.mul(key, stride), I8)
        total = f.as_value(0, I32)
        for start, lanes in _cut_row(p.spec.head_size, 4 * p.lanes):
            x = f.load(vec(I8, lanes), f.at(row, start, I8), 1)
            words = f.cast(x, I32, signed_=False)
            total = f.add(total, f.intrinsic("vector.reduce.add", words, returns=I32))
        f.store(f.mul(total, factor), f.at(terms, key, I32))
    return f


def _cut_row(size: int, most: int) -> list[tuple[int, int]]:
    """Where vectors of a row begin, and how many bytes they have: powers of two."""
    found: list[tuple[int, int]] = []
    start = 0
    while start < size:
        lanes = min(most, 1 << ((size - start).bit_length() - 1))
        found.append((start, lanes))
        start += lanes
    return found


def _query_zero(p: Products, f: Function) -> Value:
    """The zero point of queries as a panel has them."""
    return f.add(f.cast(_load(f, _QUERY_ZERO), I32), query_shift(p))


def _load(f: Function, index: int) -> Value:
    return f.load(F32, f.at(f.params["numbers"], index, F32))


def _open_function(p: Products, name: str, params: list[tuple[str, str]]) -> Function:
    return p.module.function(
        p.module.unique(name), params, attributes="nounwind noinline", linkage="internal"
    )
