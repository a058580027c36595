"""Matrix products: MatMul-1 with NumPy's rule, and the dialect's Gemm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dims import eq
from ...dims.constraints import require_broadcast
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.builder import Builder, evaluate_program
from ...scalar.program import Program
from ...types import TensorType, Type, broadcast_shapes, format_shape
from ..accumulate import computing_dtype, multiply_matrices, narrow_array, widen_array
from ..shape_inference import Shape, fits, list_dtypes, one_dtype, same_size, tensor
from .activation_table import apply_activation, check_activation
from .elementwise import NUMBERS


def _require_numeric(*facts: Fact | None) -> DType:
    dtype = one_dtype(*facts)
    if not fits(dtype, NUMBERS):
        raise ShapeError(
            "a matrix product needs numbers",
            got=dtype,
            expected=list_dtypes("a numeric type", NUMBERS),
            fix="insert a Convert",
        )
    return dtype


def _matrix(shape: Shape, transpose: bool) -> Shape:
    """The shape of a matrix operand after its transposition."""
    return (*shape[:-2], shape[-1], shape[-2]) if transpose else shape


def product_shape(a: Shape, b: Shape) -> Shape:
    """Shape of the product of operands of rank 2 or more, transposed already."""
    what = "the inner sizes of a matrix product differ"
    if eq(a[-1], b[-2]) is False:
        expected = f"as many rows of the second as columns of the first ({a[-1]})"
        raise ShapeError(what, got=f"{format_shape(a)} x {format_shape(b)}", expected=expected)
    same_size(a[-1], b[-2], what)
    try:
        batch = broadcast_shapes(a[:-2], b[:-2])
    except ShapeError as error:
        raise ShapeError(
            "the batch sizes of a matrix product do not broadcast",
            got=f"{format_shape(a)} x {format_shape(b)}",
            expected="each pair equal, or one of them 1",
        ) from error
    assert batch is not None
    return (*batch, a[-2], b[-1])


@dataclass(frozen=True)
class MatMul(Op):
    """MatMul-1: transposes are ignored for rank 1; a rank-1 A is a row and a rank-1 B a column,
    whose added axes leave the output; leading axes broadcast."""

    kind: ClassVar[str] = "MatMul"
    inputs: ClassVar[tuple[Port, ...]] = (Port("A"), Port("B"))
    transpose_a: bool = False
    transpose_b: bool = False

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        # multiply_matrices widens small floats to f32 and small integers to f64.
        dtype = outputs[0].dtype
        if dtype.is_float and dtype.bits < 32:
            width = 4
        elif dtype.is_int and dtype.bits <= 16:
            width = 16
        else:
            return 0
        return width * sum(t.elements for t in (*inputs, *outputs) if t is not None)

    def infer(self, a: Fact, b: Fact) -> tuple[Type, ...]:
        dtype = _require_numeric(a, b)
        for name, fact in (("A", a), ("B", b)):
            if fact.tensor.shape == ():
                raise ShapeError(
                    "a matrix product takes no scalars",
                    got=f"input {name!r} of rank 0",
                    expected="rank 1 or more",
                )
        left, right = a.tensor.shape, b.tensor.shape
        if left is None or right is None:
            return (tensor(dtype, None),)
        row, column = len(left) == 1, len(right) == 1
        left = (1, *left) if row else _matrix(left, self.transpose_a)
        right = (*right, 1) if column else _matrix(right, self.transpose_b)
        *batch, m, n = product_shape(left, right)
        return (tensor(dtype, [*batch, *([] if row else [m]), *([] if column else [n])]),)

    def evaluate(self, a: Array, b: Array) -> tuple[Array, ...]:
        left = a.swapaxes(-1, -2) if self.transpose_a and a.ndim > 1 else a
        right = b.swapaxes(-1, -2) if self.transpose_b and b.ndim > 1 else b
        return (narrow_array(np.asarray(multiply_matrices(left, right)), a.dtype),)


@dataclass(frozen=True)
class Gemm(Op):
    """activation(alpha * A' x B' + beta * C), where A' and B' are transposed as the flags say.

    Operands have rank 2 or more and batch axes as in MatMul; C broadcasts to the product, never
    the other way. `activation` is a name of ACTIVATIONS, `activation_params` its parameters in
    order (missing ones have their defaults). beta = 0: C is not read. Integers: exact modulo
    2^n where alpha and beta are whole, else computed in f64 and truncated. Sources: ONNX Gemm,
    DirectML's GEMM.
    """

    kind: ClassVar[str] = "Gemm"
    version: ClassVar[int] = 0
    scratch_width: ClassVar[int] = 12
    inputs: ClassVar[tuple[Port, ...]] = (Port("A"), Port("B"), Port("C", optional=True))
    alpha: float = 1.0
    beta: float = 1.0
    transpose_a: bool = False
    transpose_b: bool = False
    activation: str = "identity"
    activation_params: tuple[float, ...] = ()

    def infer(self, a: Fact, b: Fact, c: Fact | None = None) -> tuple[Type, ...]:
        dtype = _require_numeric(a, b, c)
        check_activation(self.activation, self.activation_params, dtype)
        left, right = a.tensor.shape, b.tensor.shape
        for name, shape in (("A", left), ("B", right)):
            if shape is not None and len(shape) < 2:
                raise ShapeError(
                    f"input {name!r} of Gemm has too few axes",
                    got=format_shape(shape),
                    expected="rank 2 or more",
                )
        if left is None or right is None:
            return (tensor(dtype, None),)
        out = product_shape(_matrix(left, self.transpose_a), _matrix(right, self.transpose_b))
        if c is not None and c.tensor.shape is not None:
            _require_unidirectional(c.tensor.shape, out)
        return (tensor(dtype, out),)

    def epilogue(self, dtype: DType, acc: DType, *, with_c: bool) -> Program:
        """What follows the product: input 0 is the accumulator, input 1 an element of C (with_c:
        it is given and beta is not 0)."""
        b = Builder()
        if dtype.is_int and not (self.alpha.is_integer() and self.beta.is_integer()):
            acc = DType.f64
        value = b.input(0, acc)
        if self.alpha != 1:
            value = b.op("mul", value, b.const(self.alpha, acc))
        if with_c:
            term = b.cast(b.input(1, dtype), acc)
            if self.beta != 1:
                term = b.op("mul", term, b.const(self.beta, acc))
            value = b.op("add", value, term)
        value = apply_activation(b, self.activation, self.activation_params, value)
        return b.finish(b.cast(value, dtype))

    def evaluate(self, a: Array, b: Array, c: Array | None = None) -> tuple[Array, ...]:
        dtype = DType.from_numpy(a.dtype)
        left = a.swapaxes(-1, -2) if self.transpose_a else a
        right = b.swapaxes(-1, -2) if self.transpose_b else b
        acc = computing_dtype(dtype)
        if dtype.is_int and not (self.alpha.is_integer() and self.beta.is_integer()):
            acc = DType.f64
            left, right = left.astype(np.float64), right.astype(np.float64)
        product = np.asarray(multiply_matrices(left, right))
        if c is not None:
            _require_unidirectional(c.shape, product.shape)
        extras = [] if c is None or self.beta == 0 else [c]
        program = self.epilogue(dtype, acc, with_c=bool(extras))
        (out,) = evaluate_program(program, [widen_array(product), *extras])
        return (np.asarray(out),)


def _require_unidirectional(c: Shape, out: Shape) -> None:
    bad = len(c) > len(out) or any(
        eq(have, 1) is False and eq(have, want) is False
        for have, want in zip(reversed(c), reversed(out), strict=False)
    )
    if bad:
        raise ShapeError(
            "C does not broadcast to the product",
            got=format_shape(c),
            expected=f"sizes of {format_shape(out)} or 1, axis by axis from the last",
        )
    for have, want in zip(reversed(c), reversed(out), strict=False):
        require_broadcast(have, want, "C does not broadcast to the product")
