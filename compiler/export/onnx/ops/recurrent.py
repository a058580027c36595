"""RNN, GRU and LSTM: OpenVINO's layouts and gate orders to ONNX's.

Ours have the batch first, gates f i c o (LSTM) and z r h (GRU), and one bias; ONNX has time first,
gates i o f c and z r h, and two biases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .....ir.dtype import DType
from .....ir.ops import ACTIVATIONS, GRUSequence, LSTMSequence, PeepholeLSTM, RNNSequence
from ..context import ExportContext, Exported, ExportFunction

_NAMES = {
    "tanh": ("Tanh", 0),
    "relu": ("Relu", 0),
    "sigmoid": ("Sigmoid", 0),
    "softsign": ("Softsign", 0),
    "softplus": ("Softplus", 0),
    "hard_sigmoid": ("HardSigmoid", 2),
    "leaky_relu": ("LeakyRelu", 1),
    "elu": ("Elu", 1),
    "thresholded_relu": ("ThresholdedRelu", 1),
    "linear": ("Affine", 2),
    "scaled_tanh": ("ScaledTanh", 2),
}
_Layer = RNNSequence | GRUSequence | LSTMSequence | PeepholeLSTM


def _swap(n: ExportContext, name: str) -> str:
    """The first two of three axes swapped."""
    return n.transpose(name, [1, 0, 2])


def _activations(n: ExportContext, op: _Layer) -> dict[str, Any]:
    """Names, and the parameters that those have which take any, per direction."""
    names: list[str] = []
    lists: tuple[list[float], list[float]] = ([], [])
    for number in range(len(op.defaults)):
        name, given = op.activation(number)
        if name not in _NAMES:
            raise n.error(f"the activation {name}")
        onnx_name, count = _NAMES[name]
        names.append(onnx_name)
        defaults = [float(v) for _, v in ACTIVATIONS[name].parameters]
        values = [*given, *defaults[len(given) :]]
        for i in range(count):
            lists[i].append(values[i])
    times = op.directions()
    found: dict[str, Any] = {"activations": names * times}
    for key, values in zip(("activation_alpha", "activation_beta"), lists, strict=True):
        if values:
            found[key] = values * times
    return found


def _reorder_gates(n: ExportContext, port: int, order: Sequence[int], axis: int = 1) -> str:
    """A weight or bias with its gates in ONNX's order; a constant is written so."""
    if list(order) == sorted(order):
        return n.input(port)
    data = n.constant_data(port)
    if data is not None:
        parts = np.split(data, len(order), axis)
        joined = np.concatenate([parts[i] for i in order], axis)
        value = n.value(port)
        label = n.graph.node(value.node).name if value is not None else ""
        return n.writer.initializer(joined, n.dtype(port), n.where, label or "weights")
    count = len(order) if n.has_attribute("Split", "num_outputs") else None
    parts = n.add_all("Split", [n.input(port)], len(order), axis=axis, num_outputs=count)
    return n.add("Concat", *(parts[i] for i in order), axis=axis)


def _bias(n: ExportContext, op: _Layer, port: int, order: Sequence[int]) -> str | None:
    """The bias of inputs as ours, that of states as zeros; with linear_before_reset the last part
    of ours is the hidden gate's own."""
    if n.optional(port) is None:
        return None
    hidden, count = op.hidden_size, op.gates
    directions = op.directions()
    if isinstance(op, GRUSequence) and op.linear_before_reset:
        bias = n.input(port)
        inputs = n.slice(bias, 0, 3 * hidden, 1)
        state = n.slice(bias, 3 * hidden, 4 * hidden, 1)
        zeros = n.constant(np.zeros((directions, 2 * hidden)), n.dtype(port))
        return n.add("Concat", inputs, zeros, state, axis=1)
    zeros = n.constant(np.zeros((directions, count * hidden)), n.dtype(port))
    return n.add("Concat", _reorder_gates(n, port, order), zeros, axis=1)


def _layer(op_type: str, states: int, order: Sequence[int]) -> ExportFunction:
    def export(n: ExportContext) -> Exported:
        op = n.op
        assert isinstance(op, _Layer)
        if not n.takes(op_type, n.dtype(0)):
            raise n.error(f"{n.dtype(0)} data")
        at = 1 + states
        w, r = (_reorder_gates(n, at + 1 + i, order) for i in range(2))
        inputs: list[str | None] = [_swap(n, n.input(0)), w, r, _bias(n, op, at + 3, order)]
        inputs.append(n.input_as(at, DType.i32))
        inputs += [_swap(n, n.input(1 + i)) for i in range(states)]
        attributes = _activations(n, op)
        if isinstance(op, PeepholeLSTM):
            inputs.append(n.optional(at + 4))
            attributes["input_forget"] = int(op.coupled)
        if isinstance(op, GRUSequence):
            attributes["linear_before_reset"] = int(op.linear_before_reset)
        attributes |= {
            "hidden_size": op.hidden_size,
            "direction": op.direction.lower(),
            "clip": op.clip if op.clip > 0 else None,
        }
        y, *last = n.add_all(op_type, inputs, 1 + states, **attributes)
        return [n.transpose(y, [2, 1, 0, 3]), *(_swap(n, v) for v in last)]

    return export


_LSTM_GATES = (1, 3, 0, 2)
EXPORTERS: dict[str, ExportFunction] = {
    "RNNSequence": _layer("RNN", 1, (0,)),
    "GRUSequence": _layer("GRU", 1, (0, 1, 2)),
    "LSTMSequence": _layer("LSTM", 2, _LSTM_GATES),
    "PeepholeLSTM": _layer("LSTM", 2, _LSTM_GATES),
}
