"""onnxruntime's LinearAttention, GatedDeltaNet and LinearAttentionGate (domain com.microsoft), as
Qwen3.5, Mamba and their like have them: a recurrence over tokens, as a Scan.

Sizes: batch B, tokens T, heads of keys and values N, queries of each G, sizes of keys K and of
values V. Source: the operators' schemas.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.lazy_dataclass import dataclass
from ......ir.ops import (
    Add,
    Broadcast,
    Concat,
    Exp,
    Gather,
    Multiply,
    Negative,
    NormalizeL2,
    Reshape,
    Sigmoid,
    SoftPlus,
    Transpose,
    Unsqueeze,
    VariadicSplit,
)
from ..elementary import convert_value, size_of
from .packed_sequences import PackedSequences, find_sequences, pack_sequences, pad_sequences

if TYPE_CHECKING:
    from onnx import FunctionProto

    from ...import_context import ImportContext, Imported, ImportFunction

_RULES = ("linear", "gated", "delta", "gated_delta")


@dataclass(frozen=True)
class _Recurrence:
    """Inputs [B, T, heads, size] in f32; `decay` [B, T, N, K or 1] is a logarithm, `rate`
    [B, T, N or 1, 1]; `state` [B, N, K, V]."""

    query: Value
    key: Value
    value: Value
    decay: Value | None
    rate: Value | None
    state: Value


def _recurrence_function(decay: bool, delta: bool) -> FunctionProto:
    """S = decay * S + k (rate * (v - S^T k))^T, o = q^T S over the first axis of all inputs but the
    state."""
    from onnx import parser

    names = ["q", "k", "v", *(["g"] if decay else []), *(["b"] if delta else [])]
    listed = ", ".join(names)
    steps = ["e = Unsqueeze (g, last)", "t = Mul (s, e)"] if decay else ["t = Identity (s)"]
    steps += ["c = Unsqueeze (k, last)"]
    if delta:
        steps += ["r = Unsqueeze (k, before)", "m = MatMul (r, t)", "w = Unsqueeze (v, before)",
                  "x = Sub (w, m)", "y = Unsqueeze (b, before)", "d = Mul (y, x)"]  # fmt: skip
    else:
        steps += ["d = Unsqueeze (v, before)"]
    steps += ["p = Mul (c, d)", "z = Add (t, p)", "o = MatMul (q, z)"]
    body = f"step (s, {listed}) => (z, o) {{ {' '.join(steps)} }}"
    text = f"""<domain: "irc", opset_import: ["": 17]>
    Recurrence (s0, {listed}) => (final, found)
    {{
      last = Constant <value = int64[1] {{-1}}> ()
      before = Constant <value = int64[1] {{-2}}> ()
      final, found = Scan <num_scan_inputs = {len(names)}, body: graph = {body}> (s0, {listed})
    }}"""
    return parser.parse_function(text)


def _run(n: ImportContext, given: _Recurrence, scale: float) -> tuple[Value, Value]:
    """Outputs [B, T, N * G, V], and the last state."""
    order = n.ints_value([1, 0, 2, 3])
    heads = n.shape(given.key)
    assert heads is not None
    query = n.add(Multiply(), given.query, n.like(given.query, scale))
    groups = n.ints_value([0, 0, int(heads[2]), -1, int(heads[3])])  # type: ignore[arg-type]
    query = n.add(Reshape(special_zero=True), query, groups)
    inputs: list[Value] = [n.add(Transpose(), query, n.ints_value([1, 0, 2, 3, 4]))]
    inputs += [n.add(Transpose(), v, order) for v in (given.key, given.value)]
    decay = None if given.decay is None else n.add(Exp(), given.decay)
    inputs += [n.add(Transpose(), v, order) for v in (decay, given.rate) if v is not None]
    function = _recurrence_function(given.decay is not None, given.rate is not None)
    final, found = n.inline_function(function, [given.state, *inputs])
    rows = n.add(Transpose(), found, n.ints_value([1, 0, 2, 3, 4]))
    width = n.shape(given.value)
    assert width is not None
    merged = n.ints_value([0, 0, -1, int(width[3])])  # type: ignore[arg-type]
    return n.add(Reshape(special_zero=True), rows, merged), final


def _update_rule(n: ImportContext) -> str:
    rule = n.text("update_rule", "gated_delta")
    if rule not in _RULES:
        raise n.error("unknown update_rule", got=rule, expected=", ".join(_RULES))
    return rule


def _static_size(n: ImportContext, x: Value, axis: int) -> int:
    shape = n.shape(x)
    if shape is None or not isinstance(shape[axis], int):
        raise n.unsupported_error(f"{n.op_type} of an unknown head size")
    return int(shape[axis])  # type: ignore[arg-type]


def linear_attention(n: ImportContext) -> Imported:
    """Queries, keys and values [B, T, heads * size]. Decays are per head or per element of keys."""
    n.has("chunk_size")
    rule = _update_rule(n)
    if n.integer("state_window", 0):
        raise n.unsupported_error(f"{n.op_type} with a window of states (CUDA only)")
    queries, heads = n.integer("q_num_heads"), n.integer("kv_num_heads")
    if min(queries, heads) < 1 or (queries % heads and heads % queries):
        raise n.type_error("neither number of heads divides the other", got=f"{queries}, {heads}")
    width = _static_size(n, n.input(0), 2) // queries
    query = _split(n, n.input(0), queries)
    if heads > queries:
        query = _repeat_heads(n, query, heads // queries)
    key, value = (_split(n, n.input(i), heads) for i in (1, 2))
    decay = _split(n, n.input(4), heads) if "gated" in rule else None
    rate = None
    if "delta" in rule:
        rate = n.add(Unsqueeze(), n.input(5), n.ints_value([3]))
    past = n.optional(3)
    if past is None:
        sizes = [size_of(n, key, 0), n.ints_value([heads]), size_of(n, key, 3)]
        shape = n.add(Concat(axis=0), *sizes, size_of(n, value, 3))
        past = n.add(Broadcast(), n.like(key, 0), shape)
    scale = n.number("scale", 0.0) or 1 / math.sqrt(width)
    given = _Recurrence(query, key, value, decay, rate, past)
    found, state = _run(n, given, scale)
    result = n.add(Reshape(special_zero=True), found, n.ints_value([0, 0, -1]))
    return [result, state]


def _split(n: ImportContext, x: Value, heads: int) -> Value:
    """[B, T, heads * size] as [B, T, heads, size]."""
    shape = n.shape(x)
    size = -1
    if shape is not None and isinstance(shape[2], int):
        size = shape[2] // heads
    return n.add(Reshape(special_zero=True), x, n.ints_value([0, 0, heads, size]))


def _repeat_heads(n: ImportContext, x: Value, times: int) -> Value:
    """[B, T, heads, size], each head so many times, next to itself."""
    heads = _static_size(n, x, 2)
    index = n.ints_value(i // times for i in range(heads * times))
    return n.add(Gather(), x, index, n.int_value(2))


def linear_attention_gate(n: ImportContext) -> Imported:
    """decay_scale * softplus(a + dt_bias) in f32, and sigmoid(b)."""
    x, second = n.input(0), n.optional(3)
    wide = n.add(SoftPlus(), n.add(Add(), convert_value(n, x, DType.f32), n.input(1)))
    decay = convert_value(n, n.add(Multiply(), wide, n.input(2)), n.dtype(x))
    if second is None:
        return [decay]
    rate = n.add(Sigmoid(), convert_value(n, second, DType.f32))
    return [decay, convert_value(n, rate, n.dtype(x))]


def gated_delta_net(n: ImportContext) -> Imported:
    """Tokens [T, heads, size] of several sequences, or [B, T, heads, size]; states [B, N, V, K]."""
    n.has("chunk_size")
    rule, capacity = _update_rule(n), n.integer("state_update_capacity", 0)
    if capacity or n.optional(9) is not None:
        raise n.unsupported_error(f"{n.op_type} with the updates of its state as output")
    query, key, value = _queries_keys_values(n)
    dtype, rank, packed = n.dtype(n.input(0)), n.rank(query), n.optional(3)
    decay, rate = _gates(n, rule, key, value)
    parts = [query, key, value, decay, rate]
    sequences: PackedSequences | None = None
    if packed is not None:
        sequences = find_sequences(n, packed, query)
        parts = [None if v is None else pad_sequences(n, sequences, v) for v in parts]
    elif rank == 3:
        batch = size_of(n, n.input(6), 0)
        parts = [None if v is None else _divide(n, v, batch) for v in parts]
    query, key, value, decay, rate = parts
    assert query is not None and key is not None and value is not None
    heads, values = _static_size(n, key, 2), _static_size(n, value, 2)
    if values % heads:
        raise n.type_error(
            "the number of heads of values must be a multiple of that of keys", got=values
        )
    query, key = (_repeat_heads(n, v, values // heads) for v in (query, key))
    if rate is not None:
        rate = n.add(Unsqueeze(), rate, n.ints_value([3]))
    past, turned = n.optional(6), n.ints_value([0, 1, 3, 2])
    if past is None:
        sizes = [size_of(n, key, 0), size_of(n, key, 2), size_of(n, key, 3)]
        shape = n.add(Concat(axis=0), *sizes, size_of(n, value, 3))
        past = n.add(Broadcast(), n.like(key, 0), shape)
    else:
        past = n.add(Transpose(), past, turned)
    scale = n.number("scale", 0.0) or 1 / math.sqrt(_static_size(n, key, 3))
    found, state = _run(n, _Recurrence(query, key, value, decay, rate, past), scale)
    if sequences is not None:
        found = pack_sequences(n, sequences, found)
    elif rank == 3:
        sizes = n.ints_value([-1, values, _static_size(n, value, 3)])
        found = n.add(Reshape(), found, sizes)
    return [convert_value(n, found, dtype), n.add(Transpose(), state, turned)]


def _divide(n: ImportContext, x: Value, batch: Value) -> Value:
    """[B * T, ...] as [B, T, ...]."""
    rest = [size_of(n, x, axis) for axis in range(1, n.rank(x))]
    return n.add(Reshape(), x, n.add(Concat(axis=0), batch, n.ints_value([-1]), *rest))


def _queries_keys_values(n: ImportContext) -> tuple[Value, Value, Value]:
    """In f32, apart; joined they are cut by the sizes of the state."""
    query, key, value = n.input(0), n.optional(1), n.optional(2)
    if key is None or value is None:
        state = n.input(6)
        heads, width, size = (_static_size(n, state, axis) for axis in (1, 2, 3))
        total = _static_size(n, query, -1)
        queries = (total - heads * width) // (2 * size)
        axis = n.rank(query) - 1
        lengths = n.ints_value([queries * size, queries * size, heads * width])
        parts = n.add_all(VariadicSplit(num_outputs=3), query, n.int_value(axis), lengths)
        counts = ((queries, size), (queries, size), (heads, width))
        query, key, value = (
            n.add(Reshape(special_zero=True), v, n.ints_value([0] * axis + [*count]))
            for v, count in zip(parts, counts, strict=True)
        )
    query, key, value = (convert_value(n, v, DType.f32) for v in (query, key, value))
    if n.flag("qk_l2_norm"):
        axes = n.ints_value([n.rank(query) - 1])
        query, key = (n.add(NormalizeL2(1e-6, "add"), v, axes) for v in (query, key))
    return query, key, value


def _gates(
    n: ImportContext, rule: str, key: Value, value: Value
) -> tuple[Value | None, Value | None]:
    """Decay [..., N, K or 1] as a logarithm, and rate [..., N], in f32."""
    decay: Value | None = None
    rank, kind = n.rank(key), n.text("gate_activation", "none")
    lower = n.number("gate_lower_bound", -5.0)
    if "gated" in rule:
        decay = convert_value(n, n.input(4), DType.f32)
        if n.rank(decay) == rank - 1:
            decay = n.add(Unsqueeze(), decay, n.ints_value([rank - 1]))
        if kind != "none":
            decay = _activate_decay(n, decay, kind, lower, _static_size(n, value, rank - 2))
    rate: Value | None = None
    activation = n.text("beta_activation", "none")
    if "delta" in rule:
        rate = convert_value(n, n.input(5), DType.f32)
        if activation == "sigmoid":
            rate = n.add(Sigmoid(), rate)
        elif activation != "none":
            raise n.error("unknown beta_activation", got=activation, expected="none or sigmoid")
    return decay, rate


def _activate_decay(n: ImportContext, decay: Value, kind: str, lower: float, heads: int) -> Value:
    """-exp(a_log) softplus(decay + bias), or lower * sigmoid(exp(a_log) (decay + bias))."""
    bias = n.optional(8)
    if bias is not None:
        bias = n.add(Reshape(), bias, n.ints_value([heads, -1]))
        decay = n.add(Add(), decay, bias)
    factor = n.add(Exp(), n.add(Unsqueeze(), n.input(7), n.ints_value([1])))
    if kind in ("softplus", "qwen"):
        return n.add(Multiply(), n.add(Negative(), factor), n.add(SoftPlus(), decay))
    if kind in ("sigmoid", "kda"):
        inner = n.add(Sigmoid(), n.add(Multiply(), factor, decay))
        return n.add(Multiply(), inner, n.like(inner, lower))
    raise n.error("unknown gate_activation", got=kind, expected="none, softplus or sigmoid")


_MS = "com.microsoft::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    f"{_MS}LinearAttention": {1: linear_attention},
    f"{_MS}LinearAttentionGate": {1: linear_attention_gate},
    f"{_MS}GatedDeltaNet": {1: gated_delta_net},
}
