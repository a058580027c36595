"""FakeQuantize in front of products: quantised bytes, dequantised.

q = round((x - low) / step) for `levels` even steps; where 0 is one of them, that is
round(x / step) + zero up to ties, which bytes hold. (A NaN becomes 0, as where it is quantised.)
"""

from __future__ import annotations

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.op import Array
from ....ir.ops import Clamp, Constant, Convert, Dequantize, FakeQuantize, Quantize
from ....ir.scalar.builder import cast_array
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import broadcasts_to, dtype_of, shape_of, split_constant_operand

# How far, in steps, 0 may lie from a step: what rounding the limits to f32 does.
_TOLERANCE = 1e-3
_READERS = frozenset("MatMul Gemm Convolution GroupConvolution ScaledDotProductAttention".split())
_ON_THE_WAY = frozenset(
    "Reshape Squeeze Unsqueeze Transpose Slice StridedSlice MaxPool Concat Split VariadicSplit "
    "Gather Convert Add Relu FakeQuantize Quantize Dequantize".split()
)
_QUANTIZERS = frozenset({"FakeQuantize", "Quantize"})
# Functions of a value: their results are bytes again behind the next quantiser.
_FUNCTIONS = frozenset(
    "Sigmoid Tanh Gelu Swish HSwish HSigmoid HardSigmoid Mish Elu Selu SoftPlus SoftSign PRelu "
    "Clamp Multiply Subtract Divide Maximum Minimum".split()
)
_MAX_WALK_DEPTH = 6


@dataclass(frozen=True, eq=False)
class _Steps:
    """low + step * i for i in 0..levels - 1, as step * (i - zero)."""

    step: Array
    zero: Array


def _array(graph: Graph, value: Value | None) -> Array | None:
    """The data of a constant, also of one stored in a smaller type."""
    if value is None:
        return None
    op = graph.op(value.node)
    if isinstance(op, Convert):
        data = _array(graph, graph.input(value.node, 0))
        return None if data is None else cast_array(data, op.destination_type)
    return op.data if isinstance(op, Constant) else None


def _steps(low: Array, high: Array, levels: int) -> _Steps | None:
    """The steps between two limits, if 0 is one of them for each pair."""
    with np.errstate(all="ignore"):
        bottom = low.astype(np.float64)
        step = (high.astype(np.float64) - bottom) / (levels - 1)
        exact = -bottom / step
        zero = np.rint(exact)
    if not (np.isfinite(exact).all() and (step > 0).all()):
        return None
    if (np.abs(exact - zero) > _TOLERANCE).any() or (zero < 0).any() or (zero > 255).any():
        return None
    return _Steps(step, zero)


def find_steps(graph: Graph, node: int, op: FakeQuantize) -> Patch | MatchFailure | None:
    """FakeQuantize of bytes' levels between constant limits, on its way to a product."""
    inputs = graph.inputs(node)
    if dtype_of(graph, Value(node)) is not DType.f32:
        return None
    if not _reaches_product(graph, node):
        return None
    limits = [a for v in inputs[1:] if (a := _array(graph, v)) is not None]
    x, shape = inputs[0], shape_of(graph, inputs[0])
    if x is None or shape is None or len(limits) < 4 or op.levels > 256:
        return MatchFailure("the limits are not constants, or the levels do not fit 8 bits")
    if any(broadcasts_to(a.shape, shape) is not True for a in limits):
        return MatchFailure("a limit broadcasts the data up")
    low, high, out_low, out_high = limits
    before, after = _steps(low, high, op.levels), _steps(out_low, out_high, op.levels)
    if before is None or after is None:
        return MatchFailure("0 is not a step of a range")
    data = _array(graph, x)
    if data is not None:
        return _weights(node, op, [data, *limits], after)
    return _activations(graph, node, op, before, after)


def _reaches_product(graph: Graph, node: int) -> bool:
    """Whether products read what a quantiser makes, a few operations behind it."""
    # Of each value, whether it is one of a quantiser's steps.
    reached = {(node, True)}
    for _ in range(_MAX_WALK_DEPTH + 1):
        following = set[tuple[int, bool]]()
        for at, rounded in reached:
            for reader in graph.consumers(at):
                kind = graph.op(reader).kind
                if kind in _READERS and rounded:
                    return True
                # A number is a part of the scale (sink_dequantize.py).
                scaled = kind == "Multiply" and split_constant_operand(graph, reader) is not None
                moved = scaled or kind in _ON_THE_WAY
                if moved or kind in _FUNCTIONS:
                    following.add((reader, kind in _QUANTIZERS or (rounded and moved)))
        reached = following
    return False


def _weights(node: int, op: FakeQuantize, arrays: list[Array], steps: _Steps) -> Patch:
    """The bytes of a constant: without a zero point where i8 can do without."""
    (values,) = op.evaluate(*arrays)
    exact = np.rint(values.astype(np.float64) / steps.step)
    signed = bool((steps.zero <= 128).all() and (op.levels - 1 - steps.zero <= 127).all())
    dtype = DType.i8 if signed else DType.u8
    codes = exact if signed else exact + steps.zero
    patch = Patch()
    zero = None if signed else patch.constant(steps.zero, dtype)
    scale = patch.constant(steps.step, DType.f32)
    made = patch.add(Dequantize(), patch.constant(codes, dtype), scale, zero)
    return patch.replace(Value(node), made)


def _activations(
    graph: Graph, node: int, op: FakeQuantize, before: _Steps, after: _Steps
) -> Patch | MatchFailure:
    """Limited where bytes have more steps than the operation, quantised and dequantised."""
    if not np.array_equal(np.broadcast_to(before.zero, after.zero.shape), after.zero):
        return MatchFailure("0 is another step of the output's range")
    value, patch = graph.input(node, 0), Patch()
    signed = bool((after.zero == 127).all() and op.levels == 255)
    dtype, shift = (DType.i8, after.zero - 127) if signed else (DType.u8, after.zero)
    if op.levels < 256:
        step, zero = before.step, before.zero
        if step.size != 1 or zero.size != 1:
            return MatchFailure("limits differ and leave steps of a byte unused")
        least, most = (-zero * step).item(), ((op.levels - 1 - zero) * step).item()
        value = patch.add(Clamp(float(np.float32(least)), float(np.float32(most))), value)
    zeros = patch.constant(shift, dtype) if shift.any() else None
    codes = patch.add(Quantize(dtype), value, patch.constant(before.step, DType.f32), zeros)
    scale = patch.constant(after.step, DType.f32)
    return patch.replace(Value(node), patch.add(Dequantize(), codes, scale, zeros))


_RULES = (op_rule("find_steps", (FakeQuantize,), find_steps),)

recognize_fake_quantize = Pass("recognize_fake_quantize", lambda options: _RULES)
