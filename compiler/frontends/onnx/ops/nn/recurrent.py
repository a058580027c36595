"""RNN, GRU and LSTM: ONNX's layouts and gate orders to OpenVINO's sequences.

ONNX has time first, [T, N, I], states [D, N, H], gates i o f c (LSTM) and z r h (GRU), and two
biases; ours have the batch first, gates f i c o and z r h, and one bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ......ir.graph import Value
from ......ir.ops import (
    Add,
    Broadcast,
    Concat,
    Dequantize,
    Gather,
    GRUSequence,
    LSTMSequence,
    PeepholeLSTM,
    RNNSequence,
    Split,
    Transpose,
)
from ..elementary import size_of, unsqueeze_value

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction

_DIRECTIONS = ("forward", "reverse", "bidirectional")
# ONNX's names in lower case to ours, and the parameters each has by default (alpha, beta).
_ACTIVATIONS: dict[str, tuple[str, tuple[float, ...]]] = {
    "tanh": ("tanh", ()),
    "relu": ("relu", ()),
    "sigmoid": ("sigmoid", ()),
    "softsign": ("softsign", ()),
    "softplus": ("softplus", ()),
    "hardsigmoid": ("hardsigmoid", (0.2, 0.5)),
    "leakyrelu": ("leakyrelu", (0.01,)),
    "elu": ("elu", (1.0,)),
    "thresholdedrelu": ("thresholdedrelu", (1.0,)),
    "affine": ("affine", (1.0, 0.0)),
    "scaledtanh": ("scaledtanh", (1.0, 1.0)),
}


class _RecurrentImporter:
    """What the three operators share: attributes, layouts, states."""

    def __init__(self, n: ImportContext, defaults: Sequence[str]) -> None:
        self.n = n
        # "foward" is the default of version 1 of GRU.
        self.direction = n.text("direction", "forward").lower().replace("foward", "forward")
        if self.direction not in _DIRECTIONS:
            raise n.error("unknown direction", got=self.direction, expected=", ".join(_DIRECTIONS))
        self.batch_first = n.flag("layout")
        n.has("output_sequence")  # before version 7: the outputs that have a name say the same
        self.count = 2 if self.direction == "bidirectional" else 1
        recurrence = n.shape(n.input(2))
        hidden = n.integer("hidden_size", 0) or (recurrence[-1] if recurrence else None)
        if not isinstance(hidden, int):
            raise n.unsupported_error("a recurrent operator of unknown hidden size")
        self.hidden = hidden
        self.attributes: dict[str, Any] = {
            "hidden_size": hidden,
            "clip": n.number("clip", 0.0),
        }
        # One entry for all directions, or one for each.
        self.styles = self._activations(defaults)
        x = n.input(0)
        self.x = x if self.batch_first else self.swap_axes(x)
        self.batch = size_of(n, self.x, 0)

    def _activations(self, defaults: Sequence[str]) -> list[dict[str, Any]]:
        n, size = self.n, len(defaults)
        names = [name.lower() for name in n.texts("activations", [])] or list(defaults)
        unknown = [name for name in names if name not in _ACTIVATIONS]
        if unknown:
            raise n.unsupported_error(f"the activation {unknown[0]}")
        if len(names) not in (size, size * self.count):
            raise n.error(
                "another number of activations", got=len(names), expected=size * self.count
            )
        left = [n.numbers("activation_alpha", []), n.numbers("activation_beta", [])]
        plain = not any(left) and not any(_ACTIVATIONS[name][1] for name in names)
        styles: list[dict[str, Any]] = []
        for first in range(0, len(names), size):
            own = [_ACTIVATIONS[name] for name in names[first : first + size]]
            style: dict[str, Any] = {"activations": tuple(name for name, _ in own)}
            if not plain:
                # Only activations that have the parameter take one from the list.
                taken = [
                    [v.pop(0) if v and len(p) > i else (*p, 0, 0)[i] for i, v in enumerate(left)]
                    for _, p in own
                ]
                style["activations_alpha"] = tuple(alpha for alpha, _ in taken)
                style["activations_beta"] = tuple(beta for _, beta in taken)
            styles.append(style)
        return styles if any(style != styles[0] for style in styles) else styles[:1]

    def layer(
        self,
        kind: type[RNNSequence | GRUSequence | LSTMSequence | PeepholeLSTM],
        states: Sequence[Value],
        weights: Sequence[Value | None],
        **more: Any,
    ) -> list[Value]:
        """The layer's outputs in ONNX's layout; directions whose activations differ are layers of
        their own."""
        lengths = self.lengths()
        if len(self.styles) == 1:
            op = kind(**self.attributes, direction=self.direction, **self.styles[0], **more)
            return self.outputs(self.n.add_all(op, self.x, *states, lengths, *weights))
        halves: list[list[Value]] = []
        for number, (direction, style) in enumerate(zip(_DIRECTIONS, self.styles, strict=False)):
            op = kind(**self.attributes, direction=direction, **style, **more)
            own = [self._take_half(v, 1, number) for v in states]
            parts = [None if v is None else self._take_half(v, 0, number) for v in weights]
            halves.append(self.n.add_all(op, self.x, *own, lengths, *parts))
        return self.outputs([self.n.add(Concat(1), *pair) for pair in zip(*halves, strict=True)])

    def _take_half(self, value: Value, axis: int, number: int) -> Value:
        return self.n.add_all(Split(2), value, self.n.int_value(axis))[number]

    def swap_axes(self, value: Value) -> Value:
        """The first two of three axes swapped."""
        return self.n.add(Transpose(), value, self.n.ints_value([1, 0, 2]))

    def state(self, i: int) -> Value:
        """An initial state as [N, D, H]: input i, or zeros."""
        n, value = self.n, self.n.optional(i)
        if value is not None:
            return value if self.batch_first else self.swap_axes(value)
        sizes = n.add(Concat(0), self.batch, n.ints_value([self.count, self.hidden]))
        return n.add(Broadcast(), n.like(n.input(0), 0), sizes)

    def lengths(self) -> Value:
        """Lengths of the sequences, all of them whole where they are absent."""
        n, value = self.n, self.n.optional(4)
        if value is not None:
            return value
        time = n.add(Gather(), size_of(n, self.x, 1), n.int_value(0), n.int_value(0))
        return n.add(Broadcast(), time, self.batch)

    def gates(self, value: Value, order: Sequence[int]) -> list[Value]:
        """The parts of a weight or bias [D, G * H, ...] along axis 1, in an order."""
        parts = self.n.add_all(Split(len(order)), value, self.n.int_value(1))
        return [parts[i] for i in order]

    def weight(self, value: Value, order: Sequence[int]) -> Value:
        """A weight with its gates in our order."""
        if list(order) == sorted(order):
            return value
        return self.n.add(Concat(1), *self.gates(value, order))

    def bias(self, order: Sequence[int], *, apart: bool = False) -> Value | None:
        """The sum of the two biases; with `apart`, those of the last gate stay two."""
        n, value = self.n, self.n.optional(3)
        if value is None:
            return None
        of_input, of_state = n.add_all(Split(2), value, n.int_value(1))
        first, second = self.gates(of_input, order), self.gates(of_state, order)
        tail = [first.pop(), second.pop()] if apart else []
        sums = [n.add(Add(), a, b) for a, b in zip(first, second, strict=True)]
        listed = [*sums, *tail]
        return listed[0] if len(listed) == 1 else n.add(Concat(1), *listed)

    def outputs(self, results: list[Value]) -> list[Value]:
        """Y [N, D, T, H] and states [N, D, H] in ONNX's layout."""
        n, (every, *states) = self.n, results
        order = [0, 2, 1, 3] if self.batch_first else [2, 1, 0, 3]
        last = states if self.batch_first else [self.swap_axes(s) for s in states]
        return [n.add(Transpose(), every, n.ints_value(order)), *last]


def rnn(n: ImportContext) -> Imported:
    r = _RecurrentImporter(n, ["tanh"])
    return r.layer(RNNSequence, [r.state(5)], (n.input(1), n.input(2), r.bias([0])))


def gru(n: ImportContext) -> Imported:
    r = _RecurrentImporter(n, ["sigmoid", "tanh"])
    linear = n.flag("linear_before_reset")
    order = [0, 1, 2]
    weights = (n.input(1), n.input(2), r.bias(order, apart=linear))
    return r.layer(GRUSequence, [r.state(5)], weights, linear_before_reset=linear)


def lstm(n: ImportContext, given: tuple[Value, Value] | None = None) -> Imported:
    """`given`: W and R where they are not inputs 1 and 2 as they are."""
    peepholes = n.optional(7)
    known = None if peepholes is None else n.constant_of(peepholes)
    if known is not None and not np.any(known):
        peepholes = None  # exporters write zeros
    r = _RecurrentImporter(n, ["sigmoid", "tanh", "tanh"])
    order, coupled = [2, 0, 3, 1], n.flag("input_forget")
    pair = (n.input(1), n.input(2)) if given is None else given
    weights = (*(r.weight(v, order) for v in pair), r.bias(order))
    states = [r.state(5), r.state(6)]
    if peepholes is None and not coupled:
        return r.layer(LSTMSequence, states, weights)
    return r.layer(PeepholeLSTM, states, (*weights, peepholes), coupled=coupled)


def dynamic_lstm(n: ImportContext) -> Imported:
    """onnxruntime's LSTM of 8-bit weights [D, I or H, 4 * H], as an LSTM of the numbers they encode
    for. onnxruntime rounds X and each step's states to 8 bits too, to what depends on how its
    threads share the batch; irc does not. (docs/ContribOperators.md of onnxruntime.)"""

    def weight(i: int, scale: int) -> Value:
        x = n.add(Transpose(), n.input(i), n.ints_value([0, 2, 1]))
        factor, zero = n.input(scale), n.optional(scale + 1)
        return n.add(Dequantize(), x, _of_rows(n, factor), zero and _of_rows(n, zero))

    return lstm(n, (weight(1, 8), weight(2, 10)))


def _of_rows(n: ImportContext, value: Value) -> Value:
    """A number per direction, or per direction and row of it, for weights [D, rows, columns]."""
    return unsqueeze_value(n, value, [1, 2] if n.rank(value) == 1 else [2])


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "RNN": {1: rnn},
    "GRU": {1: gru},
    "LSTM": {1: lstm},
    "com.microsoft::DynamicQuantizeLSTM": {1: dynamic_lstm},
}
