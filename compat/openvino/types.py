"""Element types, shapes, dimensions and layouts of OpenVINO's Python API."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...ir.dims import Dim, bounds, symbol
from ...ir.dtype import DType
from ...ir.errors import ShapeError, UsageError
from ..nearest import NamesNearest

# How OpenVINO prints element types that are not integers.
_CPP_NAMES = {
    DType.boolean: "char",
    DType.f16: "float16",
    DType.bf16: "bfloat16",
    DType.f32: "float32",
    DType.f64: "double64",
    DType.nf4: "nfloat4",
}
_UNBOUNDED = np.iinfo(np.int64).max


class Type(NamesNearest):
    """An element type; `Type.f32` and its like, or of a NumPy dtype."""

    dynamic: Type
    f16: Type
    bf16: Type
    f32: Type
    f64: Type
    f8e4m3: Type
    f8e5m2: Type
    f8e8m0: Type
    f4e2m1: Type
    nf4: Type
    i4: Type
    i8: Type
    i16: Type
    i32: Type
    i64: Type
    u1: Type
    u2: Type
    u3: Type
    u4: Type
    u6: Type
    u8: Type
    u16: Type
    u32: Type
    u64: Type
    boolean: Type
    string: Type

    def __init__(self, dtype: Any) -> None:
        if isinstance(dtype, Type):
            dtype = dtype.dtype
        known = dtype if isinstance(dtype, DType) else DType.from_numpy(np.dtype(dtype))
        self.dtype = known

    def get_type_name(self) -> str:
        """As "f32"."""
        return self.dtype.value

    def to_string(self) -> str:
        """As "f32"."""
        return self.dtype.value

    def to_dtype(self) -> Any:
        """NumPy's type."""
        return self.dtype.numpy

    def get_bitwidth(self) -> int:
        """Bits of an element."""
        return self.dtype.bits

    def get_size(self) -> int:
        """Bytes of an element, at least 1."""
        return (self.dtype.bits + 7) // 8

    type_name = property(get_type_name)
    bitwidth = property(get_bitwidth)
    size = property(get_size)

    def is_static(self) -> bool:
        """Whether the type is known."""
        return self.dtype is not DType.dynamic

    def is_dynamic(self) -> bool:
        """Whether the type is unknown."""
        return self.dtype is DType.dynamic

    def is_real(self) -> bool:
        """Whether it is a floating-point type."""
        return self.dtype.is_float and self.dtype is not DType.nf4

    def is_integral(self) -> bool:
        """Whether it is not a floating-point type, as OpenVINO has it."""
        return not self.is_real()

    def is_integral_number(self) -> bool:
        """Whether it is an integer type."""
        return self.dtype.is_int

    real = property(is_real)
    integral = property(is_integral)
    integral_number = property(is_integral_number)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Type):
            return other.dtype is self.dtype
        try:
            return np.dtype(other) == self.dtype.numpy  # pyright: ignore[reportArgumentType, reportCallIssue]
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        name = _CPP_NAMES.get(self.dtype, self.dtype.value)
        if self.dtype.is_int:
            name = f"{'int' if self.dtype.value[0] == 'i' else 'uint'}{self.dtype.bits}_t"
        return f"<Type: '{name}'>"


for _name in Type.__annotations__:
    setattr(Type, _name, Type(DType(_name)))


class Shape(tuple[int, ...]):
    """A shape without unknown sizes; equal to lists, too."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | tuple) and tuple(self) == tuple(other)

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return f"<Shape: {self}>"

    def __str__(self) -> str:
        return f"[{','.join(map(str, self))}]"

    def to_string(self) -> str:
        """As "[1,3]"."""
        return str(self)


class Dimension(NamesNearest):
    """One size: known, in a range (`Dimension(1, 8)`, of which -1 means no upper bound), or any."""

    def __init__(self, size: Any = -1, high: int | None = None) -> None:
        self._low, self._high = _read_range(size, high)

    @staticmethod
    def of(dim: Dim) -> Dimension:
        """A size of irc: an integer or an expression with bounds."""
        if isinstance(dim, int):
            return Dimension(dim)
        low, high = bounds(dim)
        return Dimension(max(low or 0, 0), -1 if high is None else high)

    @staticmethod
    def dynamic() -> Dimension:
        """A size that may be any."""
        return Dimension(-1)

    def to_dim(self, name: str) -> Dim:
        """irc's size: an integer, or a symbol of that name with these bounds."""
        return self._low if self.is_static else symbol(name, self._low, self._high)

    @property
    def is_static(self) -> bool:
        """Whether the size is known."""
        return self._low == self._high

    @property
    def is_dynamic(self) -> bool:
        """Whether the size is unknown."""
        return not self.is_static

    def get_length(self) -> int:
        """The known size. ShapeError else."""
        if not self.is_static:
            raise ShapeError(
                "a dynamic dimension has no length",
                got=str(self),
                fix="check is_static first, or fix the shape with Model.reshape",
            )
        return self._low

    def get_min_length(self) -> int:
        """The lower bound."""
        return self._low

    def get_max_length(self) -> int:
        """The upper bound; -1 where there is none."""
        return -1 if self._high is None else self._high

    min_length = property(get_min_length)
    max_length = property(get_max_length)

    def compatible(self, other: Dimension) -> bool:
        """Whether some size is in both ranges."""
        ends = [h for h in (self._high, other._high) if h is not None]
        return not ends or max(self._low, other._low) <= min(ends)

    def refines(self, other: Dimension) -> bool:
        """Whether the other range contains this one."""
        above = other._high is None or (self._high is not None and self._high <= other._high)
        return other._low <= self._low and above

    def relaxes(self, other: Dimension) -> bool:
        """Whether this range contains the other one."""
        return other.refines(self)

    def same_scheme(self, other: Dimension) -> bool:
        """Whether both are the same known size, or both unknown."""
        return self == other if self.is_static else other.is_dynamic

    def to_string(self) -> str:
        """As "1..8"."""
        return str(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dimension):
            return (self._low, self._high) == (other._low, other._high)
        return self.is_static and self._low == other

    def __hash__(self) -> int:
        return hash((self._low, self._high))

    def __len__(self) -> int:
        return self.get_length()

    def __repr__(self) -> str:
        return f"<Dimension: {self}>"

    def __str__(self) -> str:
        if self.is_static:
            return str(self._low)
        if self._high is None:
            return f"{self._low}.." if self._low else "?"
        return f"{self._low or ''}..{self._high}"


def _read_range(size: Any, high: int | None) -> tuple[int, int | None]:
    """Lower and upper bound. UsageError for what is not a size."""
    if isinstance(size, Dimension):
        return size._low, size._high
    if isinstance(size, str):
        size, high = _parse_dimension(size)
    if isinstance(size, tuple | list):
        return _read_range(*size)
    if size is None:
        size = -1
    if not hasattr(size, "__index__"):
        raise UsageError("a dimension cannot be read", got=repr(size), expected="3, -1 or (1, 8)")
    low = operator.index(size)
    if high is None:
        return (0, None) if low < 0 else (low, low)
    top = None if high < 0 or high >= _UNBOUNDED else int(high)
    return max(low, 0), top


def _parse_dimension(text: str) -> tuple[int, int | None]:
    """The range of `3`, `?`, `-1`, `1..8`, `..8` or `2..`."""
    found = re.fullmatch(r"\s*(\d*)\s*(\.\.)?\s*(\d*)\s*", text)
    if text.strip() in ("?", "-1", ".."):
        return -1, None
    if not found or not (found[1] or found[3]) or (not found[2] and found[3]):
        raise UsageError("a dimension cannot be read", got=text, expected="3, ? or 1..8")
    if not found[2]:
        return int(found[1]), None
    return int(found[1] or 0), int(found[3]) if found[3] else -1


class PartialShape(NamesNearest):
    """Sizes, some perhaps unknown: of a list, text as "[1,3..5,?]", or "..." (any rank)."""

    def __init__(self, sizes: Any) -> None:
        if isinstance(sizes, str):
            sizes = _split_shape(sizes)
        elif isinstance(sizes, Dimension) or hasattr(sizes, "__index__"):
            sizes = [sizes]
        self._dims = None if sizes is None else [Dimension(s) for s in sizes]

    @staticmethod
    def of(shape: Sequence[Dim] | None) -> PartialShape:
        """A shape of irc."""
        return PartialShape(None if shape is None else [Dimension.of(d) for d in shape])

    @staticmethod
    def dynamic(rank: Any = None) -> PartialShape:
        """Unknown sizes of a rank, or of any."""
        known = None if rank is None else Dimension(rank)
        return PartialShape(
            None if known is None or known.is_dynamic else [-1] * known.get_length()
        )

    @property
    def is_dynamic(self) -> bool:
        """Whether any size is unknown."""
        return self._dims is None or any(d.is_dynamic for d in self._dims)

    @property
    def is_static(self) -> bool:
        """Whether all sizes are known."""
        return not self.is_dynamic

    @property
    def rank(self) -> Dimension:
        """The number of axes."""
        return Dimension(-1 if self._dims is None else len(self._dims))

    @property
    def all_non_negative(self) -> bool:
        """True: no size is negative."""
        return True

    def to_shape(self) -> Shape:
        """The sizes as ints. ShapeError where one is unknown."""
        if self.is_dynamic:
            raise ShapeError(
                "to_shape was called on a dynamic shape", got=str(self), fix="use partial_shape"
            )
        return Shape(d.get_length() for d in self)

    get_shape = to_shape

    def get_min_shape(self) -> Shape:
        """The lower bounds."""
        return Shape(d.min_length for d in self)

    def get_max_shape(self) -> Shape:
        """The upper bounds; the largest int64 where there is none."""
        return Shape(_UNBOUNDED if d.max_length < 0 else d.max_length for d in self)

    def get_dimension(self, axis: int) -> Dimension:
        """The size of an axis."""
        return self[axis]

    def compatible(self, other: PartialShape) -> bool:
        """Whether some shape is of both."""
        if self._dims is None or other._dims is None:
            return True
        pairs = zip(self._dims, other._dims, strict=False)
        return len(self) == len(other) and all(a.compatible(b) for a, b in pairs)

    def same_scheme(self, other: PartialShape) -> bool:
        """Whether both have the same known and unknown sizes."""
        if self._dims is None or other._dims is None:
            return self._dims is other._dims
        pairs = zip(self._dims, other._dims, strict=False)
        return len(self) == len(other) and all(a.same_scheme(b) for a, b in pairs)

    def refines(self, other: PartialShape) -> bool:
        """Whether the other shape contains this one."""
        if self._dims is None or other._dims is None:
            return other._dims is None
        pairs = zip(self._dims, other._dims, strict=False)
        return len(self) == len(other) and all(a.refines(b) for a, b in pairs)

    def relaxes(self, other: PartialShape) -> bool:
        """Whether this shape contains the other one."""
        return other.refines(self)

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self._dims or ())

    def __len__(self) -> int:
        return len(self._dims or ())

    def __getitem__(self, axis: Any) -> Any:
        found = (self._dims or [])[axis]
        return PartialShape(found) if isinstance(found, list) else found

    def __setitem__(self, axis: int, size: Any) -> None:
        if self._dims is not None:
            self._dims[axis] = Dimension(size)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PartialShape):
            return str(self) == str(other)
        return isinstance(other, list | tuple) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"<PartialShape: {self}>"

    def __str__(self) -> str:
        return "[...]" if self._dims is None else f"[{','.join(map(str, self._dims))}]"

    def to_string(self) -> str:
        """As "[?,3]"."""
        return str(self)


def _split_shape(text: str) -> list[str] | None:
    inner = text.strip().removeprefix("[").removesuffix("]").strip()
    if inner == "...":
        return None
    return inner.split(",") if inner else []


class Layout(NamesNearest):
    """What the axes of a tensor mean: `Layout("NCHW")`, "N...C", "[batch,c,?]"."""

    def __init__(self, text: str = "...") -> None:
        if isinstance(text, Layout):
            text = str(text)
        compact = text.strip()
        if compact.startswith("["):
            names = [n.strip() for n in compact[1:-1].split(",")]
        else:
            names = re.findall(r"\.\.\.|.", compact)
        self.names = [n.upper() for n in names if n]
        repeated = [n for n in self.names if n != "?" and self.names.count(n) > 1]
        if repeated:
            raise UsageError("a layout names an axis twice", got=text, expected="each axis once")

    def has_name(self, name: str) -> bool:
        """Whether an axis has this name."""
        return _axis_name(name) in self.names

    def get_index_by_name(self, name: str) -> int:
        """The axis of a name; negative where it is counted from the end."""
        wanted = _axis_name(name)
        if wanted not in self.names:
            raise UsageError("the layout has no such axis", got=name, expected=str(self))
        at = self.names.index(wanted)
        if "..." in self.names and self.names.index("...") < at:
            return at - len(self.names)
        return at

    @property
    def empty(self) -> bool:
        """Whether nothing is known of the axes."""
        return self.names == ["..."]

    def to_string(self) -> str:
        """As "[N,C,H,W]"."""
        return str(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            other = Layout(other)
        return isinstance(other, Layout) and other.names == self.names

    def __hash__(self) -> int:
        return hash(tuple(self.names))

    def __str__(self) -> str:
        return f"[{','.join(self.names)}]"

    def __repr__(self) -> str:
        return f"<Layout: {self}>"


_AXIS_WORDS = {"BATCH": "N", "CHANNELS": "C", "DEPTH": "D", "HEIGHT": "H", "WIDTH": "W"}


def _axis_name(name: str) -> str:
    return _AXIS_WORDS.get(name.upper(), name.upper())
