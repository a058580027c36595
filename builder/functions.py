"""The common operations as functions of tensors, arrays and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..ir import ops as o
from ..ir.dtype import DType
from ..ir.errors import ShapeError
from ..ir.op import Op
from .tensor import Like, Tensor, add_node, add_op, as_ints, as_tensors, constant, element_type

# Matrix products ------------------------------------------------------------------------------


def matmul(a: Like, b: Like, *, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """MatMul-1: NumPy's rule for vectors and leading axes."""
    return add_op(o.MatMul(transpose_a, transpose_b), a, b)


def gemm(
    a: Like,
    b: Like,
    c: Like | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    trans_a: bool = False,
    trans_b: bool = False,
    activation: str | None = None,
    activation_params: Sequence[float] = (),
) -> Tensor:
    """activation(alpha * A' x B' + beta * C), DirectML's GEMM (DML_GEMM_OPERATOR_DESC).

    a: [batch, channel, M, K] ([..., K, M] with trans_a); b: [batch, channel, K, N] ([..., N, K]
    with trans_b); batch and channel may be left out, and are independent products (a size of 1
    is used for all). c: the output's sizes, or a tensor that broadcasts to them; not read where
    beta is 0. One element type for all; f16 accumulates in f32 and is rounded once, at the end.

    activation: a name of `ACTIVATIONS`; activation_params: its parameters in order, missing ones
    have their defaults. ShapeError for a rank outside 2 to 4 and for sizes that do not fit.
    """
    op = o.Gemm(
        alpha=float(alpha),
        beta=float(beta),
        transpose_a=trans_a,
        transpose_b=trans_b,
        activation=activation or "identity",
        activation_params=tuple(float(p) for p in activation_params),
    )
    tensors = as_tensors((a, b, c))
    for letter, tensor in zip("ABC", tensors, strict=True):
        rank = None if tensor is None else tensor._tensor_type.rank
        lowest = 0 if letter == "C" else 2
        if rank is not None and not lowest <= rank <= 4:
            raise ShapeError(f"{letter} of gemm has a rank that it does not take",
                             got=rank, expected=f"{lowest} to 4")  # fmt: skip
    return add_node(op, tensors)[0]


# The names of activations -> their parameters with defaults.
ACTIVATIONS: dict[str, dict[str, float]] = {
    name: dict(found.parameters) for name, found in o.ACTIVATIONS.items()
}

# Elementwise ----------------------------------------------------------------------------------


def _unary(make: Callable[[], Op]) -> Callable[[Like], Tensor]:
    return lambda x: add_op(make(), x)


def _binary(make: Callable[[], Op]) -> Callable[[Like, Like], Tensor]:
    return lambda a, b: add_op(make(), a, b)


add, subtract, multiply = _binary(o.Add), _binary(o.Subtract), _binary(o.Multiply)
# Integers are divided toward zero, as ONNX divides.
divide = _binary(lambda: o.Divide(m_pythondiv=False))
maximum, minimum, power = _binary(o.Maximum), _binary(o.Minimum), _binary(o.Power)
equal, not_equal, less = _binary(o.Equal), _binary(o.NotEqual), _binary(o.Less)
less_equal, greater = _binary(o.LessEqual), _binary(o.Greater)
greater_equal = _binary(o.GreaterEqual)
logical_and, logical_or = _binary(o.LogicalAnd), _binary(o.LogicalOr)
logical_not = _unary(o.LogicalNot)
negative, abs, sign = _unary(o.Negative), _unary(o.Abs), _unary(o.Sign)
exp, log, sqrt, erf = _unary(o.Exp), _unary(o.Log), _unary(o.Sqrt), _unary(o.Erf)
sin, cos, tan = _unary(o.Sin), _unary(o.Cos), _unary(o.Tan)
floor, ceil, round = _unary(o.Floor), _unary(o.Ceiling), _unary(o.Round)
relu, sigmoid, tanh = _unary(o.Relu), _unary(o.Sigmoid), _unary(o.Tanh)


def activation(x: Like, name: str, *parameters: float) -> Tensor:
    """A function of `ACTIVATIONS` on every element; missing parameters have their defaults."""
    return add_op(o.Activation(name, tuple(float(p) for p in parameters)), x)


def gelu(x: Like, approximate: str = "none") -> Tensor:
    """Gelu by erf, or by tanh where `approximate` is "tanh"."""
    return add_op(o.Gelu("TANH" if approximate == "tanh" else "ERF"), x)


def clip(x: Like, low: float, high: float) -> Tensor:
    """x limited to [low, high]."""
    return add_op(o.Clamp(float(low), float(high)), x)


def where(condition: Like, a: Like, b: Like) -> Tensor:
    """a where the condition holds, else b; all three broadcast."""
    (test,) = as_tensors((condition,))
    return add_node(o.Select(), (test, *as_tensors((a, b))))[0]


def convert(x: Like, dtype: str | DType) -> Tensor:
    """Another element type: floats to integers saturate, NaN becomes 0."""
    return add_op(o.Convert(element_type(dtype)), x)


# Along axes -----------------------------------------------------------------------------------


def softmax(x: Like, axis: int = -1) -> Tensor:
    """exp(x) / sum of exp(x) along an axis."""
    return add_op(o.Softmax(axis), x)


def log_softmax(x: Like, axis: int = -1) -> Tensor:
    """The logarithm of softmax."""
    return add_op(o.LogSoftmax(axis), x)


def layer_norm(
    x: Like, scale: Like | None = None, bias: Like | None = None, *, axis: int = -1,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Mean 0 and variance 1 over the axes from `axis` on, then * scale + bias."""
    return add_op(o.LayerNorm(axis, eps), x, scale, bias)


def rms_norm(x: Like, scale: Like | None = None, *, axis: int = -1, eps: float = 1e-5) -> Tensor:
    """x / sqrt(mean of x * x + eps) over the axes from `axis` on, then * scale."""
    return add_op(o.RMSNorm(axis, eps), x, scale)


def _reduction(cls: Callable[[bool], Op]) -> Callable[..., Tensor]:
    def reduce(x: Like, axes: int | Sequence[int], keep_dims: bool = False) -> Tensor:
        return add_node(cls(keep_dims), (*as_tensors((x,)), as_ints(axes)))[0]

    return reduce


reduce_sum, reduce_mean = _reduction(o.ReduceSum), _reduction(o.ReduceMean)
reduce_max, reduce_min = _reduction(o.ReduceMax), _reduction(o.ReduceMin)
reduce_prod = _reduction(o.ReduceProd)

# Shapes and movement --------------------------------------------------------------------------


def shape_of(x: Like) -> Tensor:
    """The sizes as an i64 vector."""
    return add_op(o.ShapeOf(), x)


def reshape(x: Like, shape: Sequence[int] | Tensor) -> Tensor:
    """The same elements in another shape; -1 is the remaining size."""
    return add_node(o.Reshape(), (*as_tensors((x,)), as_ints(shape)))[0]


def transpose(x: Like, order: Sequence[int] | None = None) -> Tensor:
    """Axis i of the result is axis order[i] of x; None reverses the axes."""
    return add_node(o.Transpose(), (*as_tensors((x,)), as_ints(order or ())))[0]


def squeeze(x: Like, axes: int | Sequence[int]) -> Tensor:
    """Remove axes of size 1."""
    return add_node(o.Squeeze(), (*as_tensors((x,)), as_ints(axes)))[0]


def unsqueeze(x: Like, axes: int | Sequence[int]) -> Tensor:
    """Insert axes of size 1, counted in the result."""
    return add_node(o.Unsqueeze(), (*as_tensors((x,)), as_ints(axes)))[0]


def broadcast_to(x: Like, shape: Sequence[int] | Tensor) -> Tensor:
    """x repeated to `shape`, by NumPy's rule."""
    return add_node(o.Broadcast("numpy"), (*as_tensors((x,)), as_ints(shape)))[0]


def concat(inputs: Sequence[Like], axis: int = 0) -> Tensor:
    """Tensors one after another along an axis."""
    return add_op(o.Concat(axis), *inputs)


def split(x: Like, parts: int, axis: int = 0) -> tuple[Tensor, ...]:
    """Equal parts along an axis."""
    (tensor,) = as_tensors((x,))
    return add_node(o.Split(parts), (tensor, constant(np.int64(axis))))


def gather(x: Like, indices: Like, axis: int = 0) -> Tensor:
    """Slices of x at `indices` (integers) along an axis."""
    data, index_tensor = (as_tensors((v,))[0] for v in (x, indices))
    return add_node(o.Gather(), (data, index_tensor, constant(np.int64(axis))))[0]
