"""What elementwise operations share: one scalar program says what an operation means.

`program` writes the instructions; `evaluate` runs them with NumPy, passes group them and lowering
hands them to kernels, so an operation's formula is in one module. Small floats compute in f32
with one rounding at the end; integers wrap.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ... import dims
from ...dims import Expr
from ...dims.constraints import require_equal
from ...dtype import DType
from ...errors import ShapeError, UnsupportedOperationError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.builder import Builder, Ref, evaluate_program
from ...scalar.program import Program
from ...types import TensorType, Type, broadcast_shapes, format_shape
from ..accumulate import computing_dtype
from ..shape_inference import Shape, fits, list_dtypes, one_dtype

NUMBERS = frozenset(t for t in DType if t.is_int or t.is_float)
# nf4 takes part in what is elementwise or a sum of products; no other operation reads its table.
FLOATS = frozenset(t for t in DType if t.is_float and t is not DType.nf4)
INTEGERS = frozenset(t for t in DType if t.is_int)
BOOLEAN = frozenset([DType.boolean])


class Elementwise(Op):
    """Base: every output element from the input elements at the same index, NumPy broadcasting."""

    # The scalar operation, where a single one is the whole meaning.
    scalar: ClassVar[str] = ""
    # Element types of the inputs, and the rule in words for messages.
    allowed: ClassVar[frozenset[DType]] = NUMBERS
    rule: ClassVar[str] = "a numeric type"

    def program(self, b: Builder, *x: Any) -> Ref:
        """Write the meaning; `x` holds one Ref per port in computing types, None where absent."""
        return b.op(self.scalar, *x)

    def output_dtype(self, *dtypes: DType | None) -> DType:
        """Element type of the output from those of the inputs."""
        found = [d for d in dtypes if d is not None]
        return found[0]

    def operand_shapes(self, *shapes: Shape | None) -> tuple[Shape | None, ...]:
        """The inputs' shapes as broadcasting sees them (PRelu's slope is aligned to axis 1)."""
        return shapes

    def check_dtypes(self, *facts: Fact | None) -> None:
        """Refuse element types that the operation does not take."""
        dtype = one_dtype(*facts)
        if not fits(dtype, self.allowed):
            raise ShapeError(
                f"{self.kind} does not take this element type",
                got=dtype,
                expected=list_dtypes(self.rule, self.allowed),
            )

    def infer(self, *facts: Fact | None) -> tuple[Type, ...]:
        self.check_dtypes(*facts)
        dtype = self.output_dtype(*(None if f is None else f.tensor.dtype for f in facts))
        given = [f for f in facts if f is not None]
        shapes = self.operand_shapes(*(f.tensor.shape for f in given))
        return (TensorType(dtype, self._broadcast(shapes)),)

    def _broadcast(self, shapes: Sequence[Shape | None]) -> Shape | None:
        mode = str(getattr(self, "auto_broadcast", "numpy")).lower()
        if mode == "numpy":
            return broadcast_shapes(*shapes)
        if mode != "none":
            raise UnsupportedOperationError(
                f"{self.kind} with this auto_broadcast", got=mode, expected="numpy or none"
            )
        known = [s for s in shapes if s is not None]
        for shape in known[1:]:
            pairs = list(zip(known[0], shape, strict=False))
            if len(shape) != len(known[0]) or any(dims.eq(a, b) is False for a, b in pairs):
                raise ShapeError(
                    f"{self.kind} does not broadcast (auto_broadcast is none)",
                    got=" and ".join(map(format_shape, known)),
                    expected="equal shapes",
                )
            for a, b in pairs:
                require_equal(a, b, f"{self.kind} does not broadcast")
        return known[0] if known else None

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        given = [np.asarray(a) for a in arrays if a is not None]
        if any(holds_sizes(a) for a in given):
            return (self.on_sizes(*given),)
        shapes = self.operand_shapes(*(tuple(a.shape) for a in given))
        if len(shapes) > 1:
            self._broadcast(shapes)
        moved = [a.reshape(sizes_of(s)) for a, s in zip(given, shapes, strict=True)]
        dtypes = tuple(None if a is None else DType.from_numpy(a.dtype) for a in arrays)
        (out,) = evaluate_program(program_of(self, dtypes), moved)
        return (out,)

    def on_sizes(self, *arrays: Array) -> Array:
        """The operation on arrays that hold symbolic sizes. TypeError where it has no answer."""
        function = ON_SIZES.get(self.scalar)
        if function is None:
            raise TypeError(f"{self.kind} is not defined on symbolic sizes")
        return np.asarray(function(*arrays))


def program_of(op: Elementwise, dtypes: Sequence[DType | None]) -> Program:
    """The scalar program of an operation for inputs of these element types (None: absent).

    Operand i of the program is the i-th input that is present.
    """
    # Floats are keyed by their text: 0.0 and -0.0 are equal, and their programs are not.
    fields = tuple(repr(v) if isinstance(v, float) else v for v in vars(op).values())
    key = (type(op), fields, tuple(dtypes))
    found = _programs.get(key)
    if found is None:
        if len(_programs) >= _MAX_CACHED_PROGRAMS:
            _programs.clear()
        found = _programs[key] = _build_program(op, dtypes)
    return found


# Cached programs: passes request the program of one operation many times.
_programs: dict[tuple[object, ...], Program] = {}
_MAX_CACHED_PROGRAMS = 1024


def _build_program(op: Elementwise, dtypes: Sequence[DType | None]) -> Program:
    b = Builder()
    refs: list[Ref | None] = []
    for dtype in dtypes:
        if dtype is None:
            refs.append(None)
            continue
        number = sum(r is not None for r in refs)
        refs.append(b.cast(b.input(number, dtype), computing_dtype(dtype)))
    # A graph does not say that trailing inputs are absent.
    refs += [None] * (len(op.inputs) - len(refs))
    return b.finish(b.cast(op.program(b, *refs), op.output_dtype(*dtypes)))


def sizes_of(shape: Shape | None) -> tuple[int, ...]:
    """A shape all of whose sizes are known."""
    assert shape is not None
    return tuple(d for d in shape if isinstance(d, int))


def holds_sizes(array: Array) -> bool:
    """Whether an array holds symbolic sizes (and not strings)."""
    return array.dtype == object and any(isinstance(v, Expr) for v in array.flat)


def _compare_dims(rule: Callable[[Any, Any], bool | None]) -> Callable[[Array, Array], Array]:
    def decide(a: Any, b: Any) -> bool:
        found = rule(a, b)
        if found is None:
            raise TypeError("not decidable for symbolic sizes")
        return found

    ufunc = np.frompyfunc(decide, 2, 1)
    return lambda a, b: np.asarray(ufunc(a, b)).astype(bool)


def _quotient(a: Any, b: Any) -> Any:
    if dims.le(0, b) is not True:
        raise TypeError("truncating division by sizes that may be negative")
    if dims.le(0, a) is True:
        return a // b
    return dims.maximum(a, 0) // b - dims.maximum(-a, 0) // b


def _negate_rule(rule: Callable[[Any, Any], bool | None]) -> Callable[[Any, Any], bool | None]:
    def negate(a: Any, b: Any) -> bool | None:
        found = rule(a, b)
        return None if found is None else not found

    return negate


# Scalar operations on symbolic sizes. Object arrays apply an operator element by element.
ON_SIZES: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "abs": np.frompyfunc(lambda dim: dims.maximum(dim, -dim), 1, 1),
    "floormod": operator.mod,
    "mod": np.frompyfunc(lambda a, b: a - _quotient(a, b) * b, 2, 1),
    "div": np.frompyfunc(_quotient, 2, 1),
    "max": np.frompyfunc(dims.maximum, 2, 1),
    "min": np.frompyfunc(dims.minimum, 2, 1),
    "eq": _compare_dims(dims.eq),
    "ne": _compare_dims(_negate_rule(dims.eq)),
    "lt": _compare_dims(dims.lt),
    "le": _compare_dims(dims.le),
    "gt": _compare_dims(_negate_rule(dims.le)),
    "ge": _compare_dims(_negate_rule(dims.lt)),
}


class Unary(Elementwise):
    """Base of operations of one input; the output has its shape and type."""

    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)


class FloatUnary(Unary):
    """Base of mathematical functions. On integers they compute in f64 and round the result."""

    saturates: ClassVar[bool] = True

    def program(self, b: Builder, *x: Ref) -> Ref:
        if x[0].dtype.is_float:
            return self.formula(b, x[0])
        wide = self.formula(b, b.cast(x[0], DType.f64))
        return b.cast(b.op("round_away", wide), x[0].dtype)

    def formula(self, b: Builder, x: Ref) -> Ref:
        """The function of a float."""
        return b.op(self.scalar, x)


@dataclass(frozen=True)
class Binary(Elementwise):
    """Base of operations of two inputs of one type."""

    inputs: ClassVar[tuple[Port, ...]] = (Port("A"), Port("B"))
    auto_broadcast: str = "numpy"
