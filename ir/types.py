"""Types of values: tensors with symbolic shapes, sequences, optionals and maps; broadcasting."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf, prod
from typing import Any, TypeAlias, cast

import numpy as np

from . import dims
from .dims import Dim, Expr
from .dims import constraints as require
from .dims.expr import interval_of
from .dims.serialization import Bounds, Json
from .dtype import DType
from .errors import ShapeError, VerificationError
from .lazy_dataclass import dataclass

Shape: TypeAlias = "tuple[Dim, ...] | None"

MAX_RANK = 64
MAX_SIZE = (1 << 63) - 1
_MAX_NESTING = 16
_TENSOR = re.compile(r"\s*([a-z0-9]+)\s*\[(.*)\]\s*\Z", re.DOTALL)
# Integers that NumPy has no type of: they are held in uint8, of which they need these bits.
_BITS = {t: (1 << t.bits) - 1 for t in (DType.u1, DType.u3, DType.u6)}
_WRAPPER = re.compile(r"\s*(?:(seq|optional)\(|map\(\s*([a-z0-9]+)\s*,)(.*)\)\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class TensorType:
    """dtype and shape; shape None: not even the rank is known. Prints as `f32[N, 3]`, `f32[...]`.

    Integers of NumPy become ints; ShapeError for a negative size.
    """

    dtype: DType
    shape: tuple[Dim, ...] | None

    def __post_init__(self) -> None:
        shape = self.shape
        if type(shape) is tuple and all(type(d) is int and d >= 0 for d in shape):
            return  # most types
        if self.shape is not None:
            object.__setattr__(self, "shape", tuple(_size(d) for d in self.shape))

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Is every size (and the dtype) known?"""
        if self.shape is None or self.dtype is DType.dynamic:
            return False
        return all(isinstance(d, int) for d in self.shape)

    @property
    def element_count(self) -> Dim | None:
        return None if self.shape is None else dims.product(self.shape)

    @property
    def elements(self) -> int:
        """How many elements a tensor of known sizes has; 0 where a size is not a number."""
        return prod(d for d in self.shape or () if isinstance(d, int)) if self.is_static else 0

    def __str__(self) -> str:
        inside = "..." if self.shape is None else ", ".join(map(str, self.shape))
        return f"{self.dtype}[{inside}]"


@dataclass(frozen=True)
class SequenceType:
    """ONNX's sequence: any number of values of one type. Prints as `seq(f32[...])`."""

    element: Type

    def __str__(self) -> str:
        return f"seq({self.element})"


@dataclass(frozen=True)
class OptionalType:
    """ONNX's optional: a value of the type, or none. Prints as `optional(f32[N])`."""

    element: Type

    def __str__(self) -> str:
        return f"optional({self.element})"


@dataclass(frozen=True)
class MapType:
    """ONNX's map: a dict from integers or strings to values of one type. Prints as
    `map(string, f32[])`. ShapeError for keys of another type."""

    key: DType
    element: Type

    def __post_init__(self) -> None:
        if self.key not in MAP_KEYS:
            raise ShapeError(
                "a map has keys of a type that is not allowed",
                got=self.key,
                expected=", ".join(map(str, MAP_KEYS)),
            )

    def __str__(self) -> str:
        return f"map({self.key}, {self.element})"


Type: TypeAlias = TensorType | SequenceType | OptionalType | MapType

# What the keys of maps may be, as ONNX has it.
MAP_KEYS = (DType.string, *(DType(f"{s}{n}") for s in "iu" for n in (8, 16, 32, 64)))


def _wrapper(name: str, key: str = "") -> Callable[[Type], Type]:
    """What makes a type of the one inside. ValueError for an element type that is none."""
    if name == "map":
        return partial(MapType, DType(key))
    return SequenceType if name == "seq" else OptionalType


def _size(d: Dim) -> Dim:
    value = d if isinstance(d, Expr) else int(operator.index(d))
    if interval_of(value)[1] < 0:
        raise ShapeError("a tensor has a negative size", got=value)
    return value


def parse_type(text: str, bounds: Bounds | None = None) -> Type:
    """Reads what str prints; symbols get their bounds from `bounds`, else (0, None). ShapeError."""
    heads: list[tuple[str, str]] = []
    while match := _WRAPPER.match(text):
        heads.append((match[1] or "map", match[2] or ""))
        text = match[3]
        if len(heads) > _MAX_NESTING:
            break
    match = _TENSOR.match(text)
    if match is None or len(heads) > _MAX_NESTING:
        raise ShapeError("not a type", got=repr(text[:120]), expected="such as f32[N, 3]")
    try:
        wrappers = [_wrapper(*head) for head in heads]
        dtype = DType(match[1])
    except ValueError as error:
        names = ", ".join(t.value for t in DType)
        raise ShapeError("unknown element type", got=str(error)[:80], expected=names) from None
    out: Type = TensorType(dtype, _parse_shape(match[2].strip(), bounds))
    for wrapper in reversed(wrappers):
        out = wrapper(out)
    return out


def _parse_shape(text: str, bounds: Bounds | None) -> Shape:
    if text == "...":
        return None
    if not text:
        return ()
    parts, depth, quoted = [""], 0, False
    for char in text:
        quoted ^= char == "`"
        depth += 0 if quoted else (char == "(") - (char == ")")
        if char == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += char
    return tuple(dims.parse(part, bounds) for part in parts)


def format_shape(shape: Sequence[Dim | str]) -> str:
    """A shape as messages show it: `[2, n + 1]`."""
    return f"[{', '.join(map(str, shape))}]"


def joined_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """What arrays of these shapes broadcast to. ShapeError where they do not. (NumPy's own function
    knows half as many axes as its arrays.)"""
    shape = broadcast_shapes(*map(tuple, shapes))
    return tuple(d for d in shape or () if isinstance(d, int))


def broadcast_shapes(*shapes: Shape, where: str = "") -> Shape:
    """NumPy's rule, shapes aligned at the last axis; None where any rank is unknown.

    ShapeError, with all shapes, where two sizes are known to differ and not to be 1.
    """
    known: list[tuple[Dim, ...]] = []
    for shape in shapes:
        if shape is None:
            return None
        known.append(shape)
    rank = max(map(len, known), default=0)
    out: list[Dim] = [1] * rank
    try:
        for shape in known:
            for axis, d in enumerate(shape, start=rank - len(shape)):
                out[axis] = dims.broadcast(out[axis], d)
        if require.are_wanted():
            _require_broadcasts(known, out)
    except ShapeError:
        raise ShapeError(
            "shapes do not broadcast",
            where=where or None,
            got=" and ".join(map(format_shape, known)),
            expected="sizes equal or 1, axis by axis from the last",
        ) from None
    return tuple(out)


def compatible(declared: Type, inferred: Type) -> bool:
    """Can both be true of one value? What is not known is compatible with anything."""
    if isinstance(declared, TensorType):
        return isinstance(inferred, TensorType) and _tensors_agree(declared, inferred)
    if isinstance(inferred, TensorType) or type(declared) is not type(inferred):
        return False
    if isinstance(declared, MapType) and declared.key is not cast(MapType, inferred).key:
        return False
    return compatible(declared.element, inferred.element)


def _tensors_agree(a: TensorType, b: TensorType) -> bool:
    if a.dtype is not b.dtype and DType.dynamic not in (a.dtype, b.dtype):
        return False
    if a.shape is None or b.shape is None:
        return True
    if len(a.shape) != len(b.shape):
        return False
    return all(dims.eq(x, y) is not False for x, y in zip(a.shape, b.shape, strict=True))


def _require_broadcasts(shapes: Sequence[tuple[Dim, ...]], out: Sequence[Dim]) -> None:
    for shape in shapes:
        for d, target in zip(reversed(shape), reversed(out), strict=False):
            # A size that is itself a broadcast says so when it is computed.
            if d is not target and not str(target).startswith("broadcast("):
                require.require_broadcast(d, target, "shapes do not broadcast")


def merge(declared: Type, inferred: Type, where: str = "") -> Type:
    """The more precise of two descriptions of one value; ShapeError where they contradict.

    Axis by axis a static size wins, then tighter bounds, then the inferred size: it is written in
    symbols that the inputs give values to.
    """
    if not compatible(declared, inferred):
        raise ShapeError(
            "a value's type contradicts its declaration",
            where=where or None,
            got=inferred,
            expected=declared,
        )
    return _merge(declared, inferred)


def _merge(declared: Type, inferred: Type) -> Type:
    if isinstance(declared, TensorType) and isinstance(inferred, TensorType):
        dtype = declared.dtype if inferred.dtype is DType.dynamic else inferred.dtype
        if declared.shape is None or inferred.shape is None:
            return TensorType(dtype, inferred.shape if declared.shape is None else declared.shape)
        pairs = zip(declared.shape, inferred.shape, strict=True)
        return TensorType(dtype, tuple(_merge_dims(a, b) for a, b in pairs))
    if isinstance(declared, SequenceType) and isinstance(inferred, SequenceType):
        return SequenceType(_merge(declared.element, inferred.element))
    if isinstance(declared, OptionalType) and isinstance(inferred, OptionalType):
        return OptionalType(_merge(declared.element, inferred.element))
    if isinstance(declared, MapType) and isinstance(inferred, MapType):
        return MapType(declared.key, _merge(declared.element, inferred.element))
    return inferred


def _merge_dims(declared: Dim, inferred: Dim) -> Dim:
    if isinstance(declared, int) or isinstance(inferred, int):
        return declared if isinstance(declared, int) else inferred
    (lo_a, hi_a), (lo_b, hi_b) = interval_of(declared), interval_of(inferred)
    tighter = lo_a >= lo_b and hi_a <= hi_b and (lo_a, hi_a) != (lo_b, hi_b)
    # Only a finite range is worth losing the link to the inputs' symbols.
    return declared if tighter and hi_a < inf else inferred


def normalize_axis(axis: int, rank: int, where: str = "") -> int:
    """axis in [-rank, rank) as an index in [0, rank); ShapeError outside."""
    index = int(operator.index(axis))
    if not -rank <= index < rank:
        expected = f"{-rank}..{rank - 1}" if rank else "no axis: the value is a scalar"
        raise ShapeError("axis is out of range", where=where or None, got=axis, expected=expected)
    return index % rank


def to_json(t: Type) -> Json:
    """["f32", [dim, ...]], ["f32"] for an unknown rank, ["seq", type], ["optional", type],
    ["map", "i64", type]."""
    if isinstance(t, TensorType):
        shape: list[Json] = [] if t.shape is None else [[dims.to_json(d) for d in t.shape]]
        return [t.dtype.value, *shape]
    if isinstance(t, MapType):
        return ["map", t.key.value, to_json(t.element)]
    name = "seq" if isinstance(t, SequenceType) else "optional"
    return [name, to_json(t.element)]


def from_json(x: object) -> Type:
    """Reads `to_json`; VerificationError for anything else."""
    wrappers: list[Callable[[Type], Type]] = []
    try:
        items = _expect_list(x)
        while items[0] in ("seq", "optional", "map") and len(wrappers) <= _MAX_NESTING:
            *head, inner = items
            if len(head) != 1 + (head[0] == "map"):
                raise ValueError("parts")
            wrappers.append(_wrapper(*head))
            items = _expect_list(inner)
        dtype = DType(items[0])
        sizes = [_expect_list(part) for part in items[1:]]
        if len(sizes) > 1 or (sizes and len(sizes[0]) > MAX_RANK):
            raise ValueError("rank")
        out: Type = TensorType(dtype, tuple(map(dims.from_json, sizes[0])) if sizes else None)
        for wrapper in reversed(wrappers):
            out = wrapper(out)
    except (ShapeError, ValueError, TypeError, IndexError) as error:
        raise VerificationError("a stored type is not valid", got=str(error)[:200]) from error
    return out


def _expect_list(x: object) -> Sequence[Any]:
    if not isinstance(x, list):
        raise TypeError("not a list")
    return cast("list[Any]", x)


def coerce_to_dtype(result: Any, dtype: DType, *, saturates: bool = False) -> Any:
    """What an operation gave for a tensor of `dtype`. u1, u3 and u6 are computed in uint8, where
    results outgrow them; they wrap as other integers do, or saturate as rounded floats do."""
    bits = _BITS.get(dtype)
    if bits is None or np.asarray(result).dtype != np.uint8:
        return result
    return np.minimum(result, np.uint8(bits)) if saturates else result & bits


def native_order(value: Any) -> Any:
    """A value whose arrays, those in lists and maps too, have this machine's byte order; the value
    itself where they have."""
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if isinstance(value, Mapping):
        return {k: native_order(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [native_order(v) for v in cast("Sequence[Any]", value)]
    return value
