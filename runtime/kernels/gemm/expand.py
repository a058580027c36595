"""Compressed right operands: small integers that become floats right before they are multiplied.

A cell is 32 bits that hold neighbours of one column along K: four bytes, or eight halves of bytes.
A vector of cells is expanded lane by lane, without widening moves: a value at bit p of a cell,
cut out and put under the exponent of 2^(23 - p), is the float 2^(23 - p) + q; a subtraction, exact,
leaves q less its zero. So a value costs an `and` with an `xor` (one instruction on AVX-512), a
subtraction, and the multiplication by its scale, which alone rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ....ir.dtype import DType
from ....ir.specs import Compressed, Operand
from ...codegen.emit import Function
from ...codegen.values import ELEMENT, F32, I8, I32, I64, Value, number, vec
from .micro import Context
from .packing import cells_of_rows, pack_b_function

# Bits of a cell, the lower half of which lies under an exponent.
CELL: Final = 32
_HALF: Final = 16


@dataclass(frozen=True)
class Scaling:
    """What one vector of columns is expanded with in one group: scales, and what is subtracted,
    by the bit at which a value lies in its half of a cell."""

    scale: Value
    centre: dict[int, Value]


class Expander:
    """Writes expansions for one kernel."""

    def __init__(self, g: Context) -> None:
        spec = g.spec
        assert spec.compressed is not None and spec.packed is not None
        self.g, self.lanes, self.nr = g, g.tiling.lanes, spec.packed.nr
        self.compressed: Compressed = spec.compressed
        self.dtype, self.groups = spec.b.dtype, spec.groups()
        self.kr = CELL // self.dtype.bits
        assert isinstance(spec.k, int)
        self.k = spec.k
        # Bytes of one row of cells, and of one panel.
        self.row = self.nr * CELL // 8
        self.panel = -(-spec.k // self.kr) * self.row

    @property
    def group(self) -> int:
        return min(self.compressed.group, self.k)

    def scaling(self, f: Function, scales: Value, zeros: Value | None, at: Value) -> Scaling:
        """For the columns whose first one's scale is element `at` of the packed scales."""
        c = self.compressed
        scale = _load_floats(f, scales, at, c.scale.dtype, self.lanes)
        bias = 1 << self.dtype.bits - 1 if self.dtype.is_signed else 0
        centre: dict[int, Value] = {}
        for p in range(0, _HALF, self.dtype.bits):
            least = 2.0 ** (23 - p) + bias
            if isinstance(c.zero, Operand):
                assert zeros is not None
                zero = _load_floats(f, zeros, at, c.zero.dtype, self.lanes)
                centre[p] = f.fadd(zero, least)
            else:
                centre[p] = number(least + c.zero, vec(F32, self.lanes))
        return Scaling(scale, centre)

    def values(self, f: Function, cells: Value, s: Scaling, count: int) -> list[Value]:
        """The first `count` values of each lane's cell, in f32, in their order along K."""
        found: list[Value] = []
        bits = self.dtype.bits
        high: Value | None = None
        for j in range(count):
            p = j * bits
            if p == _HALF:
                high = f.lshr(cells, _HALF)
            place = p % _HALF
            part = f.and_(cells if high is None else high, ((1 << bits) - 1) << place)
            # The exponent; and a sign that is flipped counts from 0.
            sign = 1 << (place + bits - 1) if self.dtype.is_signed else 0
            word = f.xor(part, (127 + 23 - place) << 23 | sign)
            q = f.fsub(f.bitcast(word, vec(F32, self.lanes)), s.centre[place])
            found.append(self._rounded(f, f.fmul(q, s.scale)))
        return found

    def _rounded(self, f: Function, x: Value) -> Value:
        """To the scales' type."""
        dtype = self.compressed.scale.dtype
        return x if dtype is DType.f32 else f.cast(f.cast(x, ELEMENT[dtype.value]), F32)


class Panels:
    """Addresses of whole panels of a compressed operand: cells, scales, zeros."""

    def __init__(self, g: Context, pointers: Sequence[Value]) -> None:
        first = 2 + len(g.spec.extras)
        self.expander = e = Expander(g)
        self._parts = [(pointers[1], e.panel)]
        for pointer, operand in zip(pointers[first:], g.spec.scaling(), strict=False):
            self._parts.append((pointer, e.groups * e.nr * operand.dtype.bits // 8))
        # A kernel without zeros of its own does not read them.
        self._parts += [self._parts[-1]] * (3 - len(self._parts))

    def places(self, f: Function, j: Value) -> list[Value]:
        return [f.offset(pointer, f.mul(j, size)) for pointer, size in self._parts]


def walked_type(operand: Operand) -> str:
    """What an operand's strides count. Those of compressed weights are 0."""
    return ELEMENT.get(operand.dtype.value, I8)


def _load_floats(f: Function, base: Value, at: Value, dtype: DType, lanes: int) -> Value:
    element = ELEMENT[dtype.value]
    x = f.load(vec(element, lanes), f.at(base, at, element))
    return f.cast(x, F32, signed_=dtype.is_signed)


def right_function(g: Context) -> Function:
    """What brings panels of B into scratch: a copy or an expansion."""
    return expand_function(g) if g.spec.compressed else pack_b_function(g)


def expand_function(g: Context) -> Function:
    """expand(cells, scales, zeros, to, k0, k): rows k0 .. k0 + k of one panel of B, as factors of
    the accumulator's type. k0 is the first row of a cell; addresses are those of whole panels.
    """
    e, t = Expander(g), g.tiling
    f = g.module.function(
        g.module.unique("expand"),
        [("ptr noalias readonly", n) for n in ("cells", "scales", "zeros")]
        + [("ptr noalias", "to"), (I64, "k0"), (I64, "k")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p = f.params
    end = f.add(p["k0"], p["k"])
    zeros = p["zeros"] if isinstance(e.compressed.zero, Operand) else None
    first = f.udiv(p["k0"], e.group)
    with f.range(first, f.ceil_div(end, e.group), unroll=1) as group:
        lo = f.smax(f.mul(group, e.group), p["k0"])
        hi = f.smin(f.mul(f.add(group, 1), e.group), end)
        with f.range(0, e.nr, t.lanes, unroll=1) as c:
            scaling = e.scaling(f, p["scales"], zeros, f.add(f.mul(group, e.nr), c))

            def write(k: Value, count: int, c: Value = c, s: Scaling = scaling) -> None:
                at = f.offset(p["cells"], f.add(f.mul(f.udiv(k, e.kr), e.row), f.mul(c, 4)))
                values = e.values(f, f.load(vec(I32, t.lanes), at), s, count)
                row = f.udiv(f.sub(k, p["k0"]), t.kr)
                _store(g, f, values, f.at(p["to"], f.add(f.mul(row, t.nr), c), g.acc))

            whole = f.add(lo, f.mul(f.udiv(f.sub(hi, lo), e.kr), e.kr))
            with f.range(lo, whole, e.kr, unroll=1) as k:
                write(k, e.kr)
            if rest := e.k % e.kr:
                with f.if_(f.icmp("slt", whole, hi)):
                    write(whole, rest)
    return f


def _store(g: Context, f: Function, values: Sequence[Value], to: Value) -> None:
    """One row of factors after the other; cells of `kr` rows where a unit multiplies pairs."""
    kr = g.tiling.kr
    for i in range(0, len(values), kr):
        cell = cells_of_rows(g, f, values[i : i + kr], DType.f32)
        f.store(cell, f.at(to, i // kr * g.tiling.nr, g.acc), g.align)


def expand_panels(
    g: Context,
    f: Function,
    expand: Function,
    pointers: Sequence[Value],
    to: Value,
    js: tuple[Value, Value],
    depth: tuple[Value, Value],
) -> None:
    """Expand the panels `js`, one after the other, `depth` = (k0, k) as `expand` takes them."""
    panels, t = Panels(g, pointers), g.tiling
    with f.range(*js, unroll=1) as j:
        place = f.at(to, f.mul(f.sub(j, js[0]), t.kc * t.nr), g.acc)
        f.call_function(expand, *panels.places(f, j), place, *depth)
