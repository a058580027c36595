"""onnxruntime's own operators (domain com.microsoft), which models that it optimised contain.

Source: docs/ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    Activation,
    Add,
    Broadcast,
    Clamp,
    Divide,
    Gelu,
    Gemm,
    LayerNorm,
    MatMul,
    Minimum,
    Multiply,
    ReduceMean,
    Reshape,
    RMSNorm,
    Softmax,
    Split,
    Sqrt,
    Swish,
    Transpose,
)
from ..elementary import convert_value, flatten_value, sizes_of, unary
from ..nn.convolution import conv
from ..nn.normalization import layer_normalization, mean_and_deviation

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction

# FusedGemm's activations and the names of their parameters, in our order.
_ACTIVATIONS: dict[str, tuple[str, tuple[tuple[str, float], ...]]] = {
    "Relu": ("relu", ()),
    "Sigmoid": ("sigmoid", ()),
    "Tanh": ("tanh", ()),
    "Softsign": ("softsign", ()),
    "Softplus": ("softplus", ()),
    "LeakyRelu": ("leaky_relu", (("activation_alpha", 0.01),)),
    "Elu": ("elu", (("activation_alpha", 1.0),)),
    "ThresholdedRelu": ("thresholded_relu", (("activation_alpha", 1.0),)),
    "HardSigmoid": ("hard_sigmoid", (("activation_alpha", 0.2), ("activation_beta", 0.5))),
}
# What only FusedConv has.
_OF_CONV = {"Clip": "clip", "HardSwish": "hard_swish"}


def fused_matmul(n: ImportContext) -> Value:
    """alpha * A' x B'; the batch flags move axis 0 to the last axis but one."""
    a, b = n.input(0), n.input(1)
    values: list[Value] = []
    for name, value in (("A", a), ("B", b)):
        if n.flag(f"transBatch{name}"):
            rank = n.rank(value)
            value = n.add(Transpose(), value, n.ints_value([*range(1, rank - 1), 0, rank - 1]))
        values.append(value)
    product = n.add(MatMul(n.flag("transA"), n.flag("transB")), *values)
    alpha = n.number("alpha", 1.0)
    return product if alpha == 1 else n.add(Multiply(), product, n.like(product, alpha))


def fused_gemm(n: ImportContext) -> Value:
    name = n.text("activation", "")
    if name and name not in _ACTIVATIONS:
        raise n.unsupported_error(f"FusedGemm with activation {name[:40]}")
    function, parameters = _ACTIVATIONS[name] if name else ("identity", ())
    op = Gemm(
        alpha=n.number("alpha", 1.0),
        beta=n.number("beta", 1.0),
        transpose_a=n.flag("transA"),
        transpose_b=n.flag("transB"),
        activation=function,
        activation_params=tuple(n.number(key, default) for key, default in parameters),
    )
    return n.add(op, n.input(0), n.input(1), n.optional(2))


def fused_conv(n: ImportContext) -> Value:
    """activation(convolution + bias + Z); the activation's numbers come as one list."""
    result, more = conv(n), n.optional(3)
    total = result if more is None else n.add(Add(), result, more)
    name, given = n.text("activation", ""), n.numbers("activation_params", [])
    if not name:
        return total
    if name not in _ACTIVATIONS and name not in _OF_CONV:
        raise n.unsupported_error(f"FusedConv with activation {name[:40]}")
    function = _OF_CONV[name] if name in _OF_CONV else _ACTIVATIONS[name][0]
    return n.add(Activation(function, tuple(given)), total)


def fast_gelu(n: ImportContext) -> Value:
    """The tanh form of x, or of x + bias."""
    x, bias = n.input(0), n.optional(1)
    return n.add(Gelu("TANH"), x if bias is None else n.add(Add(), x, bias))


def bias_gelu(n: ImportContext) -> Value:
    return n.add(Gelu("ERF"), n.add(Add(), n.input(0), n.input(1)))


def quick_gelu(n: ImportContext) -> Value:
    x = n.input(0)
    return n.add(Swish(), x, n.like(x, n.number("alpha", 1.702)))


def gemm_fast_gelu(n: ImportContext) -> Value:
    """The tanh form of x W + bias."""
    product, bias = n.add(MatMul(), n.input(0), n.input(1)), n.optional(2)
    return n.add(Gelu("TANH"), product if bias is None else n.add(Add(), product, bias))


def bias_split_gelu(n: ImportContext) -> Value:
    """Of x + bias, the left half times the erf form of the right half."""
    total = n.add(Add(), n.input(0), n.input(1))
    left, right = n.add_all(Split(2), total, n.int_value(-1))
    return n.add(Multiply(), left, n.add(Gelu("ERF"), right))


def bias_add(n: ImportContext) -> Value:
    return n.add(Add(), n.add(Add(), n.input(0), n.input(1)), n.input(2))


def bias_dropout(n: ImportContext) -> Imported:
    """x + bias + residual: outside of training nothing is dropped."""
    training, residual = n.known_integers(n.optional(4)), n.optional(2)
    if n.optional(4) is not None and training != [0]:
        raise n.unsupported_error("BiasDropout in training mode")
    n.has("seed")
    total = n.add(Add(), n.input(0), n.input(1))
    result = total if residual is None else n.add(Add(), total, residual)
    if not n.wants(1):
        return result
    return [result, n.add(Broadcast(), n.constant(True, DType.boolean), sizes_of(n, total))]


def bias_softmax(n: ImportContext) -> Value:
    """Softmax of x + bias over all axes from `axis` on, as if they were one."""
    n.has("is_inner_broadcast")
    total = n.add(Add(), n.input(0), n.input(1))
    axis, rank = n.axis(n.integer("axis", 1), n.rank(total)), n.rank(total)
    if axis == rank - 1:
        return n.add(Softmax(axis), total)
    rows = n.add(Softmax(1), flatten_value(n, total, axis))
    return n.add(Reshape(), rows, sizes_of(n, total))


def scaled_silu(n: ImportContext) -> Value:
    """z sigmoid(z) of z = scale x."""
    x, given = n.input(0), n.optional(1)
    scale = (
        n.like(x, n.number("alpha", 1.0)) if given is None else convert_value(n, given, n.dtype(x))
    )
    return n.add(Swish(), n.add(Multiply(), x, scale))


def swiglu(n: ImportContext) -> Value:
    """g sigmoid(alpha g) (l + beta) of a gate and a linear half, which may come joined."""
    n.has("round_activation")  # irc rounds once
    gate, linear = n.input(0), n.optional(1)
    if linear is None:
        gate, linear = n.add_all(Split(2), gate, n.int_value(-1))
    limit = n.number("limit", 0.0)
    if limit > 0:
        gate = n.add(Minimum(), gate, n.like(gate, limit))
        linear = n.add(Clamp(-limit, limit), linear)
    gate = n.add(Swish(), gate, n.like(gate, n.number("activation_alpha", 1.0)))
    beta = n.number("activation_beta", 0.0)
    return n.add(Multiply(), gate, n.add(Add(), linear, n.like(linear, beta)) if beta else linear)


def skip_layer_normalization(n: ImportContext) -> Imported:
    """Normalises input + skip + bias; that sum is output 3, mean and 1 / deviation are 1 and 2."""
    total = _add_skip(n, n.optional(4))
    op = LayerNorm(-1, n.number("epsilon", 1e-12))
    result = n.add(op, total, n.input(2), n.optional(3))
    if not (n.wants(1) or n.wants(2)):
        return [result, None, None, total]
    return [result, *mean_and_deviation(n, total, -1, op.eps), total]


def simplified_layer_normalization(n: ImportContext) -> Imported:
    """x / sqrt(mean of x * x + epsilon) * scale; output 1 is the inverse of that root, in f32."""
    x, axis, eps = n.input(0), n.integer("axis", -1), n.number("epsilon", 1e-5)
    n.has("stash_type")
    return [n.add(RMSNorm(axis, eps), x, n.input(1)), _inverse_root(n, x, axis, eps, 1)]


def skip_simplified_layer_normalization(n: ImportContext) -> Imported:
    """The same of input + skip + bias; that sum is output 3."""
    total, eps = _add_skip(n, n.optional(3)), n.number("epsilon", 1e-12)
    result = n.add(RMSNorm(-1, eps), total, n.input(2))
    if n.wants(1):
        raise n.unsupported_error("SkipSimplifiedLayerNormalization with the mean as output")
    return [result, None, _inverse_root(n, total, -1, eps, 2), total]


def _add_skip(n: ImportContext, bias: Value | None) -> Value:
    total = n.add(Add(), n.input(0), n.input(1))
    return total if bias is None else n.add(Add(), total, bias)


def _inverse_root(n: ImportContext, x: Value, axis: int, eps: float, output: int) -> Value | None:
    if not n.wants(output):
        return None
    wide, rank = convert_value(n, x, DType.f32), n.rank(x)
    axes = n.ints_value(range(n.axis(axis, rank), rank))
    mean = n.add(ReduceMean(keep_dims=True), n.add(Multiply(), wide, wide), axes)
    root = n.add(Sqrt(), n.add(Add(), mean, n.like(wide, eps)))
    return n.add(Divide(), n.like(wide, 1), root)


_MS = "com.microsoft::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    f"{_MS}FusedMatMul": {1: fused_matmul},
    f"{_MS}TransposeMatMul": {1: fused_matmul},
    f"{_MS}GemmFastGelu": {1: gemm_fast_gelu},
    f"{_MS}BiasAdd": {1: bias_add},
    f"{_MS}BiasDropout": {1: bias_dropout},
    f"{_MS}BiasSoftmax": {1: bias_softmax},
    f"{_MS}BiasSplitGelu": {1: bias_split_gelu},
    f"{_MS}ScaledSiLU": {1: scaled_silu},
    f"{_MS}SwiGLU": {1: swiglu},
    f"{_MS}FusedGemm": {1: fused_gemm},
    f"{_MS}FusedConv": {1: fused_conv},
    f"{_MS}Gelu": {1: unary(Gelu)},
    f"{_MS}FastGelu": {1: fast_gelu},
    f"{_MS}BiasGelu": {1: bias_gelu},
    f"{_MS}QuickGelu": {1: quick_gelu},
    f"{_MS}SkipLayerNormalization": {1: skip_layer_normalization},
    f"{_MS}SkipSimplifiedLayerNormalization": {1: skip_simplified_layer_normalization},
    # onnxruntime puts these into ONNX's own domain, as operators of version 1.
    "SimplifiedLayerNormalization": {1: simplified_layer_normalization},
    f"{_MS}SimplifiedLayerNormalization": {1: simplified_layer_normalization},
    f"{_MS}LayerNormalization": {1: layer_normalization},
}
