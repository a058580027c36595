"""How far two ways of computing a graph may differ.

They differ in their last bits, and an operation with a step (Floor, ArgMax, Equal) makes a large
difference of a small one. So evaluation is run again with noise of some units in the last place at
every inexact operation: where that changes the answer, the answer says nothing, and elsewhere the
change says how much a difference may be.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.ir.errors import Error
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_node
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.ops import Result
from irc_compiler.ir.ops.math.elementwise import Elementwise

NOISY_RUNS = 4
# The share of an array's largest element that every element may be off by, in units of `slack`.
PART = 16
# Units in the last place by which kernels and NumPy may differ after one operation. Types narrower
# than f32 are computed in f32 and rounded, here once and there again.
_ULPS = 16
_ULPS_OF_NARROW = 2
# Only moves or compares: exact for every element.
EXACT = frozenset(
    "Parameter TypedParameter Constant Result Reshape Squeeze Unsqueeze Transpose Concat Split "
    "VariadicSplit Slice StridedSlice Gather GatherElements GatherND ScatterElementsUpdate "
    "ScatterNDUpdate ScatterUpdate Pad Reverse ReverseSequence Roll DepthToSpace SpaceToDepth "
    "BatchToSpace SpaceToBatch ShuffleChannels Broadcast Tile TopK Identity Abs Negative Relu "
    "Maximum Minimum Clamp Select ReduceMax ReduceMin MaxPool OneHot BitCast Floor Ceiling "
    "Sign Eye Range Unique".split()
)

# Steps that go on from their own results: rounding early moves all that comes later.
RECURRENT = frozenset(
    f"{cell}{what}" for cell in ("LSTM", "GRU", "RNN") for what in ("Cell", "Sequence")
)
# Whose numbers a fused operation holds in f32, where f16 overflows between two of them.
OVERFLOWS = frozenset({"Add", "Subtract", "Multiply", "Divide", "MatMul"})
# What may be attention, or become it.
ATTENDS = frozenset({"Softmax", "Attention", "ScaledDotProductAttention"})
# Of integers computed in f64, whose functions are exact to some bits less.
FUNCTIONS = frozenset(
    "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Elu Erf Exp Gelu HSigmoid HSwish HardSigmoid Log "
    "Mish Selu Sigmoid Sin Sinh SoftPlus SoftSign Sqrt Swish Tan Tanh".split()
)
# Functions that gate an activation, and the rules that recognise one.
GATES = ("Erf", "Tanh", "Sigmoid", "SoftPlus")
FUSES_GATES = ("fuse_gelu_gate", "fuse_swish_gate", "fuse_mish")


def spread_of(
    graph: Graph, inputs: Sequence[Any], want: Sequence[Any], rng: random.Random
) -> list[Any]:
    """Per output: how far each element moves under noise (infinity: it may be anything), or None
    where even its shape moves."""
    out: list[Any] = [np.zeros(w.shape) if isinstance(w, np.ndarray) else None for w in want]
    on_bytes, causal = _runs_on_bytes(graph), _is_causal(graph)
    for run in range(NOISY_RUNS):
        try:
            noise = np.random.default_rng(rng.randrange(1 << 30))
            low = run % 2 == 0
            noisy = _interpret_with_noise(graph, inputs, noise, low, on_bytes, causal and low)
        except Error:
            return [None] * len(want)
        for n, (a, b) in enumerate(zip(want, noisy, strict=True)):
            if out[n] is not None:
                far = moved(a, b)
                out[n] = None if far is None else np.maximum(out[n], far)
    return [None if s is None or _stepped(s, w) else s for s, w in zip(out, want, strict=True)]


def _stepped(spread: Any, want: Any) -> bool:
    """Whether noise went through a step: one element that jumps makes every other one doubtful."""
    if not isinstance(want, np.ndarray) or not is_float(want.dtype):
        return bool(np.any(spread))
    finite = np.abs(want[np.isfinite(want)].astype(np.float64))
    return bool(np.any(spread > 256 * slack(want.dtype) * finite.max(initial=1.0)))


def _interpret_with_noise(
    graph: Graph, inputs: Sequence[Any], rng: Any, low: bool, on_bytes: bool, overlooks: bool
) -> list[Any]:
    values: dict[Value, Any] = dict(zip(map(Value, graph.parameters), inputs, strict=True))
    seen: dict[Value | None, Any] = {}
    for n in graph.order():
        op = graph.op(n)
        if n in graph.parameters:
            continue
        arrays = [None if v is None else values[v] for v in graph.inputs(n)]
        if op.kind == "FakeQuantize" and on_bytes:
            arrays[0] = _doubtful(arrays[0], rng)
        if op.kind == "NonZero" and low:
            arrays[0] = _vanishing(arrays[0])
        if op.kind in RECURRENT:
            arrays = [_noisy(a, rng) for a in arrays]
        try:
            with np.errstate(all="ignore"):
                outputs = op.evaluate(*op.slots(arrays, running=True))
        except (ValueError, TypeError, IndexError, KeyError, ArithmeticError) as error:
            raise Error("noise made the operation fail", got=str(error)[:200]) from error
        if op.kind == "Softmax":
            outputs = (_underflowing(outputs[0], arrays[0], low=low),)
            seen[Value(n)] = arrays[0] != -np.inf
        if overlooks and getattr(op, "causal", ""):
            outputs = (_unseen(op, arrays, outputs[0]),)
        if overlooks and op.kind == "Add":
            outputs = (_hidden(*arrays, outputs[0]),)
        if overlooks and op.kind == "MatMul" and graph.input(n, 0) in seen:
            outputs = (_overlooking(op, *arrays, outputs[0], seen[graph.input(n, 0)]),)
        if low and op.kind in OVERFLOWS:
            outputs = (_held(op, arrays, outputs[0]),)
        for port, array in enumerate(outputs):
            sums = not isinstance(op, Elementwise) and op.kind != "Softmax"
            if op.kind in FUNCTIONS and isinstance(array, np.ndarray) and array.dtype.kind in "iu":
                array = _noisy(array.astype(np.float64), rng).round().astype(array.dtype)
            values[Value(n, port)] = array if op.kind in EXACT else _noisy(array, rng, sums=sums)
    return [values[Value(n)] for n in graph.results]


def _runs_on_bytes(graph: Graph) -> bool:
    """Whether a pass turns a FakeQuantize into bytes."""
    if all(graph.op(n).kind != "FakeQuantize" for n in graph.ids()):
        return False
    trace = optimize(graph.copy(), Options())
    return any(e.rule == "find_steps" and not e.refused for e in trace.events)


def _is_causal(graph: Graph) -> bool:
    """Whether a pass makes causal attention of a part of the graph."""
    if all(graph.op(n).kind not in ATTENDS for n in graph.ids()):
        return False
    made = graph.copy()
    optimize(made, Options())
    return any(getattr(made.op(n), "causal", "") for n in made.ids())


def casts_nan(graph: Graph, inputs: Sequence[Any]) -> bool:
    """Whether the bits of a NaN are read: which NaN it is, nobody says."""
    read = _values_read(graph, inputs, ("BitCast",))
    return any(bool(np.isnan(a).any()) for a in read if is_float(a.dtype))


def transforms_infinities(graph: Graph, inputs: Sequence[Any]) -> bool:
    """Whether an infinity or a NaN is transformed: a product makes NaN of other values of its axis
    than NumPy's transform (numerics.md)."""
    kinds = ("DFT", "IDFT", "RDFT", "IRDFT", "STFT", "ISTFT")
    return not all(np.isfinite(a).all() for a in _values_read(graph, inputs, kinds))


def opens_limits(graph: Graph, inputs: Sequence[Any]) -> bool:
    """Whether a pass makes Gelu, Swish or Mish of a part of the graph that infinities reach: they
    have limits there, where a product of an infinity and 0 is not a number (numerics.md)."""
    read = _values_read(graph, inputs, GATES)
    if all(np.isfinite(a).all() for a in read if is_float(a.dtype)):
        return False
    trace = optimize(graph.copy(), Options())
    return any(e.rule in FUSES_GATES and not e.refused for e in trace.events)


def _values_read(graph: Graph, inputs: Sequence[Any], kinds: Sequence[str]) -> list[Any]:
    """What the first inputs of all operations of these kinds hold."""
    read = [graph.input(n, 0) for n in graph.ids() if graph.op(n).kind in kinds]
    if not read:
        return []
    probe = graph.copy()
    for value in read:
        infer_node(probe, probe.add(Result(), [value]))
    return interpret(probe, inputs)[-len(read) :]


def _doubtful(array: Any, rng: Any) -> Any:
    """What is rounded to steps: run on bytes, it may round otherwise at ties, and makes NaN 0
    (numerics.md)."""
    return np.nan_to_num(_noisy(array, rng), nan=0, posinf=np.inf, neginf=-np.inf)


def _vanishing(array: Any) -> Any:
    """What is left where a sum cancels may be 0 or not."""
    if not is_float(array.dtype):
        return array
    size = np.abs(np.nan_to_num(array.astype(np.float64), nan=np.inf))
    most = size[np.isfinite(size)].max(initial=0)
    return np.where(size <= slack(array.dtype) * most / PART, 0, array).astype(array.dtype)


def _underflowing(weights: Any, scores: Any, *, low: bool) -> Any:
    """Weights that underflow may be 0 or not: f16's are rounded to f16 by a Softmax of its own and
    to f32 by attention, and 0 times infinity is NaN. A score of -infinity weighs 0 everywhere."""
    least = ml_dtypes.finfo(weights.dtype).smallest_normal
    with np.errstate(invalid="ignore"):
        small = (weights < least) & np.isfinite(scores)
    return np.where(small, 0 if low else least, weights).astype(weights.dtype)


def _hidden(a: Any, b: Any, made: Any) -> Any:
    """Scores that a mask of -infinity hides, whatever they are: attention does not look at the
    keys where a whole stretch of them is hidden."""
    if not is_float(made.dtype):
        return made
    return np.where((a == -np.inf) | (b == -np.inf), -np.inf, made).astype(made.dtype)


def _overlooking(op: Any, weights: Any, values: Any, made: Any, seen: Any) -> Any:
    """A product of weights and values in which the values of keys that attention hides may hold
    anything: they are not looked at where a whole stretch of keys is hidden (numerics.md)."""
    finite = np.isfinite(values)
    there = (~finite).astype(np.float32)
    met, every = (op.evaluate(s.astype(np.float32), there)[0] for s in (seen, np.ones_like(seen)))
    with np.errstate(all="ignore"):
        (without,) = op.evaluate(weights, np.where(finite, values, 0).astype(values.dtype))
    return _where_met(met, every, made, without)


def _where_met(met: Any, every: Any, made: Any, without: Any) -> Any:
    """What attention makes of values without those that are hidden, given how many of those that
    are not finite numbers a row sees; anything where it sees some, and some are hidden."""
    some = np.where(every > met, 0, made)
    return np.where(met > 0, some, without).astype(made.dtype)


def _unseen(op: Any, arrays: Sequence[Any], made: Any) -> Any:
    """Causal attention in which values behind the last key that a row sees may hold anything."""
    query, key, values, *rest = arrays
    finite = np.isfinite(values)
    rows, keys = made.shape[-2], values.shape[-2]
    if not keys:
        return made
    last = np.arange(rows) + (keys - rows if op.causal == "last" else 0)
    count = np.cumsum(~finite, axis=-2)
    met = count[..., np.clip(last, 0, keys - 1), :] * (last >= 0)[:, None]
    with np.errstate(all="ignore"):
        plain = np.where(finite, values, 0).astype(values.dtype)
        (without,) = op.evaluate(*op.slots([query, key, plain, *rest], running=True))
    return _where_met(met, count[..., -1:, :], made, without)


def _held(op: Any, arrays: Sequence[Any], made: Any) -> Any:
    """What overflowed a type narrower than f32, as a number: fused with what follows, it is one
    (numerics.md: a storage rounding less). What divides by 0 or meets infinity stays."""
    if not is_float(made.dtype) or made.dtype.itemsize > 2 or not np.isinf(made).any():
        return made
    a, b = (~np.isfinite(x) for x in arrays)
    if op.kind == "Divide":
        b |= arrays[1] == 0
    if op.kind == "MatMul":
        x, y = a.astype(np.float32), b.astype(np.float32)
        met = op.evaluate(x, np.ones_like(y))[0] + op.evaluate(np.ones_like(x), y)[0] > 0
    else:
        met = a | b
    most = np.copysign(0.75 * float(ml_dtypes.finfo(made.dtype).max), made)  # and noise added
    return np.where(np.isinf(made) & ~met, most, made).astype(made.dtype)


def _noisy(array: Any, rng: Any, *, sums: bool = False) -> Any:
    """Sums cancel: what is left of one is as exact as the largest, not as itself."""
    if not isinstance(array, np.ndarray) or array.dtype == object or not is_float(array.dtype):
        return array
    wide = array.astype(np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    with np.errstate(all="ignore"):
        size = np.abs(wide) + finite.max(initial=0) / PART if sums else np.abs(wide)
        far = slack(array.dtype) * np.where(np.isfinite(wide), size, 0)
        return np.asarray(wide + far * rng.uniform(-1.0, 1.0, array.shape)).astype(array.dtype)


def is_float(dtype: Any) -> bool:
    return dtype.kind == "f" or "float" in dtype.name or dtype.name == "bfloat16"


def slack(dtype: Any) -> float:
    """How far one operation may be off, relative to the result."""
    if dtype.name in ("float64", "complex128"):
        return _ULPS * 2.0**-46  # calls functions that are exact to some bits less
    narrow = dtype.itemsize < 4
    return (_ULPS_OF_NARROW if narrow else _ULPS) * float(ml_dtypes.finfo(dtype).eps)


def moved(a: Any, b: Any) -> Any:
    """Per element how far b is from a; None where shapes differ."""
    if not isinstance(a, np.ndarray):
        return None
    if not isinstance(b, np.ndarray) or a.shape != b.shape:
        return None
    if a.dtype == object or a.dtype.kind in "bc":
        return np.where(a == b, 0.0, np.inf) if a.dtype.kind != "c" else np.abs(a - b)
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        far = np.nan_to_num(np.abs(x - y), nan=np.inf)
        return np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, far)
