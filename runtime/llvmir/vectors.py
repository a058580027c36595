"""Memory and vector words of a Function, and the text it is made of.

Addresses are bytes: `at` scales by an element type. Loads and stores assume no more alignment than
one element by default. Masked forms touch no byte of a lane that is off, so kernels never read or
write past an end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ...plan.target import Target
from .values import (
    F32,
    F64,
    I1,
    I32,
    I64,
    PTR,
    Value,
    bits_of,
    constants,
    integer,
    is_float,
    lanes_of,
    number,
    split_type,
    suffix,
    vec,
)

_PAIRWISE = {"fadd", "fmul", "add", "mul", "and_", "or_", "xor", "smin", "smax"}
_PAIRWISE |= {"umin", "umax", "maximum", "minimum", "max_or", "min_or"}


class Vectors(ABC):
    target: Target

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.closed = False  # the current block has its terminator
        self._silent: list[bool] = []  # `closed` of the regions being dropped
        self._count = 0

    # Defined by builder.py's Function, which knows its module.

    @abstractmethod
    def call(self, name: str, returns: str, *args: Value, flags: str = "") -> Value:
        """Call an outside function or intrinsic by its full name, and declare it in the module."""

    @abstractmethod
    def nontemporal_metadata(self) -> str:
        """`, !nontemporal !N` for a store."""

    # -- text ---------------------------------------------------------------------------------

    def number(self) -> int:
        self._count += 1
        return self._count

    def fresh(self) -> str:
        self._count += 1
        return f"%t{self._count}"

    def emit(self, text: str) -> None:
        if not self._silent:
            self.lines.append(text)

    def line(self, text: str) -> None:
        """One instruction without a result; dropped after a terminator."""
        if not self.closed and not self._silent:
            self.lines.append(" " + text)

    def op(self, type_: str, text: str) -> Value:
        """One instruction with a result of that type: the way out for words we do not have."""
        name = self.fresh()
        if not self.closed and not self._silent:
            self.lines.append(f" {name} = {text}")
        return Value(type_, name)

    def open_silent(self, drop: bool) -> None:
        """Begin a region that is written but dropped (a branch known not to run)."""
        if drop:
            self._silent.append(self.closed)

    def close_silent(self, drop: bool) -> None:
        if drop:
            self.closed = self._silent.pop()

    # -- operands -----------------------------------------------------------------------------

    def as_value(self, x: Value | int | float, type_: str) -> Value:
        """x itself, or the constant of that type; a scalar Value is splat to a vector type."""
        if not isinstance(x, Value):
            if isinstance(x, float) and not is_float(type_):
                raise TypeError(f"float constant {x} for {type_}")
            return number(x, type_)
        lanes = lanes_of(type_)
        if lanes > 1 and x.lanes == 1 and x.element == split_type(type_)[0]:
            return self.splat(x, lanes)
        return x

    def pair(self, a: Value | int | float, b: Value | int | float) -> tuple[Value, Value]:
        """Both as Values of one type; TypeError where the types differ."""
        if isinstance(a, Value):
            if isinstance(b, int):
                return a, number(b, a.type)
            if isinstance(b, Value) and b.type == a.type:
                return a, b
        type_ = a.type if isinstance(a, Value) else b.type if isinstance(b, Value) else I64
        if isinstance(a, Value) and isinstance(b, Value) and b.lanes > a.lanes:
            type_ = b.type
        x, y = self.as_value(a, type_), self.as_value(b, type_)
        if x.type != y.type:
            raise TypeError(f"operands of {x.type} and {y.type}")
        return x, y

    def intrinsic(
        self,
        name: str,
        *args: Value,
        returns: str | None = None,
        by_result: bool = False,
        flags: str = "",
    ) -> Value:
        """Call llvm.<name> overloaded by the first argument's type (by_result: both types)."""
        out = returns or args[0].type
        kind = f"{suffix(out)}.{suffix(args[0].type)}" if by_result else suffix(args[0].type)
        return self.call(f"llvm.{name}.{kind}", out, *args, flags=flags)

    def bitcast(self, a: Value, to: str) -> Value:
        return a if a.type == to else self.op(to, f"bitcast {a} to {to}")

    # -- addresses ----------------------------------------------------------------------------

    def offset(self, pointer: Value, count: Value | int) -> Value:
        """pointer + count bytes."""
        n = self.as_value(count, I64)
        return pointer if n.known == 0 else self.op(PTR, f"getelementptr i8, {pointer}, {n}")

    def at(self, pointer: Value, index: Value | int, type_: str) -> Value:
        """pointer + index elements of the type (its element type if it is a vector)."""
        n = self.as_value(index, I64)
        element = split_type(type_)[0]
        if element == I1 or n.known == 0:
            return self.offset(pointer, n)
        return self.op(PTR, f"getelementptr {element}, {pointer}, {n}")

    def address(self, pointer: Value) -> Value:
        """The pointer as a number."""
        return self.op(I64, f"ptrtoint {pointer} to i64")

    # -- memory -------------------------------------------------------------------------------

    def load(self, type_: str, pointer: Value, align: int | None = None) -> Value:
        """align: bytes known; None is one element's size."""
        return self.op(type_, f"load {type_}, {pointer}, align {align or _align(type_)}")

    def store(
        self, value: Value, pointer: Value, align: int | None = None, *, stream: bool = False
    ) -> None:
        """stream: bypass the caches (needs the vector's full alignment; for outputs beyond L3)."""
        hint = self.nontemporal_metadata() if stream else ""
        self.line(f"store {value}, {pointer}, align {align or _align(value.type)}{hint}")

    def mask(self, lanes: int, count: Value | int) -> Value:
        """Lanes 0..count-1 on; count may be negative (none) or beyond lanes (all)."""
        n = self.as_value(count, I64)
        if n.known is not None:
            return constants([int(i < n.known) for i in range(lanes)], I1)
        if lanes == 1:
            return self.op(I1, f"icmp sgt {n}, 0")
        # Clamped first: then 32 bits per lane are enough.
        low = self.intrinsic("smin", n, integer(lanes))
        low = self.op(I32, f"trunc {self.intrinsic('smax', low, integer(0))} to i32")
        ramp = constants(range(lanes), I32)
        return self.op(vec(I1, lanes), f"icmp slt {ramp}, {self.splat(low, lanes).text}")

    def load_masked(
        self,
        type_: str,
        pointer: Value,
        mask: Value,
        fill: Value | float = 0,
        align: int | None = None,
    ) -> Value:
        """Lanes that are off are not read and are `fill`."""
        other = self.as_value(fill, type_)
        if lanes_of(type_) == 1:
            return self._load_if(type_, pointer, mask, other)
        where = integer(align or _align(type_), I32)
        name = f"llvm.masked.load.{suffix(type_)}.p0"
        return self.call(name, type_, pointer, where, mask, other)

    def store_masked(
        self, value: Value, pointer: Value, mask: Value, align: int | None = None
    ) -> None:
        """Lanes that are off are not written."""
        me: Any = self
        if value.lanes == 1:
            with me.if_(mask):
                self.store(value, pointer, align)
            return
        if self.target.arch == "x86_64" and value.element not in (F32, F64):
            # LLVM 22 joins a truncation with a masked store, and if the mask turns out to be a
            # single constant lane it stores that lane as wide as it was before the truncation,
            # past the end. Empty assembly hides the constant.
            bits = self.bitcast(mask, f"i{value.lanes}")
            bits = me.assembly(I64, "", "=r,0", me.cast(bits, I64, signed_=False))
            mask = self.bitcast(me.cast(bits, f"i{value.lanes}"), mask.type)
        where = integer(align or _align(value.type), I32)
        me.call(f"llvm.masked.store.{suffix(value.type)}.p0", "void", value, pointer, where, mask)

    def _load_if(self, type_: str, pointer: Value, mask: Value, other: Value) -> Value:
        me: Any = self
        result = me.var(type_, other)
        with me.if_(mask):
            result.set(self.load(type_, pointer))
        return result.get()

    # -- vectors ------------------------------------------------------------------------------

    def splat(self, x: Value | float, lanes: int, element: str | None = None) -> Value:
        """Every lane x. A Python number needs the element type."""
        if not isinstance(x, Value):
            if element is None:
                raise TypeError("splat of a number needs its element type")
            return number(x, vec(element, lanes))
        if lanes == 1 or x.lanes > 1:
            return x
        to = vec(x.type, lanes)
        if x.known is not None:
            return integer(x.known, to)
        one = self.op(to, f"insertelement {to} poison, {x}, i32 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.op(to, f"shufflevector {one}, {to} poison, {zeros}")

    def iota(self, lanes: int, element: str = I32) -> Value:
        """0, 1, 2, ... lanes-1."""
        return constants(range(lanes), element)

    def extract(self, v: Value, index: Value | int) -> Value:
        if v.lanes == 1:
            return v
        return self.op(v.element, f"extractelement {v}, {self.as_value(index, I32)}")

    def insert(self, v: Value, x: Value, index: Value | int) -> Value:
        if v.lanes == 1:
            return x
        return self.op(v.type, f"insertelement {v}, {x}, {self.as_value(index, I32)}")

    def shuffle(self, a: Value, b: Value | None, indices: Sequence[int]) -> Value:
        """Lanes of a and b by number (b's begin at a.lanes); -1 is any value."""
        if len(indices) == 1:
            i = indices[0]
            return self.extract(a, i) if i < a.lanes or b is None else self.extract(b, i - a.lanes)
        other = f"{a.type} poison" if b is None else str(b)
        cells = ", ".join(f"i32 {i}" if i >= 0 else "i32 poison" for i in indices)
        to = vec(a.element, len(indices))
        return self.op(to, f"shufflevector {a}, {other}, <{len(indices)} x i32> <{cells}>")

    def concat(self, a: Value, b: Value) -> Value:
        """a's lanes, then b's (equal types)."""
        if a.lanes == 1:
            pair = self.op(vec(a.type, 2), f"insertelement <2 x {a.type}> poison, {a}, i32 0")
            return self.insert(pair, b, 1)
        return self.shuffle(a, b, range(2 * a.lanes))

    def reduce(self, word: str, v: Value) -> Value:
        """All lanes joined by a word of two operands, the upper half onto the lower, again and
        again: the order is fixed by the lane count. word: fadd fmul add mul and_ or_ xor smin smax
        umin umax maximum minimum max_or min_or.
        """
        if word not in _PAIRWISE:
            raise ValueError(f"no reduction by {word}")
        join: Any = getattr(self, word, None) or (lambda a, b: self.intrinsic(word, a, b))
        while v.lanes > 1:
            half = v.lanes // 2
            if v.lanes % 2:
                raise ValueError("reduce needs a power of two of lanes")
            low = self.shuffle(v, None, range(half))
            v = join(low, self.shuffle(v, None, range(half, 2 * half)))
        return v


def _align(type_: str) -> int:
    return max(1, bits_of(type_) // 8)
