"""Operations whose inputs have to fit one another: how graphs.py draws them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Value
from irc_compiler.ir.op import Op
from irc_compiler.ir.ops import Clamp
from irc_compiler.ir.types import TensorType

from .fitting import Misfit, image
from .places import adaptive, frames, points, regions, transform

if TYPE_CHECKING:
    from .graphs import Maker


def _static(t: TensorType, axis: int) -> int | None:
    d = t.shape[axis] if t.shape is not None and -len(t.shape) <= axis < len(t.shape) else None
    return d if isinstance(d, int) else None


def _matmul(m: Maker, cls: type[Op]) -> Value | None:
    x = m.value(lambda t: bool(t.shape) and isinstance(t.shape[-1], int))
    op = m.attributes(cls)
    if x is None or op is None:
        return None
    t = m.type(x)
    flip_a, flip_b = bool(op.transpose_a), bool(op.transpose_b)  # type: ignore[attr-defined]
    rank = len(t.shape or ())
    k = _static(t, -2 if flip_a and rank > 1 else -1)
    if k is None:
        return None
    n = m.pick([1, 2, 3, 5, 8, 16, 17])
    shape = [n, k] if flip_b else [k, n]
    if cls.kind == "MatMul" and not m.int(0, 3):
        shape = [m.pick([1, 1, 2]), *shape]
    weight = m.numbers(t.dtype, shape)
    third: list[Value | None] = []
    if cls.kind == "Gemm" and m.int(0, 1):
        third = [m.numbers(t.dtype, m.pick([[n], [1, n], [1], [1, 1]]))]
        op = dataclasses.replace(op, activation="identity", activation_params=())  # type: ignore[call-arg]
    return m.add(op, x, weight, *third)


def _window(m: Maker, rank: int) -> dict[str, Any]:
    few = lambda low, high: tuple(m.ints(rank, low, high))  # noqa: E731
    return {
        "strides": few(1, 2),
        "dilations": few(1, 2) if not m.int(0, 2) else (1,) * rank,
        "pads_begin": few(0, m.int(0, 1)),
        "pads_end": few(0, m.int(0, 1)),
        "kernel": few(1, 3),
        "auto_pad": m.pick(["explicit", "explicit", "same_upper", "same_lower", "valid"]),
        "output_padding": (),
    }


def _convolution(m: Maker, cls: type[Op]) -> Value | None:
    found = image(m)
    if found is None:
        return None
    x, t = found
    rank = len(t.shape or ()) - 2
    window = _window(m, rank)
    op = m.attributes(cls, **window)
    channels = _static(t, 1) or 1
    grouped, back = cls.kind.startswith("Group"), "Backprop" in cls.kind
    groups = m.pick([g for g in range(1, channels + 1) if channels % g == 0]) if grouped else 1
    outs = m.pick([1, 2, 4, 16, 17])
    pair = [channels // groups, outs] if back else [outs, channels // groups]
    shape = [*([groups] if grouped else []), *pair, *window["kernel"]]
    return None if op is None else m.add(op, x, m.numbers(t.dtype, shape))


def _pool(m: Maker, cls: type[Op]) -> Value | None:
    found = image(m)
    if found is None:
        return None
    x, t = found
    op = m.attributes(cls, **_window(m, len(t.shape or ()) - 2))
    return None if op is None else m.add(op, x)


def _recurrent(m: Maker, cls: type[Op]) -> Value | None:
    sequence = not cls.kind.endswith("Cell")
    rank = 3 if sequence else 2
    x = m.value(lambda t: t.shape is not None and len(t.shape) == rank
                and isinstance(t.shape[-1], int) and t.dtype is DType.f32)  # fmt: skip
    if x is None:
        return None
    t = m.type(x)
    hidden, features = m.pick([1, 2, 3, 5, 16]), _static(t, -1) or 1
    gates = 1 if "RNN" in cls.kind else 3 if "GRU" in cls.kind else 4
    direction = m.pick(["forward", "reverse", "bidirectional"]) if sequence else "forward"
    both = 2 if direction == "bidirectional" else 1
    linear = bool(m.int(0, 1))
    op = m.attributes(
        cls, hidden_size=hidden, direction=direction, clip=m.pick([0.0, 0.0, 0.5]),
        activations=(), activations_alpha=(), activations_beta=(), linear_before_reset=linear,
    )  # fmt: skip
    batch = _static(t, 0)
    if op is None or batch is None:
        return None
    front = [both] if sequence else []
    state = [batch, both, hidden] if sequence else [batch, hidden]
    make = lambda *shape: m.numbers(DType.f32, shape)  # noqa: E731
    states = [make(*state) for _ in range(2 if gates == 4 else 1)]
    lengths: list[Value] = []
    if sequence:
        steps = _static(t, 1)
        if steps is None:
            return None
        low = 0 if m.int(0, 1) else steps
        lengths = [m.constant(m.ints(batch, low, steps), DType.i64)]
        known = m.value(lambda t: t.shape == (batch,) and t.dtype is DType.i64)
        if known is not None and m.int(0, 1):  # told at run time
            limited = m.add(Clamp(float(low), float(steps)), known)
            lengths = lengths if limited is None else [limited]
    rows = 4 if gates == 3 and linear else gates
    weights = [make(*front, gates * hidden, features), make(*front, gates * hidden, hidden)]
    more = [make(*front, 3 * hidden)] if cls.kind == "PeepholeLSTM" and m.int(0, 1) else []
    return m.add(op, x, *states, *lengths, *weights, make(*front, rows * hidden), *more)


def _norm(m: Maker, cls: type[Op]) -> Value | None:
    found = image(m, 2)
    if found is None:
        return None
    x, t = found
    channels = _static(t, 1) or 1
    op = m.attributes(cls, num_groups=m.pick([g for g in (1, 2, 3, 4) if channels % g == 0]),
                      epsilon=m.pick([1e-5, 0.5]))  # fmt: skip
    per = [m.numbers(t.dtype, [channels]) for _ in range(3)]
    if op is None:
        return None
    if cls.kind == "GroupNormalization":
        return m.add(op, x, *per[:2])
    variance = m.constant(np.arange(channels) + 1, t.dtype)
    if cls.version == 1:
        return m.add(op, *per[:2], x, per[2], variance)
    return m.add(op, x, *per, variance)


def _layer_norm(m: Maker, cls: type[Op]) -> Value | None:
    x = m.value(lambda t: bool(t.shape) and t.dtype.is_float and isinstance(t.shape[-1], int))
    op = m.attributes(cls, axis=-1, eps=m.pick([1e-5, 0.5]))
    if x is None or op is None:
        return None
    t = m.type(x)
    return m.add(op, x, m.numbers(t.dtype, [_static(t, -1) or 1]), *(
        [m.numbers(t.dtype, [_static(t, -1) or 1])] if m.int(0, 1) else []))  # fmt: skip


def _attention(m: Maker, cls: type[Op]) -> Value | None:
    q = m.value(lambda t: t.shape is not None and len(t.shape) in (3, 4) and t.dtype.is_float
                and isinstance(t.shape[-1], int))  # fmt: skip
    op = m.attributes(cls)
    if q is None or op is None:
        return None
    k = m.value(lambda t: t == m.type(q)) or q
    return m.add(op, q, k, m.value(lambda t: t == m.type(q)) or q)


def _pads(m: Maker, cls: type[Op]) -> Value | None:
    x, op = m.value(), m.attributes(cls)
    if x is None or op is None:
        return None
    t = m.type(x)
    rank = len(t.shape or ())
    low = 0 if cls.version == 1 else -1
    begin, end = (m.constant(m.ints(rank, low, 2), DType.i64) for _ in range(2))
    return m.add(op, x, begin, end, *([m.numbers(t.dtype, [])] if m.int(0, 1) else []))


def _slice(m: Maker, cls: type[Op]) -> Value | None:
    x = m.value(lambda t: bool(t.shape))
    if x is None:
        return None
    rank = len(m.type(x).shape or ())
    axes = m.shuffled(rank)[: m.int(1, rank)]
    start, stop = (m.constant(m.ints(len(axes), -4, 5), DType.i64) for _ in range(2))
    steps = m.constant([m.pick([1, 1, 2, -1, -2, 3]) for _ in axes], DType.i64)
    op = m.attributes(cls)
    return None if op is None else m.add(op, x, start, stop, steps, m.constant(axes, DType.i64))


def _strided_slice(m: Maker, cls: type[Op]) -> Value | None:
    x = m.value(lambda t: bool(t.shape))
    if x is None:
        return None
    count = m.int(1, len(m.type(x).shape or ()))
    masks = {a.name: tuple(m.ints(count, 0, 1)) if m.int(0, 1) else (0,) * count
             for a in cls.attributes()}  # fmt: skip
    begin, end = (m.constant(m.ints(count, -3, 4), DType.i64) for _ in range(2))
    steps = m.constant([m.pick([1, 1, 2, -1]) for _ in range(count)], DType.i64)
    return m.add(cls(**masks), x, begin, end, steps)


def _gather(m: Maker, cls: type[Op]) -> Value | None:
    x = m.value(lambda t: bool(t.shape))
    op = m.attributes(cls)
    if x is None or op is None:
        return None
    rank = len(m.type(x).shape or ())
    shape = [m.int(1, 3) for _ in range(m.int(0, 2))]
    indices = m.constant(np.asarray(m.ints(int(np.prod(shape)), -1, 1)).reshape(shape), DType.i64)
    return m.add(op, x, indices, m.constant(m.int(-rank, rank - 1), DType.i64))


def _along(m: Maker, cls: type[Op]) -> Value | None:
    """GatherElements and the scatters of elements: indices of the data's rank."""
    x = m.value(lambda t: bool(t.shape) and t.is_static)
    if x is None:
        return None
    t = m.type(x)
    sizes = [int(d) for d in t.shape or ()]
    axis = m.int(0, len(sizes) - 1)
    shape = [m.int(1, d) if d else 0 for d in sizes]
    if not sizes[axis] or 0 in shape:
        return None
    rng = np.random.default_rng(m.int(0, 9))
    indices = m.constant(rng.integers(-sizes[axis], sizes[axis], shape), DType.i64)
    op = m.attributes(cls, axis=axis)
    if op is None:
        return None
    if cls.kind == "GatherElements":
        return m.add(op, x, indices)
    return m.add(op, x, indices, m.numbers(t.dtype, shape), m.constant(axis, DType.i64))


def _resize(m: Maker, cls: type[Op]) -> Value | None:
    found = image(m)
    if found is None:
        return None
    x, t = found
    rank = len(t.shape or ())
    by_sizes = bool(m.int(0, 1))
    op = m.attributes(cls, shape_calculation_mode="sizes" if by_sizes else "scales",
                      mode=m.pick(["nearest", "linear", "linear_onnx", "cubic"]),
                      antialias=False, pads_begin=(), pads_end=(), cube_coeff=-0.75)  # fmt: skip
    if op is None:
        return None
    count = m.int(1, rank - 2)
    axes = m.constant(list(range(rank - count, rank)), DType.i64)
    sizes = m.constant(m.ints(count, 1, 6), DType.i64)
    scales = m.constant([m.pick([0.5, 1.0, 2.0, 1.5]) for _ in range(count)], DType.f32)
    if cls.version == 4:
        return m.add(op, x, sizes, scales, axes)
    return m.add(op, x, sizes if by_sizes else scales, axes)


def _along_one(m: Maker) -> tuple[Value, TensorType, int]:
    """A value, its type and one of its axes."""
    x = m.value(lambda t: bool(t.shape))
    if x is None:
        raise Misfit
    t = m.type(x)
    return x, t, m.int(0, len(t.shape or ()) - 1)


def _split(m: Maker, cls: type[Op]) -> Value | None:
    x, t, axis = _along_one(m)
    size, where = _static(t, axis), m.constant(axis, DType.i64)
    if cls.kind == "Split":
        count = m.pick([c for c in range(1, 9) if (size or 1) % c == 0])
        return m.add(cls(num_splits=count), x, where)  # type: ignore[call-arg]
    first = m.int(0, size or 1)
    rest = -1 if m.int(0, 1) else (size or 1) - first
    return m.add(cls(num_outputs=2), x, where, m.constant([first, rest], DType.i64))  # type: ignore[call-arg]


def _top(m: Maker, cls: type[Op]) -> Value | None:
    x, t, axis = _along_one(m)
    op = m.attributes(cls, axis=axis)
    k = m.int(1, _static(t, axis) or 2)
    return None if op is None else m.add(op, x, m.constant(k, DType.i64))


def _scan(m: Maker, cls: type[Op]) -> Value | None:
    x, _, axis = _along_one(m)
    op = m.attributes(cls)
    return None if op is None else m.add(op, x, m.constant(axis, DType.i64))


def _fake_quantize(m: Maker, cls: type[Op]) -> Value | None:
    x = m.value(lambda t: t.dtype.is_float)
    if x is None:
        return None
    t = m.type(x)
    low, high = m.pick([-1.0, -4.0, 0.0]), m.pick([1.0, 4.0, 2.5])
    ends = [m.constant(v, t.dtype) for v in (low, high, low, high)]
    op = m.attributes(cls, levels=m.pick([2, 16, 255, 256]), auto_broadcast="numpy")
    return None if op is None else m.add(op, x, *ends)


def _reshape(m: Maker, cls: type[Op]) -> Value | None:
    x = m.value(lambda t: t.shape is not None)
    op = m.attributes(cls)
    if x is None or op is None:
        return None
    sizes = [d if isinstance(d, int) else -1 for d in m.type(x).shape or ()]
    cut = m.int(0, len(sizes))
    wanted = m.pick([[*sizes[:cut], -1], [-1, *sizes[cut:]], [*sizes, 1], [1, *sizes], [-1]])
    return m.add(op, x, m.constant(wanted, DType.i64))


RECIPES: dict[str, Callable[[Maker, type[Op]], Value | None]] = {
    **dict.fromkeys(("MatMul", "Gemm"), _matmul),
    **dict.fromkeys(
        ("Convolution", "GroupConvolution", "ConvolutionBackpropData",
         "GroupConvolutionBackpropData"), _convolution),
    **dict.fromkeys(("MaxPool", "AvgPool"), _pool),
    **dict.fromkeys(
        ("RNNCell", "GRUCell", "LSTMCell", "RNNSequence", "GRUSequence", "LSTMSequence",
         "PeepholeLSTM"), _recurrent),
    **dict.fromkeys(("BatchNormInference", "GroupNormalization"), _norm),
    **dict.fromkeys(("LayerNorm", "RMSNorm"), _layer_norm),
    **dict.fromkeys(("GatherElements", "ScatterElementsUpdate"), _along),
    **dict.fromkeys(("Split", "VariadicSplit"), _split),
    "ScaledDotProductAttention": _attention,
    "Pad": _pads,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
    "Gather": _gather,
    "Interpolate": _resize,
    "TopK": _top,
    **dict.fromkeys(("CumSum", "CumProd"), _scan),
    **dict.fromkeys(("GatherND", "ScatterNDUpdate", "ScatterUpdate"), points),
    **dict.fromkeys(("AdaptiveAvgPool", "AdaptiveMaxPool"), adaptive),
    **dict.fromkeys(("DFT", "IDFT", "RDFT", "IRDFT"), transform),
    "ROIAlign": regions,
    "STFT": frames,
    "FakeQuantize": _fake_quantize,
    "Reshape": _reshape,
}  # fmt: skip
